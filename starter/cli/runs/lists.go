package runs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) lsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the indexes: documents, size, age, state, problems",
		Long: `List the indexes: what each has published, its size and age, its running run, and how many problems its last
run left. Size counts the files of the current generation.`,
		Example: "  unweaver ls\n  unweaver ls --json | jq -r '.indexes[] | select(.age_seconds > 86400) | .index'",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE:    a.listIndexes,
	}
}

// listIndexes lists the indexes.
func (a app) listIndexes(command *cobra.Command, _ []string) error {
	type list struct {
		Indexes []runlog.Card `json:"indexes"`
	}
	return console.NewReport(a.App, func(ctx context.Context, c control.Control, _ []string) (list, error) {
		cards, err := c.ListIndexes(ctx)
		return list{cards}, err
	}, func(w io.Writer, found list) { showCards(w, found.Indexes) })(command, nil)
}

func showCards(w io.Writer, cards []runlog.Card) {
	if len(cards) == 0 {
		fmt.Fprintln(w, "no index yet; to build one: unweaver index FOLDER --index NAME --wait")
		return
	}
	header := "index\tstate\tdocuments\tpassages\tentities\tsize\tage\tproblems\tlast run"
	show.Table(w, header, cards, func(card runlog.Card) string {
		since, last := "-", "-"
		if card.Published != nil {
			since = show.Age(card.AgeSeconds)
		}
		if run := card.LastRun; run != nil {
			last = run.Status + endedNote(*run)
		}
		if run := card.Running; run != nil {
			last = runsNow(*run)
		}
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%s\t%s\t%d\t%s", card.Index, card.State, card.Documents, card.Chunks,
			card.Classes, core.FormatSize(card.Bytes), since, card.Problems, last)
	})
	damaged := 0
	for _, card := range cards {
		if card.Detail != "" {
			fmt.Fprintf(w, "  ! %s: %s\n", card.Index, control.JoinLines(card.Detail))
		}
		if card.State == runlog.StateDamaged {
			damaged++
		}
		if card.Freshness != nil {
			fmt.Fprintf(w, "  %s: %s\n", card.Index, card.Freshness)
		}
	}
	if damaged > 1 {
		fmt.Fprintln(w, "  all of them at once: unweaver restore --all")
	}
}

// runsNow shows a run that goes on in a few words.
func runsNow(run runlog.Summary) string {
	text := run.Status
	if run.Kind != runlog.KindBuild {
		text = run.Kind + " " + text
	}
	if run.Stage != "" {
		text += fmt.Sprintf(", %s, %.0f %%", run.Stage, 100*run.Overall)
	}
	if run.Reason != "" && run.Reason != run.Status {
		text += " (" + run.Reason + ")"
	}
	return text
}

func (a app) runsCmd() *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:   "runs [INDEX]",
		Short: "List running and finished runs of one index, or of all",
		Long: `List runs, newest first: running and finished builds, and the newest restore and audit of each index. The
report of a run is kept as long as its generation, or for two weeks if it has none.`,
		Example: "  unweaver runs\n  unweaver runs docs --limit 5\n  unweaver runs docs --json | jq '.runs[0].cost'",
		Args:    console.RequireArgs(0, 1, "at most an INDEX"),
	}
	command.Flags().IntVar(&limit, "limit", 20, "number of runs; 0 = all")
	command.RunE = console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (runList, error) {
		runs, err := c.ListRuns(ctx, strings.Join(args, ""), limit)
		return runList{runs}, err
	}, showRuns)
	return command
}

// runList has runs, the newest first.
type runList struct {
	Runs []runlog.Summary `json:"runs"`
}

// endedNote returns what follows the status of a run that changed nothing, or that an operator published since.
func endedNote(run runlog.Summary) string {
	switch {
	case run.Unchanged:
		return ", unchanged"
	case run.Status == core.StatusHeld && run.Published:
		return show.PublishedSince
	}
	return ""
}

func showRuns(w io.Writer, list runList) {
	if len(list.Runs) == 0 {
		fmt.Fprintln(w, "no run yet; to start one: unweaver index FOLDER --index NAME --wait")
		return
	}
	header := "run\tstatus\tbegan\ttook\tdocuments\tpassages\tcalls\tcost\tproblems"
	show.Table(w, header, list.Runs, func(run runlog.Summary) string {
		status := run.Status
		switch {
		case !core.IsTerminal(run.Status):
			status = runsNow(run)
		case endedNote(run) != "":
			status += endedNote(run)
		case run.Reason != "" && run.Reason != run.Status:
			status += " (" + run.Reason + ")"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d", run.Run, status, show.Clock(run.Started),
			show.Duration(run.Seconds), run.Documents, run.Chunks, run.Calls, show.Money(run.Cost, run.Currency), run.Problems)
	})
}

func (a app) logsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "logs RUN",
		Short: "Show what happened in a run: stages, pauses, errors, problems",
		Long: `Show what happened in a run: when each stage started, each pause and wait with its cause, what was retried
and how often, how the run ended, which documents failed and why, and the passages whose extraction failed. The
command reads the stores; processes write logs of their own.

` + runForm,
		Example: "  unweaver logs docs\n  unweaver logs docs/20261122t020000z --json | jq '.events'",
		Args:    console.RequireArgs(1, 1, "a RUN"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (runlog.Log, error) {
			return c.ReadLog(ctx, args[0])
		}, show.Log),
	}
}

func (a app) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show GENERATION",
		Short: "Show the report of a generation, or of a run without a generation",
		Long: `Show a generation: its state, its sources and settings, and the full report of its run.

GENERATION is index/generation. The name of an index selects its current generation.`,
		Example: "  unweaver show docs\n  unweaver show docs/20261122t020000z",
		Args:    console.RequireArgs(1, 1, "a GENERATION"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			return a.showGeneration(ctx, controller, args[0])
		}),
	}
}

func (a app) showGeneration(ctx context.Context, controller control.Control, name string) error {
	index, wanted, _ := strings.Cut(name, "/")
	kept, err := controller.ListGenerations(ctx, index)
	if err != nil && (wanted == "" || !fault.Is(err, fault.UnknownIndex)) {
		return err
	}
	var generation *artifact.Generation
	for i := range kept {
		if kept[i].Generation == wanted || wanted == "" && kept[i].State == "current" {
			generation = &kept[i]
		}
	}
	if generation == nil && wanted == "" {
		return fault.UnknownGen.At("show", index).
			Because("it has no published generation").
			Advise("see: unweaver runs " + index)
	}
	if generation != nil {
		wanted = generation.Generation
	}
	run, err := controller.ReadStatus(ctx, index+"/"+wanted)
	if err != nil && (generation == nil || !fault.Is(err, fault.RunNotFound)) {
		return err
	}
	shown := map[string]any{"generation": generation, "report": run}
	if err != nil { // its report is lost; the generation is not
		delete(shown, "report")
	}
	return a.PrintOut(shown, func(w io.Writer) {
		if generation != nil {
			fmt.Fprintf(w, "%s/%s  %s, number %d, built %s\n", index, wanted, generation.State, generation.Seq,
				show.Clock(generation.Created))
			fmt.Fprintf(w, "  %s, %s, %s  [%s]\n  text hash %s\n  vector hash %s\n",
				show.Count(generation.Documents, "document"), show.Count(generation.Chunks, "passage"),
				show.Count(generation.Classes, "entity"), generation.Models, generation.TextHash, generation.VectorHash)
		}
		if run.Run != "" {
			show.Report(w, run)
			showReasons(w, run.Report)
		}
	})
}

// showReasons says why documents that did not change were built again.
func showReasons(w io.Writer, report core.Report) {
	for _, reason := range report.Reasons {
		fmt.Fprintf(w, "  rebuilt: %s\n", reason)
	}
	for _, one := range report.Enriched {
		if failed := one.Counts[enrich.Failed]; failed > 0 {
			of := "passage"
			if methods.Enrichments[one.Name].Asks == "pairs" {
				of = "pair"
			}
			fmt.Fprintf(w, "  %s: %s without a usable answer\n", one.Name, show.Count(failed, of))
		}
	}
	if report.Version != "" {
		fmt.Fprintf(w, "  unweaver %s\n", report.Version)
	}
}
