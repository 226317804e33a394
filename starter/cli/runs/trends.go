package runs

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// usualNights is how many nights trends are of.
const usualNights = 30

func (a app) trendsCmd() *cobra.Command {
	var nights int
	command := &cobra.Command{
		Use:   "trends [INDEX]",
		Short: "Show the last builds: passages, changes, calls, cost, time, failures",
		Long: `Show the last builds of an index, or of all indexes: passages, share of changed documents, paid calls and
tokens, cost, duration, error of the estimate (for builds with a plan), dead letters, bytes written, and how each
build ended. Bars are relative to the highest value of their column.

The list contains all ended builds, also unchanged, held and failed ones. An index keeps its last 180 builds in this
list, which is more than it keeps generations.`,
		Example: "  unweaver trends docs\n  unweaver trends --nights 7\n" +
			"  unweaver trends docs --json | jq '.trends[0].nights[] | [.started, .cost]'",
		Args: console.RequireArgs(0, 1, "at most an INDEX"),
	}
	command.Flags().IntVar(&nights, "nights", usualNights, fmt.Sprintf("number of builds, at most %d", runlog.MostNights))
	command.RunE = func(command *cobra.Command, args []string) error {
		if nights < 1 || nights > runlog.MostNights {
			return fault.Usage.At("read", "--nights").Because(fmt.Sprintf("want 1 to %d", runlog.MostNights))
		}
		return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
			trends, err := controller.ReadTrends(ctx, strings.Join(args, ""), nights)
			if err != nil {
				return err
			}
			return a.PrintOut(map[string]any{"trends": trends}, func(w io.Writer) { showTrends(w, trends) })
		})
	}
	return command
}

func showTrends(w io.Writer, trends []runlog.Trends) {
	if len(trends) == 0 {
		fmt.Fprintln(w, "no build yet; to start one: unweaver index FOLDER --index NAME --wait")
	}
	for i, one := range trends {
		if i > 0 {
			fmt.Fprintln(w)
		}
		showNights(w, one)
	}
}

func showNights(w io.Writer, trends runlog.Trends) {
	totals := trends.Totals
	fmt.Fprintf(w, "%s: %s, %d published, %d unchanged, %d held, %d failed, %d cancelled\n",
		trends.Index, show.Count(int64(totals.Nights), "night"), totals.Published, totals.Unchanged, totals.Held,
		totals.Failed, totals.Cancelled)
	var highest core.Night
	for _, night := range trends.Nights {
		highest.Share, highest.Calls = max(highest.Share, night.Share), max(highest.Calls, night.Calls)
		highest.Cost, highest.Seconds = max(highest.Cost, night.Cost), max(highest.Seconds, night.Seconds)
	}
	header := "night\tended\tpassages\tchanged\tcalls\ttokens\tcost\ttook\testimate off by\tdead letters\twritten"
	show.Table(w, header, trends.Nights, func(night core.Night) string {
		return fmt.Sprintf("%s\t%s\t%d\t%s %.1f %%\t%s %d\t%d\t%s %s\t%s %s\t%s\t%d\t%s", show.Clock(night.Started),
			describeOutcome(night), night.Chunks, drawBar(night.Share, highest.Share), 100*night.Share,
			drawBar(float64(night.Calls), float64(highest.Calls)), night.Calls, night.Tokens,
			drawBar(night.Cost, highest.Cost), show.Money(night.Cost, night.Currency),
			drawBar(night.Seconds, highest.Seconds), show.Duration(night.Seconds), missedBy(night), night.Letters,
			core.FormatSize(night.Bytes))
	})
	fmt.Fprintf(w, "total: %s, %s, cost %s, %s, %s written\n", show.Count(totals.Calls, "call"),
		show.Count(totals.Tokens, "token"), show.Money(totals.Cost, trends.Nights[len(trends.Nights)-1].Currency),
		show.Duration(totals.Seconds), core.FormatSize(totals.Bytes))
}

// drawBar returns a figure as a part of the highest, five characters wide. What is more than nothing has a bar.
func drawBar(figure, highest float64) string {
	const width = 5
	full := 0
	if figure > 0 {
		full = max(1, int(width*figure/highest+0.5))
	}
	return strings.Repeat("█", full) + strings.Repeat("·", width-full)
}

func describeOutcome(night core.Night) string {
	switch {
	case night.Unchanged:
		return "unchanged"
	case night.Reason != "" && night.Reason != night.Status:
		return night.Status + " (" + night.Reason + ")"
	}
	return night.Status
}

// missedBy returns how wrong the estimate of a night was: of its cost, or of its calls where nothing has a price. One
// that was cancelled has no end to compare.
func missedBy(night core.Night) string {
	if night.Planned == nil || night.Status == core.StatusCancelled {
		return "-"
	}
	share := night.Planned.Cost
	if night.Cost == 0 {
		share = night.Planned.Calls
	}
	return report.FormatMiss(share)
}
