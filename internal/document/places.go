package document

import (
	"iter"
	"math"

	"github.com/unweaver/unweaver/internal/format/rowfile"
	"github.com/unweaver/unweaver/internal/format/rows"
)

// Places are where the lines of a text stand on pages, packed: some eight bytes a line. They may come from a process
// that is not trusted: what is no Places is one without lines.
type Places []byte

// PlacedLine is a line of a text: where it begins, in code points, and the part of a page that it takes.
type PlacedLine struct {
	Start int
	Rect  rows.Rect
}

// placer packs the places of a text that is written page by page.
type placer struct {
	sheets []rows.Sheet
	lines  rowfile.Enc
	page   int
	height float64
	last   PlacedLine
}

// begin begins the next page, of a size in points.
func (p *placer) begin(width, height float64) {
	p.page++
	p.height = height
	sheet := rows.Sheet{Page: p.page, Width: whole(width), Height: whole(height)}
	if n := len(p.sheets); n == 0 || p.sheets[n-1].Width != sheet.Width || p.sheets[n-1].Height != sheet.Height {
		p.sheets = append(p.sheets, sheet)
	}
}

// whole is a number of points as it is kept.
func whole(points float64) int { return int(math.Round(min(max(points, 0), 1e5))) }

// add notes the place of a line that begins at a code point.
func (p *placer) add(start int, at box) {
	sheet := p.sheets[len(p.sheets)-1]
	left, top := min(whole(at.left), sheet.Width), min(whole(p.height-at.high), sheet.Height)
	right, bottom := min(whole(at.right), sheet.Width), min(whole(p.height-at.low), sheet.Height)
	line := PlacedLine{start, rows.Rect{Page: p.page, Left: left, Top: top, Right: right, Bottom: bottom}}
	p.lines.U(uint64(line.Start - p.last.Start))
	p.lines.U(uint64(line.Rect.Page - p.last.Rect.Page))
	p.lines.U(uint64(left))
	p.lines.I(int64(top - p.last.Rect.Top))
	p.lines.U(uint64(max(right-left, 0)))
	p.lines.U(uint64(max(bottom-top, 0)))
	p.last = line
}

func (p *placer) packed() Places {
	var enc rowfile.Enc
	enc.U(uint64(len(p.sheets)))
	for _, sheet := range p.sheets {
		enc.U(uint64(sheet.Page))
		enc.U(uint64(sheet.Width))
		enc.U(uint64(sheet.Height))
	}
	return append(enc.B, p.lines.B...)
}

// Sheets are the sizes of the pages: each is that of the pages from its own to the next one's.
func (p Places) Sheets() []rows.Sheet {
	sheets, _ := p.open()
	return sheets
}

func (p Places) open() (sheets []rows.Sheet, rest rowfile.Dec) {
	dec := rowfile.Dec{B: p}
	if len(p) == 0 {
		return nil, dec
	}
	for range dec.U() {
		sheet := rows.Sheet{Page: small(&dec), Width: small(&dec), Height: small(&dec)}
		if dec.Err != nil {
			return nil, dec
		}
		sheets = append(sheets, sheet)
	}
	return sheets, dec
}

// mostCounted is above every number that places hold.
const mostCounted = 1 << 40

// small reads a number that is not beyond sense.
func small(dec *rowfile.Dec) int { return int(min(dec.U(), mostCounted)) }

// Lines are the lines in the order of the text.
func (p Places) Lines() iter.Seq[PlacedLine] {
	return func(yield func(PlacedLine) bool) {
		_, dec := p.open()
		var line PlacedLine
		for dec.Err == nil && len(dec.B) > 0 {
			line.Start += small(&dec)
			line.Rect.Page += small(&dec)
			line.Rect.Left = small(&dec)
			line.Rect.Top = max(line.Rect.Top+int(dec.I()), 0)
			line.Rect.Right = line.Rect.Left + small(&dec)
			line.Rect.Bottom = line.Rect.Top + small(&dec)
			if dec.Err != nil || !yield(line) {
				return
			}
		}
	}
}
