package cli

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
)

func (a *App) deleteCmd() *cobra.Command {
	var request control.DeleteRequest
	command := &cobra.Command{
		Use:   "delete INDEX",
		Short: "Delete an index: generations, files, rows, schedule",
		Long: `Delete everything of INDEX: its generations, tagged ones too, files, entity records, vectors, schedule and
trail of operations. Queries find no index from the first moment on. The corpus stays, and so do paid results: the
ledger is shared by all indexes, so that building INDEX again pays for what changed alone. That it was
deleted, by whom and why stays in: unweaver operations INDEX.

You confirm by typing the name, or with --yes. It is refused while a run works on INDEX, and while INDEX has
branches. Killed anywhere, it is finished by the same command.`,
		Example: "  unweaver delete docs --dry-run\n  unweaver delete docs --yes --reason \"moved to docs-2\"",
		Args:    requireArgs(1, 1, "an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			request.Index = args[0]
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				return a.deleteIndex(ctx, controller, request, command.InOrStdin())
			})
		},
	}
	flags := command.Flags()
	flags.BoolVar(&request.DryRun, "dry-run", false, "show what would go, and delete nothing")
	flags.BoolVar(&request.Confirmed, "yes", false, "delete it without asking: nothing brings it back")
	return a.addAuditFlags(command)
}

func (a *App) deleteIndex(
	ctx context.Context, controller control.Control, request control.DeleteRequest, in io.Reader,
) error {
	if request.DryRun || !request.Confirmed {
		look := request
		look.DryRun, look.Confirmed = true, false
		plan, err := controller.DeleteIndex(ctx, look)
		if err != nil {
			return err
		}
		if request.DryRun || !a.json {
			if err := a.printOut(plan, func(w io.Writer) { showDeletion(w, plan) }); err != nil || request.DryRun {
				return err
			}
			fmt.Fprintf(a.Err, "nothing brings it back. Type %s to delete it: ", request.Index)
		}
		typed := ""
		if !a.json {
			typed, _ = bufio.NewReader(in).ReadString('\n') // no answer is none
		}
		if strings.TrimSpace(typed) != request.Index {
			return fault.Usage.At("delete index", request.Index).
				Because("it was not confirmed").
				Advise("type its name, or give --yes")
		}
		request.Confirmed = true
	}
	gone, err := controller.DeleteIndex(ctx, request)
	if err != nil {
		return err
	}
	return a.printOut(gone, func(w io.Writer) { showDeletion(w, gone) })
}

func showDeletion(w io.Writer, one core.Deletion) {
	verb := "is deleted"
	if one.DryRun {
		verb = "would be deleted"
	}
	fmt.Fprintf(w, "%s %s: %s, %s (%s)", one.Index, verb, countOf(one.Generations, "generation"),
		countOf(one.Objects, "object"), core.FormatSize(one.Bytes))
	fmt.Fprintf(w, ", %s of vectors, %s\n", countOf(len(one.Collections), "collection"),
		countOf(one.Records, "entity record"))
	for _, line := range []struct {
		when bool
		text string
	}{
		{one.DryRun && one.Serves != "", "  queries see generation " + one.Serves},
		{one.Schedule, "  its schedule goes too"},
		{len(one.Tags) > 0, "  tagged generations go too: " + strings.Join(one.Tags, ", ")},
		{len(one.Branches) > 0, "  what is left of deleted branches goes too: " + strings.Join(one.Branches, ", ")},
		{one.Purges > 0, "  its " + countOf(one.Purges, "purge") +
			" go too: what they name and the corpus still has is read again once the name is built again"},
		{one.Begun, "  an earlier deletion of it did not end; this goes on with it"},
		{one.Reading, "  a reader still had it open after 40 s: its queries may have failed"},
		{true, "  stays: the corpus, and what was paid for (the ledger is shared by all indexes)"},
	} {
		if line.when {
			fmt.Fprintln(w, line.text)
		}
	}
}
