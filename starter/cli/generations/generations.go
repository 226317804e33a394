package generations

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) generationsCmd() *cobra.Command {
	var index string
	return console.TakeIndex(&cobra.Command{
		Use:   "generations",
		Short: "List the generations of an index",
		Long: "List the kept generations of an index: the current one first, then newest first. For more of " +
			"unweaver show shows\nmore of one.",
		Example: "  unweaver generations docs",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, _ []string) (generationList, error) {
			generations, err := c.ListGenerations(ctx, index)
			return generationList{index, generations}, err
		}, showGenerations),
	}, &index)
}

// generationList has the generations of an index.
type generationList struct {
	Index       string                `json:"index"`
	Generations []artifact.Generation `json:"generations"`
}

func showGenerations(w io.Writer, found generationList) {
	header := "generation\tseq\tstate\tdocuments\tpassages\tentities\tbuilt\tcontent hash\tkept by"
	show.Table(w, header, found.Generations, func(one artifact.Generation) string {
		return fmt.Sprintf("%s\t%d\t%s\t%d\t%d\t%d\t%s\t%.16s\t%s", one.Generation, one.Seq, one.State, one.Documents,
			one.Chunks, one.Classes, one.Created.Format(time.DateTime), one.ContentHash, keptBy(one))
	})
}

// keptBy returns what keeps a generation beyond the rules: its tags.
func keptBy(generation artifact.Generation) string {
	if len(generation.Tags) > 0 {
		return strings.Join(generation.Tags, " ")
	}
	if generation.Collected {
		return "nothing: being deleted"
	}
	return ""
}

func (a app) restoreCmd() *cobra.Command {
	var index string
	var all bool
	command := &cobra.Command{
		Use:   "restore",
		Short: "Reload the stores of an index from its artifacts, without model calls",
		Long: `Reload the entity and vector stores of an index from its artifacts, without model calls, and wait for the
end. A schedule that Temporal lost is created again, paused if it was paused.

With --all every index is restored in turn. An index that cannot be restored does not stop the others; the exit code
is that of the worst. If there is no index at all, the command fails. A restore does not need the corpus. If the
corpus cannot be read, the command prints a warning, because the next build would fail.`,
		Example: "  unweaver restore docs\n  unweaver restore --all",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			if (index == "") != all {
				return fault.Usage.At("run unweaver", "restore").
					Because("give either --index or --all").
					Advise("give --index NAME, or --all for every index")
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				if all {
					return a.restoreAll(ctx, controller)
				}
				return a.restoreIndex(ctx, controller, index)
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "name of the index")
	command.Flags().BoolVar(&all, "all", false, "restore every index")
	return a.AddAuditFlags(console.PutIndexFirst(command, false))
}

// restoreIndex restores an index and waits for it.
func (a app) restoreIndex(ctx context.Context, controller control.Control, index string) error {
	run, err := controller.RestoreIndex(ctx, index)
	if err != nil {
		return err
	}
	if run.Schedule != "" {
		fmt.Fprintf(a.Err, "%s: its schedule is %s\n", index, run.Schedule)
	}
	if err := a.WaitForRun(ctx, controller, run); err != nil || run.NoCorpus == "" {
		return err
	}
	fmt.Fprintf(a.Err, "%s: the corpus cannot be read, so the next build will fail: %s\n", index, run.NoCorpus)
	return nil
}

// maxExitCode returns the harder of two exit codes.
func maxExitCode(one, other int) int {
	hardness := []int{
		console.ExitDone, console.ExitErrors, console.ExitHeld, console.ExitPaused, console.ExitUsage, console.ExitFailed,
	}
	if slices.Index(hardness, one) < slices.Index(hardness, other) {
		return other
	}
	return one
}

// restoreAll restores every index of which a generation was built.
func (a app) restoreAll(ctx context.Context, controller control.Control) error {
	cards, err := controller.ListIndexes(ctx)
	if err != nil {
		return err
	}
	worst, restored := console.ExitDone, 0
	for _, card := range cards {
		if card.State == runlog.StateEmpty {
			continue
		}
		a.Exit = console.ExitDone
		err := a.restoreIndex(ctx, controller, card.Index)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			a.ShowError(err)
			a.Exit = console.ExitOfError(err)
		}
		restored++
		worst = maxExitCode(worst, a.Exit)
	}
	a.Exit = worst
	if restored == 0 {
		return fault.NotFound.At("restore", "every index").
			Because("the artifact store has no published generation").
			Advise("check that the backup is where stores.artifacts points: unweaver doctor")
	}
	return nil
}
