package rows

import (
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
)

// SheetOf returns the size of a page; zeros where it is not known.
func (x Document) SheetOf(page int) core.Sheet {
	var of core.Sheet
	for _, sheet := range x.Sheets {
		if sheet.Page <= page {
			of = sheet
		}
	}
	return of
}

// RectsOf returns the parts of pages on which a chunk stands that begins and ends at these code points.
func (x Document) RectsOf(start, end int) []core.Rect {
	for _, chunk := range x.Chunks {
		if chunk.Start == start && chunk.End == end {
			return chunk.Rects
		}
	}
	return nil
}

func putRects(enc *rowfile.Enc, sheets []core.Sheet, chunks []Place) {
	enc.U(uint64(len(sheets)))
	if len(sheets) == 0 {
		return
	}
	for _, sheet := range sheets {
		enc.U(uint64(sheet.Page))
		enc.U(uint64(sheet.Width))
		enc.U(uint64(sheet.Height))
	}
	for _, chunk := range chunks {
		enc.U(uint64(len(chunk.Rects)))
		for _, rect := range chunk.Rects {
			enc.U(uint64(rect.Page))
			enc.U(uint64(rect.Left))
			enc.U(uint64(rect.Top))
			enc.U(uint64(rect.Right - rect.Left))
			enc.U(uint64(rect.Bottom - rect.Top))
		}
	}
}

// readRects reads what putRects wrote; the rectangles go into the chunks.
func readRects(dec *rowfile.Dec, chunks []Place) (sheets []core.Sheet) {
	sheets = readList(dec, func() core.Sheet {
		return core.Sheet{Page: int(dec.U()), Width: int(dec.U()), Height: int(dec.U())}
	})
	for i := 0; len(sheets) > 0 && i < len(chunks); i++ {
		chunks[i].Rects = readList(dec, func() core.Rect {
			rect := core.Rect{Page: int(dec.U()), Left: int(dec.U()), Top: int(dec.U())}
			rect.Right, rect.Bottom = rect.Left+int(dec.U()), rect.Top+int(dec.U())
			return rect
		})
	}
	return sheets
}
