package generations

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) auditCmd() *cobra.Command {
	var index, sample string
	var repair, wait bool
	command := &cobra.Command{
		Use:   "audit",
		Short: "Check that the files and stores of an index are complete and undamaged",
		Long: `Compare the served generation of an index with the artifacts it was built from and with the stores: files
with their checksums, entities with their mentions, counters with rows, and records and vectors with what the build
wrote. With --sample 1/1, the default, the content hash is computed again, too. The audit calls no model, and it
writes nothing without --repair.

--sample n/t checks part n of t. Auditing parts 1 to t in t nights checks each entity, passage and file once.

--repair writes records and vectors again that a store lost or changed. It cannot repair a damaged file: the audit
names the file and the command that rebuilds it.

The exit codes are those of index: 0 if no difference is left, 1 if one is. A difference that is left also triggers
the webhook (failed, reason drift) and counts in unweaver_audit_drift_total.`,
		Example: "  unweaver audit docs --wait\n" +
			"  unweaver audit docs --sample $(($(date +%s) / 86400 % 7 + 1))/7 --wait --json\n" +
			"  unweaver audit docs --repair --wait",
		Args: console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			part, err := core.ParseSample(sample)
			if err != nil {
				return fault.Usage.At("read --sample", sample).Because(err).Advise("for the first of seven parts: --sample 1/7")
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				run, err := controller.AuditIndex(ctx, control.AuditRequest{Index: index, Sample: part, Repair: repair})
				if err != nil {
					return err
				}
				return a.AwaitRun(ctx, controller, run, wait || a.Started) // a stack of this command's own would end with it
			})
		},
	}
	command.Flags().StringVar(&sample, "sample", core.Everything.String(), "part n of t to look at")
	command.Flags().BoolVar(&repair, "repair", false, "write records and vectors again that a store lost or changed")
	command.Flags().BoolVar(&wait, "wait", false, "wait until it ends, and show progress")
	return console.TakeIndex(command, &index)
}
