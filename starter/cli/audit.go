package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

func (a *App) auditCmd() *cobra.Command {
	var index, sample string
	var repair, wait bool
	command := &cobra.Command{
		Use:     "audit",
		Aliases: []string{"check"},
		Short:   "Check that the files and stores of an index are complete and undamaged",
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
		Args: requireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			part, err := core.ParseSample(sample)
			if err != nil {
				return fault.Usage.At("read --sample", sample).Because(err).Advise("for the first of seven parts: --sample 1/7")
			}
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				run, err := controller.AuditIndex(ctx, control.AuditRequest{Index: index, Sample: part, Repair: repair})
				if err != nil {
					return err
				}
				if !wait && !a.started { // a stack of this command's own would end with it
					return a.printOut(run, func(w io.Writer) {
						fmt.Fprintf(w, "%s started; to watch it: unweaver status %s --watch\n", run.Run, run.Run)
					})
				}
				return a.waitForRun(ctx, controller, run)
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	command.Flags().StringVar(&sample, "sample", core.Everything.String(), "part n of t to look at")
	command.Flags().BoolVar(&repair, "repair", false, "write records and vectors again that a store lost or changed")
	command.Flags().BoolVar(&wait, "wait", false, "wait until it ends, and show progress")
	_ = command.MarkFlagRequired("index") // the flag exists
	return command
}

// showAudit prints what an audit looked at and found.
func showAudit(w io.Writer, audit core.Audit) {
	seen := audit.Checked
	fmt.Fprintf(w, "  part %s of generation %s: %s (%s), %s of %s, %s of %s, %s, %s\n", audit.Sample,
		audit.Generation, countOf(seen.Segments, "file"), core.FormatSize(seen.Bytes), countOf(seen.Mentions, "mention"),
		countOf(seen.Classes, "entity"), countOf(seen.Chunks, "passage"), countOf(seen.Documents, "document"),
		countOf(seen.Records, "record"), countOf(seen.Vectors, "vector"))
	if len(audit.Drift) == 0 {
		fmt.Fprintln(w, "  no differences")
		return
	}
	var parts []string
	for _, drift := range audit.Drift {
		part := fmt.Sprintf("%s %d", drift.Kind, drift.Found)
		if drift.Mended > 0 {
			part += fmt.Sprintf(" (%d mended)", drift.Mended)
		}
		parts = append(parts, part)
	}
	fmt.Fprintf(w, "  differs: %s; left: %d\n", strings.Join(parts, ", "), audit.Left)
	for _, found := range audit.Findings {
		fmt.Fprintf(w, "  ! %s %s: %s\n", found.Kind, found.Object, found.Why)
		if found.Remedy != "" {
			fmt.Fprintf(w, "    %s\n", found.Remedy)
		}
	}
}
