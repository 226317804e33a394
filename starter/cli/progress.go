package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// watcher gets the status of a run, again and again.
type watcher interface {
	showStatus(status control.Status)
	endStatus()
}

// waitForRun follows a run to its end, or to a pause, and shows its report. With --json the report is all that standard
// output gets, and what happens meanwhile goes to standard error, one JSON object a line.
func (a *App) waitForRun(ctx context.Context, controller control.Control, run control.Run) error {
	watching := watcher(newBar(a.Err, false))
	if a.json {
		events := newStream(a.Err)
		events.writeBegin(run)
		watching = events
	}
	status, err := a.followRun(ctx, controller, run.ExactName(), watching)
	if err != nil {
		return err
	}
	return a.reportRun(status)
}

// streamRun waits for a run and shows it: with --json events and report are one stream on standard output.
func (a *App) streamRun(ctx context.Context, controller control.Control, run control.Run) error {
	if !a.json {
		return a.waitForRun(ctx, controller, run)
	}
	events := newStream(a.Out)
	events.writeBegin(run)
	status, err := a.followRun(ctx, controller, run.ExactName(), events)
	if err != nil {
		return err
	}
	a.exit = exitOf(status.Report)
	return events.writeReport(status)
}

// followRun shows a watcher how a run stands until it ends or pauses.
func (a *App) followRun(
	ctx context.Context, controller control.Control, run string, watching watcher,
) (control.Status, error) {
	for delay := 50 * time.Millisecond; ; delay = min(delay*3/2, 500*time.Millisecond) {
		status, err := controller.ReadStatus(ctx, run)
		if err != nil && ctx.Err() == nil && !fault.Is(err, fault.RunNotFound) {
			return status, err
		}
		if err == nil {
			watching.showStatus(status)
			if core.IsTerminal(status.Status) || status.Status == core.StatusPaused {
				watching.endStatus()
				return status, nil
			}
		}
		select {
		case <-ctx.Done():
			watching.endStatus()
			name, _, _ := strings.Cut(run, "#") // of this run exactly
			hint := "the run continues: unweaver status " + name + " --watch shows it, unweaver cancel " + name + " ends it"
			if a.started { // its stack ends with this command
				hint = "the run stops until the stack runs again: unweaver dev, or run the same command"
			}
			return status, fault.Interrupted.At("wait for", name).Because("interrupted").Advise(hint)
		case <-time.After(delay):
		}
	}
}

// bar is one line of progress: redrawn on a terminal, else one line a stage and every ten seconds.
type bar struct {
	out      io.Writer
	terminal bool
	quiet    bool // JSON is wanted: no line but on a terminal
	stage    string
	last     time.Time
	drawn    bool
}

func newBar(out io.Writer, quiet bool) *bar {
	if wrapped, ok := out.(*cleaned); ok { // the bar draws with control characters of its own
		out = wrapped.to
	}
	b := &bar{out: out, quiet: quiet}
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil {
			b.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return b
}

func (b *bar) showStatus(status control.Status) {
	if status.Stage == "" || (b.quiet && !b.terminal) {
		return
	}
	b.draw(status.Stage, progressLine(status))
}

// draw shows a line of a stage.
func (b *bar) draw(stage, line string) {
	if !b.terminal && stage == b.stage && time.Since(b.last) < 10*time.Second {
		return
	}
	b.stage, b.last = stage, time.Now()
	line = escapeControls(line)
	if b.terminal {
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		b.drawn = true
		return
	}
	fmt.Fprintln(b.out, line)
}

const barWidth = 24

// progressLine shows where a run stands.
func progressLine(status control.Status) string {
	done := min(1, max(0, status.Overall))
	full := int(done * barWidth)
	parts := []string{
		fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*done),
		fmt.Sprintf("%-8s %s", status.Stage, unitsDone(status)), formatRate(status.Rate),
		durationOf(status.Seconds) + " so far",
	}
	if left := timeLeft(status.ETASeconds); left != "?" {
		parts = append(parts, left+" left")
	}
	if tokens := status.Tokens.Sum(); tokens > 0 {
		parts = append(parts, countOf(tokens, "token"))
	}
	if status.Cost > 0 {
		parts = append(parts, "cost "+moneyOf(status.Cost, status.Currency))
	}
	line := strings.Join(parts, "  ")
	if status.Status == core.StatusPaused {
		return line + "  paused: " + status.Reason
	}
	if waiting := waitingLine(status); waiting != "" {
		return line + "  " + waiting
	}
	if n := len(status.Problems); n > 0 && status.Problems[n-1].Object == status.Stage {
		line += "  retrying: " + status.Problems[n-1].Code
		if what, _, _ := strings.Cut(status.Problems[n-1].Detail, " ("); what != "" { // without what to do about it
			line += ": " + what
		}
	}
	return line
}

// unitsDone shows how much of the running stage is done: "244/551 passages".
func unitsDone(status control.Status) string {
	var stage core.StageProgress
	if n := len(status.Stages); n > 0 {
		stage = status.Stages[n-1]
	}
	one, many := core.UnitNames(status.Stage)
	if one == "chunk" {
		one, many = "passage", "passages"
	}
	switch stage.Total {
	case 0:
		return countOf(stage.Done, one)
	case 1:
		many = one
	}
	return fmt.Sprintf("%d/%d %s", stage.Done, stage.Total, many)
}

// formatRate shows a rate; "-/s" while nothing moves.
func formatRate(rate float64) string {
	switch {
	case rate <= 0:
		return "-/s"
	case rate < 10:
		return fmt.Sprintf("%.1f/s", rate)
	}
	return fmt.Sprintf("%.0f/s", rate)
}

func (b *bar) endStatus() {
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

func timeLeft(seconds float64) string {
	if seconds <= 0 {
		return "?"
	}
	return durationOf(seconds)
}

func durationOf(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
