package generations

import (
	"bufio"
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
	var request control.DeleteRequest
	command := &cobra.Command{
		Use:   "delete INDEX",
		Short: "Delete an index: its generations, files, store rows and schedule",
		Long: `Delete everything of INDEX: all generations, tagged ones included, files, entity records, vectors, its
schedule and its audit trail. Queries stop finding the index at once. The corpus stays. Paid results also stay
for 14 days, because all indexes share the ledger: to build INDEX again costs only what changed. Who deleted it, when
and why stays visible: unweaver operations INDEX.

To confirm, type the name or add --yes. The command refuses while a run works on INDEX, and while INDEX has branches.
If the deletion is interrupted, run the same command again to finish it.`,
		Example: "  unweaver delete docs --dry-run\n  unweaver delete docs --yes --reason \"moved to docs-2\"",
		Args:    console.RequireArgs(1, 1, "an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			request.Index = args[0]
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				return a.deleteIndex(ctx, controller, request, command.InOrStdin())
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&request.DryRun, "dry-run", false, "show what would be deleted, and delete nothing")
	flags.BoolVar(&request.Confirmed, "yes", false, "delete without asking; this cannot be undone")
	return a.AddAuditFlags(command)
}

func (a app) deleteIndex(
	ctx context.Context, controller control.Control, request control.DeleteRequest, in io.Reader,
) error {
	if request.DryRun || !request.Confirmed {
		look := request
		look.DryRun, look.Confirmed = true, false
		plan, err := controller.DeleteIndex(ctx, look)
		if err != nil {
			return err
		}
		if request.DryRun || !a.JSON {
			if err := a.PrintOut(plan, func(w io.Writer) { showDeletion(w, plan) }); err != nil || request.DryRun {
				return err
			}
			fmt.Fprintf(a.Err, "This cannot be undone. Type %s to delete the index: ", request.Index)
		}
		typed := ""
		if !a.JSON {
			typed, _ = bufio.NewReader(in).ReadString('\n') // no answer is none
		}
		if strings.TrimSpace(typed) != request.Index {
			return fault.Usage.At("delete index", request.Index).
				Because("the deletion was not confirmed").
				Advise("type the name of the index, or add --yes")
		}
		request.Confirmed = true
	}
	gone, err := controller.DeleteIndex(ctx, request)
	if err != nil {
		return err
	}
	return a.PrintOut(gone, func(w io.Writer) { showDeletion(w, gone) })
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
