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
	next, stop := iter.Pull(d.streamLines())
	defer stop()
	var lines []document.PlacedLine // that the chunk, or one behind it, may begin in
	line, more := next()
	headers := d.headers
	for i := range chunks {
		chunk := &chunks[i]
		for ; more && line.Start < chunk.End; line, more = next() {
			lines = append(lines, line)
		}
		begin := chunk.Start
		if len(headers) > 0 && headers[0].at == begin {
			begin, headers = begin+headers[0].runes, headers[1:]
		}
		for len(lines) > 1 && lines[1].Start <= begin {
			lines = lines[1:]
		}
		for _, one := range lines {
			if one.Start < chunk.End {
				chunk.Rects = withLine(chunk.Rects, one.Rect)
			}
		}
	}
}

// repeatedHeader are rows that name the columns of a table where a chunk repeats them: code points from a place of the
// text on which the text that was read does not have there.
type repeatedHeader struct{ at, runes int }

// streamLines yields the lines of the pages, with their places in the text that has headers repeated.
func (d *draft) streamLines() iter.Seq[document.PlacedLine] {
	return func(yield func(document.PlacedLine) bool) {
		headers, more := d.headers, 0
		for line := range d.places.Lines() {
			for len(headers) > 0 && line.Start+more >= headers[0].at {
				more += headers[0].runes
				headers = headers[1:]
			}
			if line.Start += more; !yield(line) {
				return
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
