package rows

import "github.com/unweaver/unweaver/internal/format/rowfile"

// Sheet is the size of the pages from Page (counted from 1) to that of the next sheet, in points, as they are shown.
type Sheet struct{ Page, Width, Height int }

// Rect is a part of a page (counted from 1), in points from the upper left corner of what is shown of it.
type Rect struct{ Page, Left, Top, Right, Bottom int }

// SheetOf is the size of a page; zeros where it is not known.
func (x Document) SheetOf(page int) Sheet {
	var of Sheet
	for _, sheet := range x.Sheets {
		if sheet.Page <= page {
			of = sheet
		}
	}
	return of
}

// RectsOf are the parts of pages on which a chunk stands that begins and ends at these code points.
func (x Document) RectsOf(start, end int) []Rect {
	for _, chunk := range x.Chunks {
		if chunk.Start == start && chunk.End == end {
			return chunk.Rects
		}
	}
	return nil
}

func putRects(enc *rowfile.Enc, sheets []Sheet, chunks []Place) {
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

// rects reads what putRects wrote; the rectangles go into the chunks.
func rects(dec *rowfile.Dec, chunks []Place) (sheets []Sheet) {
	for range dec.U() {
		sheets = append(sheets, Sheet{int(dec.U()), int(dec.U()), int(dec.U())})
		if dec.Err != nil {
			return nil
		}
	}
	if len(sheets) == 0 {
		return nil
	}
	for i := range chunks {
		for range dec.U() {
			rect := Rect{Page: int(dec.U()), Left: int(dec.U()), Top: int(dec.U())}
			rect.Right, rect.Bottom = rect.Left+int(dec.U()), rect.Top+int(dec.U())
			if dec.Err != nil {
				return nil
			}
			chunks[i].Rects = append(chunks[i].Rects, rect)
		}
	}
	return sheets
}
