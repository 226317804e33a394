package generations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) purgeCmd() *cobra.Command {
	var request control.PurgeRequest
	var wait bool
	command := console.TakeIndex(&cobra.Command{
		Use:   "purge DOCUMENT...",
		Short: "Erase documents from everything that is stored",
		Long: `Erase documents from an index: their texts, extracted entities, dead letters, results paid for only by them,
and the entity texts built from them; from every generation, the stores and the ledger. Generations that contain one
of the documents are dropped, tagged ones too. The index stays queryable, and a generation without the documents
replaces the current one.

A purge cannot be undone, and requires --yes; --dry-run shows what it would do. If a purge is interrupted, run the
same command again, or let the next run of the index finish it. The command does not delete from the corpus. It
excludes the documents from the index from then on, unless you add --allow-return.

DOCUMENT is the key of a document in the index. Rows of .jsonl and .csv files, and objects of a list in a .json file,
are documents with keys like file#id: name each row that is to go, because the name of the file removes none. A message
includes its attachments (mail.eml#plan.pdf). To purge only an attachment, name it.`,
		Example: "  unweaver purge docs letters/2024-17.pdf --dry-run\n" +
			"  unweaver purge docs letters/2024-17.pdf --yes --reason \"request 4711\" --wait",
		Args: console.RequireArgs(1, 1<<16, "DOCUMENTs"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			request.Documents = args
			return a.runPurge(ctx, controller, request, wait)
		}),
	}, &request.Index)
	flags := command.Flags()
	flags.BoolVar(&request.DryRun, "dry-run", false, "show what would be done, and change nothing")
	flags.BoolVar(&request.Confirmed, "yes", false, "confirm the purge; dropped generations cannot be restored")
	flags.BoolVar(&request.Return, "allow-return", false, "let a later run index the documents again")
	flags.BoolVar(&wait, "wait", false, "wait until it ends, and show progress")
	command.AddCommand(a.purgesCmd())
	return a.AddAuditFlags(command)
}

func (a app) runPurge(ctx context.Context, controller control.Control, request control.PurgeRequest, wait bool) error {
	look := request
	look.DryRun = request.DryRun || !request.Confirmed
	if err := a.readGate(ctx, controller, &look); err != nil {
		return err
	}
	waits := wait || a.Started // a stack of this command's own would end with it
	begin := func() (control.PurgeAnswer, error) { return controller.PurgeDocuments(ctx, look) }
	answer, err := console.InTurn(ctx, a.App, controller, request.Index, waits, console.AnyRun, begin)
	if err != nil {
		return err
	}
	if look.DryRun {
		if err := a.PrintOut(answer.Plan, func(w io.Writer) { showPurgePlan(w, answer.Plan) }); err != nil || request.DryRun {
			return err
		}
		return fault.Usage.At("purge from", request.Index).
			Because("a purge cannot be undone").
			Advise("to confirm, add --yes")
	}
	switch {
	case answer.Run == nil:
		return a.PrintOut(answer, func(w io.Writer) {
			fmt.Fprintf(w, "%s: already purged by purge %s of %s\n", request.Index, answer.Purge.ID,
				answer.Purge.Ended.UTC().Format("2006-01-02 15:04"))
		})
	case !waits:
		return a.PrintOut(answer, func(w io.Writer) {
			showPurgePlan(w, answer.Plan)
			fmt.Fprintf(w, "%s started; to see the result: unweaver purge list %s\n", answer.Run.Run, request.Index)
		})
	}
	if !a.JSON {
		showPurgePlan(a.Out, answer.Plan)
	}
	if err := a.WaitForRun(ctx, controller, *answer.Run); err != nil {
		return err
	}
	return a.purgeEnded(ctx, controller, request.Index, answer.Purge.ID)
}

// readGate adds the gate that the configuration has for the index now: that of the current generation may expect the
// very document. An index that the configuration does not name keeps the latter.
func (a app) readGate(ctx context.Context, controller control.Control, request *control.PurgeRequest) error {
	cfg, err := a.LoadConfig()
	if err != nil || request.DryRun {
		return err
	}
	if _, named := cfg.Indexes[request.Index]; !named {
		return nil
	}
	spec, err := a.SpecOf(ctx, controller, request.Index, "")
	if err != nil {
		return err
	}
	request.Probes, err = config.ReadProbes(&spec)
	request.Gate = &spec.Gate
	return err
}

// purgeEnded says how a purge stands once its run has ended; one that is not done is an error.
func (a app) purgeEnded(ctx context.Context, controller control.Control, index, id string) error {
	stand, err := controller.ListPurges(ctx, control.PurgesRequest{Index: index})
	if err != nil {
		return err
	}
	for _, one := range stand.Purges {
		if one.ID != id {
			continue
		}
		if !a.JSON {
			showPurge(a.Out, one)
		} else if err := json.NewEncoder(a.Out).Encode(map[string]any{"event": "purge", "purge": one}); err != nil {
			return err
		}
		if one.State == core.PurgeDone {
			a.Exit = console.ExitDone // what stands failed from other runs is not of the purge
			return nil
		}
		why := "its run ended before the purge was complete"
		if len(one.Left) > 0 {
			why = strings.Join(one.Left, "; ")
		}
		return fault.GenBusy.At("purge from", index).
			Because(why).
			Advise("run the same command again to continue. If a gate held the run, first remove the documents from " +
				"the file of indexes." + index + ".gate.probes, or: unweaver publish " + index + " GEN")
	}
	return fault.NotFound.At("find purge", id).Because("index " + index + " has no purge with this id")
}

func showPurgePlan(w io.Writer, plan core.PurgePlan) {
	for _, document := range plan.Documents {
		state := cmp.Or(document.AdviseRows(), "not in any generation")
		if document.Known {
			state = show.Count(document.Chunks, "passage")
		}
		if document.Attached {
			state += ", attached"
		}
		fmt.Fprintf(w, "%s (%s): %s\n", show.OneLine(document.Key), document.Digest.Short(16), state)
	}
	fmt.Fprintf(w, "written again: at most %s, of which %s and the vectors may be paid again\n",
		show.Count(plan.Classes, "entity text"), show.Count(plan.Shortenings, "shortening"))
	fmt.Fprintf(w, "ledger: at most %s; entries shared with other documents stay\n",
		show.Count(plan.Entries["extract"]+plan.Entries["shorten"]+plan.Entries["embed"], "entry"))
	for _, one := range plan.Drops {
		fmt.Fprintf(w, "dropped: generation %s (%s", one.Generation, one.State)
		if len(one.Tags) > 0 {
			fmt.Fprintf(w, ", tagged %s", strings.Join(one.Tags, ", "))
		}
		if one.Current {
			fmt.Fprint(w, "; served until a generation without the documents replaces it")
		}
		fmt.Fprintln(w, ")")
	}
	for _, where := range plan.Probes {
		fmt.Fprintf(w, "names a document: the questions in %s; they go once no schedule judges nights by them\n", where)
	}
	for _, id := range plan.Pending {
		fmt.Fprintf(w, "continues the unfinished purge %s\n", id)
	}
}

func (a app) purgesCmd() *cobra.Command {
	var request control.PurgesRequest
	command := console.TakeIndex(&cobra.Command{
		Use:   "list",
		Short: "Show the purges of an index",
		Long: `Show the purges of an index: what each removed, and what it waits for. Documents are shown as digests only.
--readmit lets runs index purged documents again.`,
		Example: "  unweaver purge list docs\n" +
			"  unweaver purge list docs --readmit letters/2024-17.pdf --reason \"withdrawn\"",
		Args: console.RequireArgs(0, 0, "nothing"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			return a.listPurges(ctx, controller, request)
		}),
	}, &request.Index)
	command.Flags().StringSliceVar(&request.Readmit, "readmit", nil, "documents that runs may index again")
	return a.AddAuditFlags(command)
}

func (a app) listPurges(ctx context.Context, controller control.Control, request control.PurgesRequest) error {
	answer, err := controller.ListPurges(ctx, request)
	if err != nil {
		return err
	}
	return a.PrintOut(answer, func(w io.Writer) {
		for _, one := range answer.Purges {
			showPurge(w, one)
		}
		if len(answer.Purges) == 0 {
			fmt.Fprintf(w, "%s: nothing was purged\n", request.Index)
		}
		if len(request.Readmit) > 0 {
			fmt.Fprintf(w, "%s may be indexed again\n", show.Count(int64(answer.Readmits), "purge"))
		}
	})
}

func showPurge(w io.Writer, one core.Purge) {
	names := make([]string, len(one.Documents))
	for i, digest := range one.Documents {
		names[i] = digest.Short(16)
	}
	held := "excluded from now on"
	if one.Return {
		held = "may come back"
	}
	fmt.Fprintf(w, "%s %s: %s (%s)\n", one.ID, one.State, strings.Join(names, ", "), held)
	gone := one.Gone
	fmt.Fprintf(w, "  removed: %s, %s, %s, %s, %s, %s\n", show.Count(gone.Generations, "generation"),
		show.Count(gone.Segments, "file"), show.Count(gone.Records, "entity record"), show.Count(gone.Rows, "vector row"),
		show.Count(gone.Ledger, "ledger entry"),
		show.Count(gone.Letters, "dead letter"))
	if one.Shared > 0 {
		fmt.Fprintf(w, "  kept: %s shared with other documents\n",
			show.Count(one.Shared, "ledger entry"))
	}
	if len(one.Forgotten) > 0 {
		fmt.Fprintf(w, "  all paid answers of enrichments were deleted, in every index (%s): a generation did not list "+
			"those of the document; the next builds pay for them again\n", strings.Join(one.Forgotten, ", "))
	}
	if one.State == core.PurgePending && len(one.Left) == 0 {
		fmt.Fprintln(w, "  unfinished: its run has not ended; it waits up to two minutes for readers of dropped generations")
	}
	for _, left := range one.Left {
		fmt.Fprintf(w, "  unfinished: %s\n", left)
	}
}
