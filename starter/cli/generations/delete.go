package generations

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) deleteCmd() *cobra.Command {
	var dry, yes bool
	command := &cobra.Command{
		Use:   "delete INDEX",
		Short: "Delete an index: its generations, files, store rows and schedule",
		Long: `Delete everything of INDEX: all generations, tagged ones included, files, entity records, vectors, its
schedule and its audit trail. Queries stop finding the index at once. The corpus stays. Paid results also stay
for 14 days, because all indexes share the ledger: to build INDEX again costs only what changed. Who deleted it, when
and why stays visible: unweaver operations INDEX.

A deletion cannot be undone, and requires --yes; --dry-run shows what it would do. The command refuses while a run
works on INDEX, and while INDEX has branches. If the deletion is interrupted, run the same command again to finish it.`,
		Example: "  unweaver delete docs --dry-run\n  unweaver delete docs --yes --reason \"moved to docs-2\"",
		Args:    console.RequireArgs(1, 1, "an INDEX"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			asked := control.DeleteRequest{Index: args[0], DryRun: dry || !yes, Confirmed: yes && !dry}
			found, err := controller.DeleteIndex(ctx, asked)
			if err == nil {
				err = a.PrintOut(found, func(w io.Writer) { showDeletion(w, found) })
			}
			if err == nil && !dry && !yes {
				err = fault.Usage.At("delete index", args[0]).
					Because("a deletion cannot be undone").
					Advise("to confirm, add --yes")
			}
			return err
		}),
	}
	flags := command.Flags()
	flags.BoolVar(&dry, "dry-run", false, "show what would be deleted, and delete nothing")
	flags.BoolVar(&yes, "yes", false, "confirm the deletion; it cannot be undone")
	return a.AddAuditFlags(command)
}

func showDeletion(w io.Writer, one core.Deletion) {
	verb := "is deleted"
	if one.DryRun {
		verb = "would be deleted"
	}
	fmt.Fprintf(w, "%s %s: %s, %s (%s)", one.Index, verb, show.Count(one.Generations, "generation"),
		show.Count(one.Objects, "object"), core.FormatSize(one.Bytes))
	fmt.Fprintf(w, ", %s of vectors, %s\n", show.Count(len(one.Collections), "collection"),
		show.Count(one.Records, "entity record"))
	for _, line := range []struct {
		when bool
		text string
	}{
		{one.DryRun && one.Serves != "", "  queries see generation " + one.Serves},
		{one.Schedule, "  also deleted: its schedule"},
		{len(one.Tags) > 0, "  also deleted: tagged generations " + strings.Join(one.Tags, ", ")},
		{len(one.Branches) > 0, "  also deleted: files of deleted branches " + strings.Join(one.Branches, ", ")},
		{one.Purges > 0, "  its " + show.Count(one.Purges, "purge") +
			" go too: what they name and the corpus still has is read again once the name is built again"},
		{one.Begun, "  an earlier deletion was interrupted; this command continues it"},
		{one.Reading, "  a query-api still had it open after 40 s: its queries may have failed"},
		{true, "  kept: the corpus, and paid results (all indexes share the ledger)"},
	} {
		if line.when {
			fmt.Fprintln(w, line.text)
		}
	}
}
