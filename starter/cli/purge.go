package cli

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
)

func (a *App) purgeCmd() *cobra.Command {
	var request control.PurgeRequest
	var wait bool
	command := requireIndex(&cobra.Command{
		Use:   "purge DOCUMENT...",
		Short: "Remove documents from everything that is stored, for good",
		Long: `Remove documents from an index for good: their texts, what was extracted from them, what was paid for them
alone, their dead letters, and the texts of entities that were made from them; from every generation, the stores and the
ledger. Generations that hold one of them are dropped, tagged ones too; the index stays queryable throughout, and a
generation without the documents takes the place of the current one.

It cannot be undone, and needs --yes; --dry-run shows what it would do. Killed anywhere, it goes on when it is asked for
again, or with the next run of the index. What the corpus has under these keys stays there, and is left out of the index
from then on, unless --allow-return says otherwise.

DOCUMENT is the key that the index knows it by. Rows of .jsonl and .csv, and objects of a list in a .json file, are
documents with the key file#id: name each that is to go; the name of the file removes none.
What is attached to a mail or PDF (mail.eml#plan.pdf) goes with it, or alone where it alone is named.`,
		Example: "  unweaver purge docs letters/2024-17.pdf --dry-run\n" +
			"  unweaver purge docs letters/2024-17.pdf --yes --reason \"request 4711\" --wait",
		Args: requireArgs(1, 1<<16, "DOCUMENTs"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			request.Documents = args
			return a.runPurge(ctx, controller, request, wait)
		}),
	}, &request.Index)
	flags := command.Flags()
	flags.BoolVar(&request.DryRun, "dry-run", false, "tell what would be done, and do nothing")
	flags.BoolVar(&request.Confirmed, "yes", false, "do it: generations are dropped, and nothing brings them back")
	flags.BoolVar(&request.Return, "allow-return", false, "let the corpus bring the documents back once they are gone")
	flags.BoolVar(&wait, "wait", false, "wait for the end, with progress")
	command.AddCommand(a.purgesCmd())
	return a.addAuditFlags(command)
}

func (a *App) runPurge(ctx context.Context, controller control.Control, request control.PurgeRequest, wait bool) error {
	look := request
	look.DryRun = request.DryRun || !request.Confirmed
	if err := a.readGate(ctx, controller, &look); err != nil {
		return err
	}
	waits := wait || a.started // a stack of this command's own would end with it
	answer, err := inTurn(ctx, a, controller, request.Index, waits, anyRun, func() (control.PurgeAnswer, error) {
		return controller.PurgeDocuments(ctx, look)
	})
	if err != nil {
		return err
	}
	if look.DryRun {
		if err := a.printOut(answer.Plan, func(w io.Writer) { showPurgePlan(w, answer.Plan) }); err != nil || request.DryRun {
			return err
		}
		return fault.Usage.At("purge from", request.Index).
			Because("it cannot be undone").
			Advise("confirm it with --yes")
	}
	switch {
	case answer.Run == nil:
		return a.printOut(answer, func(w io.Writer) {
			fmt.Fprintf(w, "%s: nothing holds it any more; purge %s of %s did that\n", request.Index, answer.Purge.ID,
				answer.Purge.Ended.UTC().Format("2006-01-02 15:04"))
		})
	case !waits:
		return a.printOut(answer, func(w io.Writer) {
			showPurgePlan(w, answer.Plan)
			fmt.Fprintf(w, "%s started; how it ends: unweaver purge list %s\n", answer.Run.Run, request.Index)
		})
	}
	if !a.json {
		showPurgePlan(a.Out, answer.Plan)
	}
	if err := a.waitForRun(ctx, controller, *answer.Run); err != nil {
		return err
	}
	return a.purgeEnded(ctx, controller, request.Index, answer.Purge.ID)
}

// readGate adds the gate that the configuration has for the index now: that of the current generation may expect the
// very document. An index that the configuration does not name keeps the latter.
func (a *App) readGate(ctx context.Context, controller control.Control, request *control.PurgeRequest) error {
	cfg, err := a.loadConfig()
	if err != nil || request.DryRun {
		return err
	}
	if _, named := cfg.Indexes[request.Index]; !named {
		return nil
	}
	spec, err := a.specOf(ctx, controller, request.Index, "")
	if err != nil {
		return err
	}
	request.Probes, err = config.ReadProbes(&spec)
	request.Gate = &spec.Gate
	return err
}

// purgeEnded says how a purge stands once its run has ended; one that is not done is an error.
func (a *App) purgeEnded(ctx context.Context, controller control.Control, index, id string) error {
	stand, err := controller.ListPurges(ctx, control.PurgesRequest{Index: index})
	if err != nil {
		return err
	}
	for _, one := range stand.Purges {
		if one.ID != id {
			continue
		}
		if !a.json {
			showPurge(a.Out, one)
		} else if err := json.NewEncoder(a.Out).Encode(map[string]any{"event": "purge", "purge": one}); err != nil {
			return err
		}
		if one.State == core.PurgeDone {
			a.exit = ExitDone // what stands failed from other runs is not of the purge
			return nil
		}
		why := "its run did not come to it"
		if len(one.Left) > 0 {
			why = strings.Join(one.Left, "; ")
		}
		return fault.GenBusy.At("purge from", index).
			Because(why).
			Advise("give the same command again: it goes on where it is. Where a gate held it, first take the documents out " +
				"of the file of indexes." + index + ".gate.probes, or: unweaver publish " + index + " GEN")
	}
	return fault.NotFound.At("find purge", id).Because("index " + index + " has none of this id")
}

func showPurgePlan(w io.Writer, plan core.PurgePlan) {
	for _, document := range plan.Documents {
		state := cmp.Or(document.AdviseRows(), "no generation has it")
		if document.Known {
			state = countOf(document.Chunks, "passage")
		}
		if document.Attached {
			state += ", attached"
		}
		fmt.Fprintf(w, "%s (%s): %s\n", document.Key, document.Digest.Short(16), state)
	}
	fmt.Fprintf(w, "written again: at most %s, of which %s and the vectors may be paid again\n",
		countOf(plan.Classes, "entity text"), countOf(plan.Shortenings, "shortening"))
	fmt.Fprintf(w, "ledger: at most %s; what other documents have too stays\n",
		countOf(plan.Entries["extract"]+plan.Entries["shorten"]+plan.Entries["embed"], "entry"))
	for _, one := range plan.Drops {
		fmt.Fprintf(w, "dropped: generation %s (%s", one.Generation, one.State)
		if len(one.Tags) > 0 {
			fmt.Fprintf(w, ", tagged %s", strings.Join(one.Tags, ", "))
		}
		if one.Current {
			fmt.Fprint(w, "; served until one without the documents takes its place")
		}
		fmt.Fprintln(w, ")")
	}
	for _, where := range plan.Probes {
		fmt.Fprintf(w, "names a document: the questions in %s; they go once no schedule judges nights by them\n", where)
	}
	for _, id := range plan.Pending {
		fmt.Fprintf(w, "purge %s was begun, and is gone on with\n", id)
	}
}

func (a *App) purgesCmd() *cobra.Command {
	var request control.PurgesRequest
	command := requireIndex(&cobra.Command{
		Use:   "list",
		Short: "Show how purges of an index stand",
		Long: `Show how the purges of an index stand: what each removed, and what it waits for. Documents are known by
digests alone. --readmit lets the corpus bring purged documents back.`,
		Example: "  unweaver purge list docs\n" +
			"  unweaver purge list docs --readmit letters/2024-17.pdf --reason \"withdrawn\"",
		Args: requireArgs(0, 0, "nothing"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			return a.listPurges(ctx, controller, request)
		}),
	}, &request.Index)
	command.Flags().StringSliceVar(&request.Readmit, "readmit", nil, "documents that may come back")
	return a.addAuditFlags(command)
}

func (a *App) listPurges(ctx context.Context, controller control.Control, request control.PurgesRequest) error {
	answer, err := controller.ListPurges(ctx, request)
	if err != nil {
		return err
	}
	return a.printOut(answer, func(w io.Writer) {
		for _, one := range answer.Purges {
			showPurge(w, one)
		}
		if len(answer.Purges) == 0 {
			fmt.Fprintf(w, "%s: nothing was purged\n", request.Index)
		}
		if len(request.Readmit) > 0 {
			fmt.Fprintf(w, "%s hold nothing back any more\n", countOf(int64(answer.Readmits), "purge"))
		}
	})
}

func showPurge(w io.Writer, one core.Purge) {
	names := make([]string, len(one.Documents))
	for i, digest := range one.Documents {
		names[i] = digest.Short(16)
	}
	held := "left out from then on"
	if one.Return {
		held = "may come back"
	}
	fmt.Fprintf(w, "%s %s: %s (%s)\n", one.ID, one.State, strings.Join(names, ", "), held)
	gone := one.Gone
	fmt.Fprintf(w, "  removed: %s, %s, %s, %s, %s, %s\n", countOf(gone.Generations, "generation"),
		countOf(gone.Segments, "file"), countOf(gone.Records, "entity record"), countOf(gone.Rows, "vector row"),
		countOf(gone.Ledger, "ledger entry"),
		countOf(gone.Letters, "dead letter"))
	if one.Shared > 0 {
		fmt.Fprintf(w, "  kept: %s that other documents have too\n",
			countOf(one.Shared, "ledger entry"))
	}
	if len(one.Forgotten) > 0 {
		fmt.Fprintf(w, "  all paid answers of enrichments went, of every index (%s): a generation did not list which were "+
			"of the document, and the next builds pay for them again\n", strings.Join(one.Forgotten, ", "))
	}
	if one.State == core.PurgePending && len(one.Left) == 0 {
		fmt.Fprintln(w, "  to be done: its run has not ended; it waits up to two minutes for readers of generations that go")
	}
	for _, left := range one.Left {
		fmt.Fprintf(w, "  to be done: %s\n", left)
	}
}
