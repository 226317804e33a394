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
		Short:   "Compare an index with what it was made of, and with what the stores hold",
		Long: `Compare the served generation of an index with what it was made of, and with what the stores hold: files with
the sums that name them, entities with their mentions, what counts with the rows, and records and vectors with those
that were written. With --sample 1/1, which is the default, the content hash is made again, too. No model is
asked, and without --repair nothing is written.

--sample n/t looks at part n of t: in t nights with parts 1 to t each entity, passage and file is looked at once.

--repair writes records and vectors again that the stores lost or have otherwise. A damaged file cannot be mended in
its place: the audit names it and the command that makes it again.

Exit codes are those of index: 0 where nothing differs any more, 1 where something is left, which also goes to the
webhook (failed, reason drift) and counted in unweaver_audit_drift_total.`,
		Example: "  unweaver audit docs --wait\n" +
			"  unweaver audit docs --sample $(($(date +%s) / 86400 % 7 + 1))/7 --wait --json\n" +
			"  unweaver audit docs --repair --wait",
		Args: requireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			part, err := core.ParseSample(sample)
			if err != nil {
				return fault.Usage.At("read --sample", sample).Because(err).Advise("give --sample 1/7 for the first of seven parts")
			}
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				run, err := controller.AuditIndex(ctx, control.AuditRequest{Index: index, Sample: part, Repair: repair})
				if err != nil {
					return err
				}
				if !wait && !a.started { // a stack of this command's own would end with it
					return a.printOut(run, func(w io.Writer) {
						fmt.Fprintf(w, "%s started; watch it with: unweaver status %s --watch\n", run.Run, run.Run)
					})
				}
				return a.waitForRun(ctx, controller, run)
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	command.Flags().StringVar(&sample, "sample", core.Everything.String(), "part n of t to look at")
	command.Flags().BoolVar(&repair, "repair", false, "write again what the stores lost")
	command.Flags().BoolVar(&wait, "wait", false, "wait for the end, with progress")
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
		fmt.Fprintln(w, "  everything is as it was written")
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
