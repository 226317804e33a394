package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
)

// wait follows a run to its end, or to a pause, and shows its report.
func (a *App) wait(ctx context.Context, control ops.Control, run string) error {
	status, err := a.follow(ctx, control, run)
	if err != nil {
		return err
	}
	return a.report(status)
}

// follow shows progress until a run ends or pauses.
func (a *App) follow(ctx context.Context, control ops.Control, run string) (ops.Status, error) {
	bar := newBar(a.Err, a.json)
	for delay := 50 * time.Millisecond; ; delay = min(delay*3/2, 500*time.Millisecond) {
		status, err := control.Status(ctx, run)
		if err != nil && !fault.Is(err, fault.RunNotFound) {
			return status, err
		}
		if err == nil {
			bar.show(status)
			if corpus.Terminal(status.Status) || status.Status == corpus.StatusPaused {
				bar.end()
				return status, nil
			}
		}
		select {
		case <-ctx.Done():
			bar.end()
			name, _, _ := strings.Cut(run, "#") // of this run exactly
			fmt.Fprintf(a.Err, "the run goes on: unweaver status %s\n", name)
			return status, fault.Internal.At("wait for", name).Because("interrupted")
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

func (b *bar) show(status ops.Status) {
	if status.Stage == "" || (b.quiet && !b.terminal) {
		return
	}
	if !b.terminal && status.Stage == b.stage && time.Since(b.last) < 10*time.Second {
		return
	}
	b.stage, b.last = status.Stage, time.Now()
	line := clean(progressLine(status))
	if b.terminal {
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		b.drawn = true
		return
	}
	fmt.Fprintln(b.out, line)
}

const barWidth = 24

// progressLine shows where a run stands.
func progressLine(status ops.Status) string {
	var stage corpus.StageProgress
	if n := len(status.Stages); n > 0 {
		stage = status.Stages[n-1]
	}
	done := min(1, max(0, status.Overall))
	full := int(done * barWidth)
	line := fmt.Sprintf(
		"[%s%s] %3.0f %%  %-8s %d/%d  %.0f/s  %s left  %d tokens",
		strings.Repeat("#", full),
		strings.Repeat(".", barWidth-full),
		100*done,
		status.Stage,
		stage.Done,
		stage.Total,
		status.Rate,
		timeLeft(status.ETASeconds),
		status.Tokens.Prompt+status.Tokens.Completion+status.Tokens.Embedding,
	)
	if status.Status == corpus.StatusPaused {
		return line + "  paused: " + status.Reason
	}
	if waiting := waitingLine(status); waiting != "" {
		return line + "  " + waiting
	}
	if n := len(status.Problems); n > 0 && status.Problems[n-1].Object == status.Stage {
		line += "  retrying: " + status.Problems[n-1].Code
	}
	return line
}

func (b *bar) end() {
	if b.drawn {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

func timeLeft(seconds float64) string {
	if seconds <= 0 {
		return "?"
	}
	return duration(seconds)
}

func duration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
