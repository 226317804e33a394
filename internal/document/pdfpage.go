package document

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

// glyphs are letters that a page shows without room between them: a word, as a rule. Places are points of the page as
// it is shown, from its lower left corner; y goes upwards.
type glyphs struct {
	box           // turned as they are, so that they run to the right
	y     float64 // of the line they stand on, turned as well
	size  float64 // of the letters
	text  string
	apart bool // a blank stands before them
	turn  int  // quarters of a circle by which they are turned to the left, or slanted
}

// slanted is the turn of letters that run in none of the four directions: a line of them is one word.
const slanted = 4

// turnOf is how letters are turned that run along a vector.
func turnOf(x, y float64) int {
	switch {
	case math.Abs(y) <= math.Abs(x)/4 && x >= 0:
		return 0
	case math.Abs(y) <= math.Abs(x)/4:
		return 2
	case math.Abs(x) > math.Abs(y)/4:
		return slanted
	case y > 0:
		return 1
	}
	return 3
}

// turned is a box as it stands once what is turned to the left by some quarters of a circle is turned back.
func (b box) turned(quarters int) box {
	switch quarters {
	case 1:
		return box{b.low, -b.right, b.high, -b.left}
	case 2:
		return box{-b.right, -b.high, -b.left, -b.low}
	case 3:
		return box{-b.high, b.left, -b.low, b.right}
	}
	return b
}

// pdfPage is what was read of a page.
type pdfPage struct {
	lines         []pdfLine
	width, height float64
	shows         bool // something is on it
	pictured      bool // pictures take much of it, and few lines stand on it
	says          bool // it has text that is no header or footer
	broken        bool // PDFium cannot read it
}

// maxCharacters of a page: one with more is no page that somebody reads.
const maxCharacters = 4 << 20

// page reads one page.
func (r *pdfReader) page(index int) (*pdfPage, error) {
	if err := r.inTime(); err != nil {
		return nil, err
	}
	loaded, err := r.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: r.file, Index: index})
	if err != nil {
		if isTrap(err) {
			return nil, err
		}
		return &pdfPage{broken: true}, nil
	}
	page := requests.Page{ByReference: &loaded.Page}
	out := &pdfPage{}
	if objects, err := r.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page}); err == nil {
		out.shows = objects.Count > 0
	}
	shown, err := r.placement(page, out)
	if err != nil {
		return nil, err
	}
	text, err := r.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		if isTrap(err) {
			return nil, err
		}
		return &pdfPage{broken: true}, nil
	}
	words := pdfWords{pdfReader: r, text: text.TextPage, shown: shown}
	if err := words.read(); err != nil {
		return nil, err
	}
	out.lines = linesOfPage(words.found)
	if out.pictured, err = r.pictured(page, out); err != nil {
		return nil, err
	}
	if _, err := r.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage}); err != nil {
		return nil, err
	}
	_, err = r.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page})
	return out, err
}

// isTrap reports whether PDFium broke off, and not just refused.
func isTrap(err error) bool {
	return strings.Contains(err.Error(), "wasm error") || strings.Contains(err.Error(), "could not allocate memory")
}

// affine is a matrix of six numbers, as PDF writes it.
type affine [6]float64

func (m affine) at(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

// finer is how many steps PDFium's whole numbers of a place have a point.
const finer = 100

// placement is how places of a page become those of what is shown of it: cut, and turned. It notes the size of that.
func (r *pdfReader) placement(page requests.Page, out *pdfPage) (affine, error) {
	width, err := r.FPDF_GetPageWidthF(&requests.FPDF_GetPageWidthF{Page: page})
	if err != nil {
		return affine{}, err
	}
	height, err := r.FPDF_GetPageHeightF(&requests.FPDF_GetPageHeightF{Page: page})
	if err != nil {
		return affine{}, err
	}
	out.width, out.height = tame(float64(width.PageWidth)), tame(float64(height.PageHeight))
	place := func(x, y float64) (float64, float64, error) {
		at, err := r.FPDF_PageToDevice(&requests.FPDF_PageToDevice{
			Page: page, SizeX: int(out.width * finer), SizeY: int(out.height * finer), PageX: x, PageY: y,
		})
		if err != nil {
			return 0, 0, err
		}
		return float64(at.DeviceX) / finer, out.height - float64(at.DeviceY)/finer, nil
	}
	const far = 1000
	x0, y0, err := place(0, 0)
	if err != nil {
		return affine{1, 0, 0, 1, 0, 0}, nil //nolint:nilerr // a page without a size is read as it stands
	}
	x1, y1, _ := place(far, 0) // as the first
	x2, y2, _ := place(0, far)
	return affine{(x1 - x0) / far, (y1 - y0) / far, (x2 - x0) / far, (y2 - y0) / far, x0, y0}, nil
}

// tame is a number that a page may have, or 0.
func tame(x float64) float64 {
	if !(math.Abs(x) < 1e5) {
		return 0
	}
	return x
}

// pdfWords reads the words of a page from its characters, which PDFium gives in the order in which the page shows them,
// with blanks and ends of lines where it sees some.
type pdfWords struct {
	*pdfReader
	text  references.FPDF_TEXTPAGE
	shown affine
	found []glyphs

	open   bool // the last of found goes on
	blank  bool // a blank was seen behind it
	half   rune // of a character that needs two
	length int
}

func (w *pdfWords) read() error {
	counted, err := w.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: w.text})
	if err != nil {
		return nil //nolint:nilerr // a page without text
	}
	if counted.Count > maxCharacters {
		return over(w.object, "memory", w.limits.Memory, "one page of it shows too many letters")
	}
	for i := range counted.Count {
		if i%1024 == 1023 {
			if err := w.inTime(); err != nil {
				return err
			}
		}
		char, err := w.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: w.text, Index: i})
		if err != nil {
			return err
		}
		if err := w.add(i, rune(char.Unicode)); err != nil {
			return err
		}
		if int64(w.length) > w.limits.Text {
			return w.limits.overText(w.object)
		}
	}
	return nil
}

// cutWord stands for the hyphen at which PDFium joins two lines.
const cutWord = 2

// add takes the next character.
func (w *pdfWords) add(index int, char rune) error {
	switch {
	case char == '\r' || char == '\n':
		w.open, w.blank = false, false
		return nil
	case unicode.IsSpace(char):
		w.open, w.blank = w.open && w.last().turn == slanted, true
		return nil
	case utf16.IsSurrogate(char):
		if w.half == 0 {
			w.half = char
			return nil
		}
		char, w.half = utf16.DecodeRune(w.half, char), 0
	case char == cutWord:
		defer func() { w.open = false }()
		char = '-'
	}
	text := pdfText(string(char))
	if text == "" {
		return nil
	}
	loose, err := w.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: w.text, Index: index})
	if err != nil {
		if isTrap(err) {
			return err
		}
		return nil
	}
	x0, y0 := w.shown.at(float64(loose.Rect.Left), float64(loose.Rect.Bottom))
	x1, y1 := w.shown.at(float64(loose.Rect.Right), float64(loose.Rect.Top))
	x0, y0, x1, y1 = tame(x0), tame(y0), tame(x1), tame(y1)
	here := glyphs{box: box{min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)}, text: text}
	w.length += len(text)
	if w.open {
		if next := (glyphs{box: here.turned(w.last().turn), text: text}); w.goesOn(next) {
			w.join(next)
			return nil
		}
	}
	return w.begin(index, here)
}

// last is the word that was begun last.
func (w *pdfWords) last() *glyphs { return &w.found[len(w.found)-1] }

// goesOn reports whether letters belong to the word that is open.
func (w *pdfWords) goesOn(here glyphs) bool {
	last := w.last()
	if last.turn == slanted {
		return true
	}
	size := max(last.size, 1e-3)
	if math.Abs(here.low-last.low) > sameRow*size {
		return false
	}
	if backwards(here.text) && backwards(last.text) {
		return last.left-here.right < gutter*size && here.right < last.right+size/2
	}
	return here.left-last.right < gutter*size && here.left > last.left-size/2
}

// backwards reports whether a text begins with a letter of a script that is written from right to left.
func backwards(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return first >= 0x590 && unicode.In(first, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
}

// join adds letters to the word that is open.
func (w *pdfWords) join(here glyphs) {
	last := w.last()
	if w.blank {
		last.text += " "
	}
	w.blank = false
	last.text += here.text
	last.box = last.with(here.box)
}

// begin begins a word.
func (w *pdfWords) begin(index int, here glyphs) error {
	size, err := w.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: w.text, Index: index})
	if err != nil {
		return err
	}
	matrix, err := w.FPDFText_GetMatrix(&requests.FPDFText_GetMatrix{TextPage: w.text, Index: index})
	if err != nil && isTrap(err) {
		return err
	}
	origin, err := w.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: w.text, Index: index})
	if err != nil && isTrap(err) {
		return err
	}
	here.size, here.apart, w.blank = tame(size.FontSize), w.blank, false
	if matrix != nil {
		here.size = tame(here.size * math.Hypot(float64(matrix.Matrix.C), float64(matrix.Matrix.D)))
		here.turn = turnOf(w.direction(float64(matrix.Matrix.A), float64(matrix.Matrix.B)))
		here.box = here.turned(here.turn)
	}
	here.y = here.low
	if origin != nil {
		x, y := w.shown.at(origin.X, origin.Y)
		x, y = tame(x), tame(y)
		here.y = box{x, y, x, y}.turned(here.turn).low
	}
	w.open = true
	w.found = append(w.found, here)
	return nil
}

// direction is where a vector of the page points to on what is shown of it.
func (w *pdfWords) direction(x, y float64) (float64, float64) {
	return w.shown[0]*x + w.shown[2]*y, w.shown[1]*x + w.shown[3]*y
}

// pdfText is text without what moves no letter: a form feed stands between pages, and nowhere else.
func pdfText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u00a0' || r == '\t' || r == '\n' || r == '\f' || r == '\r' || r == '\v':
			return ' '
		case r < ' ' || r == '\u00ad' || r == '\ufeff' || r == '\u200b' || r == '\ufffe' || r == '\uffff':
			return -1
		}
		if r == '\u2010' || r == '\u2011' {
			return '-'
		}
		return r
	}, ligatureText.Replace(text))
}

// ligatureText takes letters that are printed as one apart.
var ligatureText = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st")
