package chunk

import (
	"iter"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
)

// placeChunks gives the chunks of a document the parts of its pages on which they stand.
func (d *draft) placeChunks() {
	chunks := d.row.Chunks
	if d.former != nil {
		for i := range chunks {
			chunks[i].Rects = d.former.RectsOf(chunks[i].Start, chunks[i].End)
		}
		return
	}
	if d.row.Sheets = d.places.Sheets(); len(d.row.Sheets) == 0 {
		return
	}
	next, stop := iter.Pull(d.places.Lines())
	defer stop()
	var lines []document.PlacedLine // that the chunk, or one behind it, may begin in
	line, more := next()
	for i := range chunks {
		chunk := &chunks[i]
		for ; more && line.Start < chunk.End; line, more = next() {
			lines = append(lines, line)
		}
		for len(lines) > 1 && lines[1].Start <= chunk.Start {
			lines = lines[1:]
		}
		for _, one := range lines {
			if one.Start < chunk.End {
				chunk.Rects = withLine(chunk.Rects, one.Rect)
			}
		}
	}
}

// mostRects is how many parts of pages a chunk has at most.
const mostRects = 200

// withLine adds a line to parts of pages: to the last one where it stands right below it.
func withLine(rects []core.Rect, line core.Rect) []core.Rect {
	if n := len(rects); n > 0 {
		last := &rects[n-1]
		height := line.Bottom - line.Top
		beside := line.Left < last.Right && last.Left < line.Right
		if line.Page == last.Page && beside && line.Top >= last.Top && line.Top-last.Bottom <= height {
			last.Left, last.Right = min(last.Left, line.Left), max(last.Right, line.Right)
			last.Bottom = max(last.Bottom, line.Bottom)
			return rects
		}
	}
	if len(rects) >= mostRects {
		return rects
	}
	return append(rects, line)
}
