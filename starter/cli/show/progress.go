package show

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// Watcher gets the status of a run, again and again.
type Watcher interface {
	ShowStatus(status control.Status)
	EndStatus()
}

// Bar is one line of progress: redrawn on a terminal, else one line a stage and every ten seconds.
type Bar struct {
	Out      io.Writer
	Terminal bool
	quiet    bool // JSON is wanted: no line but on a terminal
	stage    string
	last     time.Time
	drawn    bool
}

// NewBar returns a bar that draws to a writer. A quiet one draws on a terminal only.
func NewBar(out io.Writer, quiet bool) *Bar {
	out, terminal := unwrap(out)
	return &Bar{Out: out, Terminal: terminal, quiet: quiet}
}

// unwrap returns the writer behind that of a command, to which control characters may be written, and whether it is a
// terminal.
func unwrap(out io.Writer) (io.Writer, bool) {
	if wrapped, ok := out.(*cleaned); ok {
		out = wrapped.to
	}
	file, ok := out.(*os.File)
	if !ok {
		return out, false
	}
	info, err := file.Stat()
	return out, err == nil && info.Mode()&os.ModeCharDevice != 0
}

// ShowStatus implements Watcher.
func (b *Bar) ShowStatus(status control.Status) {
	if status.Stage == "" || (b.quiet && !b.Terminal) {
		return
	}
	b.Draw(status.Stage, progressLine(status))
}

// Draw shows a line of a stage.
func (b *Bar) Draw(stage, line string) {
	if !b.Terminal && stage == b.stage && time.Since(b.last) < 10*time.Second {
		return
	}
	b.stage, b.last = stage, time.Now()
	line = escapeControls(line)
	if b.Terminal {
		fmt.Fprintf(b.Out, "\r\x1b[K%s", line)
		b.drawn = true
		return
	}
	fmt.Fprintln(b.Out, line)
}

// barWidth is how many characters show what is done.
const barWidth = 24

// progressLine shows where a run stands.
func progressLine(status control.Status) string {
	done := min(1, max(0, status.Overall))
	full := int(done * barWidth)
	parts := []string{
		fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*done),
		fmt.Sprintf("%-8s %s", status.Stage, unitsDone(status)), formatRate(status.Rate),
		Duration(status.Seconds) + " so far",
	}
	if left := timeLeft(status.ETASeconds); left != "?" {
		parts = append(parts, left+" left")
	}
	if tokens := status.Tokens.Sum(); tokens > 0 {
		parts = append(parts, Count(tokens, "token"))
	}
	if status.Cost > 0 {
		parts = append(parts, "cost "+Money(status.Cost, status.Currency))
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
		return Count(stage.Done, one)
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

// EndStatus implements Watcher: it clears the line.
func (b *Bar) EndStatus() {
	if b.drawn {
		fmt.Fprint(b.Out, "\r\x1b[K")
	}
}

func timeLeft(seconds float64) string {
	if seconds <= 0 {
		return "?"
	}
	return Duration(seconds)
}

// Duration returns seconds as hours, minutes and seconds.
func Duration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// ShowTransfer draws how far a transfer is.
func (b *Bar) ShowTransfer(now core.Transfer) {
	if now.Bytes == 0 || b.quiet && !b.Terminal {
		return
	}
	full := int(barWidth * now.Done / now.Bytes)
	rate := float64(now.Done) / max(now.Seconds, 0.001)
	line := fmt.Sprintf("[%s%s] %3d %%  %-8s %s of %s  %s/s", strings.Repeat("#", full),
		strings.Repeat(".", barWidth-full), 100*now.Done/now.Bytes, now.Stage, core.FormatSize(now.Done),
		core.FormatSize(now.Bytes), core.FormatSize(int64(rate)))
	if now.Done > now.Bytes/20 { // the first pieces say little
		line += "  " + Duration(float64(now.Bytes-now.Done)/rate) + " left"
	}
	b.Draw(now.Stage, line)
}
