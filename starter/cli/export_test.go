package cli

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
)

// DrawBar draws progress as on a terminal.
func DrawBar(out io.Writer, statuses ...control.Status) {
	drawn := bar{out: out, terminal: true}
	for _, status := range statuses {
		drawn.showStatus(status)
	}
	drawn.endStatus()
}

// Commands gives every command, without running one.
func Commands() *cobra.Command { return (&App{}).newRoot() }

// Printable wraps a writer as the command line wraps its output.
func Printable(to io.Writer) io.Writer { return newCleaned(to) }

// ShowChunkBold prints a result as on a terminal.
func ShowChunkBold(out io.Writer, chunk AnswerChunk) {
	showChunk(newCleaned(out), Answer{}, chunk, out)
}

// Terminal reports whether matches are written in bold.
func Terminal(out io.Writer) bool { return findTerminal(out) != nil }

// DevLevel returns what dev logs to a writer.
func DevLevel(to io.Writer) slog.Level { return (&App{Err: to}).devLevel() }
