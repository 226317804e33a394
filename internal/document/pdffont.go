package document

import (
	"strings"

	"github.com/ledongthuc/pdf"
)

// pdfFont decodes the strings of a font and knows how wide they are.
type pdfFont struct {
	font    *pdf.Font
	double  bool // a letter is two bytes
	widths  map[int]float64
	missing float64 // width of a letter that has none of its own
}

// maxWidths bounds how many widths of a font are read: a letter has at most two bytes.
const maxWidths = 1 << 16

func newPDFFont(value pdf.Value) *pdfFont {
	made := &pdfFont{font: &pdf.Font{V: value}, widths: map[int]float64{}}
	scale := 0.001
	switch value.Key("Subtype").Name() {
	case "Type0":
		made.double = true
		made.descend(value.Key("DescendantFonts").Index(0))
		return made
	case "Type3":
		if own := value.Key("FontMatrix").Index(0).Float64(); own > 0 {
			scale = own
		}
	}
	list, start := value.Key("Widths"), int(value.Key("FirstChar").Int64())
	for i := range min(list.Len(), 256) {
		made.widths[start+i] = list.Index(i).Float64() * scale
	}
	made.missing = value.Key("FontDescriptor").Key("MissingWidth").Float64() * scale
	if len(made.widths) == 0 {
		made.standard(value.Key("BaseFont").Name())
	}
	return made
}

// descend reads the widths of a font of two bytes a letter: [first [w w w] first last w ...].
func (f *pdfFont) descend(font pdf.Value) {
	f.missing = 1
	if usual := font.Key("DW"); !usual.IsNull() {
		f.missing = usual.Float64() / 1000
	}
	list, read := font.Key("W"), 0
	for i := 0; i+1 < list.Len() && len(f.widths) < maxWidths && read < 2*maxWidths; {
		first, next := int(list.Index(i).Int64()), list.Index(i+1)
		if next.Kind() == pdf.Array {
			for n := range min(next.Len(), maxWidths) {
				f.widths[first+n] = next.Index(n).Float64() / 1000
				read++
			}
			i += 2
			continue
		}
		last, width := min(int(next.Int64()), maxWidths), list.Index(i+2).Float64()/1000
		for code := max(first, 0); code <= last; code++ {
			f.widths[code] = width
			read++
		}
		i += 3
	}
}

// standard takes the widths of a font that every reader of PDF has, for files that leave them out.
func (f *pdfFont) standard(name string) {
	f.missing = 0.5
	table := helvetica
	switch {
	case strings.Contains(name, "Courier"):
		f.missing = 0.6
		return
	case strings.Contains(name, "Times"):
		table = times
	}
	for i, width := range table {
		f.widths[' '+i] = float64(width) / 1000
	}
}

// measure gives the width of a string in units of the letters' size, its letters, and its blanks of one byte.
func (f *pdfFont) measure(raw string) (width float64, letters, blanks int) {
	step := 1
	if f.double {
		step = 2
	}
	for i := 0; i+step <= len(raw); i += step {
		code := int(raw[i])
		if f.double {
			code = code<<8 | int(raw[i+1])
		} else if code == ' ' {
			blanks++
		}
		letters++
		if own, known := f.widths[code]; known {
			width += own
		} else {
			width += f.missing
		}
	}
	return width, letters, blanks
}

func (f *pdfFont) decode(raw string) string { return f.font.Encoder().Decode(raw) }

// Widths of the letters from the blank to the tilde, in thousandths of the size.
var (
	helvetica = [95]int16{
		278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
		556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
		722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
		556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
		260, 334, 584,
	}
	times = [95]int16{
		250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500, 500, 500, 500, 500,
		500, 500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611, 556, 722, 722, 333, 389, 722, 611, 889,
		722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722, 722, 611, 333, 278, 333, 469, 500, 333, 444, 500, 444, 500,
		444, 333, 500, 500, 278, 278, 500, 278, 778, 500, 500, 500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480,
		200, 480, 541,
	}
)
