package cli

import (
	"io"

	"github.com/unweaver/unweaver/internal/ops"
)

// DrawBar draws progress as on a terminal.
func DrawBar(out io.Writer, statuses ...ops.Status) {
	drawn := bar{out: out, terminal: true}
	for _, status := range statuses {
		drawn.show(status)
	}
	drawn.end()
}
