package pdf

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/unweaver/unweaver/internal/document"
)

// pdfWords reads the words of a page from its characters, which PDFium gives in the order in which the page shows them,
// with blanks and ends of lines where it sees some.
type pdfWords struct {
	*pdfReader
	text  references.FPDF_TEXTPAGE
	shown affine
	sheet box // what is shown of the page
	found []glyphs
	rules []box // edges of lines and areas, which have no height

	open   bool // the last of found goes on
	blank  bool // a blank was seen behind it
	ended  bool // an end of a line was seen behind it
	before int  // bytes of the last of found in front of its last glyph
	glyph  box  // where that stands
	half   rune // of a character that needs two
	pair   int  // 1 while the second of two is added
	length int
	lost   bool // letters of words are left out

	within []box        // where notes are drawn: only what is new there is read, once there are some
	seen   map[box]bool // glyphs of the page itself, if it has notes
}

func (w *pdfWords) read() error {
	counted, err := w.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: w.text})
	if err != nil {
		return nil //nolint:nilerr // a page without text
	}
	if counted.Count > maxCharacters {
		return document.OverMax(w.object, "memory", w.limits.Memory, "one page of it shows too many letters")
	}
	chars := make([]rune, counted.Count)
	for i := range chars {
		char, err := w.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: w.text, Index: i})
		if err != nil {
			return err
		}
		chars[i] = rune(char.Unicode)
		if err := w.checkClock(i); err != nil {
			return err
		}
	}
	named, err := w.decodeUnmapped(chars)
	if err != nil {
		return err
	}
	for i, char := range chars {
		text, unmapped := named[i]
		switch {
		case !unmapped:
			err = w.add(i, char)
		case text == " ":
			err = w.add(i, ' ')
		default:
			err = w.addText(i, text)
		}
		if err == nil {
			err = w.checkClock(i)
		}
		if err != nil {
			return err
		}
		if int64(w.length) > w.limits.Text {
			return w.limits.OverText(w.object)
		}
	}
	return nil
}

// checkClock looks at the clock now and then.
func (w *pdfWords) checkClock(i int) error {
	if i%1024 == 1023 {
		return w.inTime()
	}
	return nil
}

// cutWord stands for the hyphen at which PDFium joins two lines.
const cutWord = 2

// add takes the next character.
func (w *pdfWords) add(index int, char rune) error {
	switch {
	case char == '\r' || char == '\n':
		w.blank, w.ended = false, true
		return nil
	case unicode.IsSpace(char):
		w.open, w.blank = w.open && w.lastWord().turn == slanted, true
		return nil
	case utf16.IsSurrogate(char):
		if w.half == 0 {
			w.half = char
			return nil
		}
		char, w.half, w.pair = utf16.DecodeRune(w.half, char), 0, 1
		defer func() { w.pair = 0 }()
	case char == cutWord:
		defer func() { w.ended = true }()
		char = '-'
	}
	return w.addText(index, pdfText(string(char)))
}

// addText takes what the next glyph shows.
func (w *pdfWords) addText(index int, text string) error {
	if text == "" {
		return nil
	}
	here := glyphs{text: text}
	for at := index; at >= index-w.pair; at-- { // PDFium takes a pair of UTF-16 for two glyphs
		loose, err := w.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: w.text, Index: at})
		if err != nil {
			return trapOf(err)
		}
		its := w.onPage(float64(loose.Rect.Left), float64(loose.Rect.Bottom),
			float64(loose.Rect.Right), float64(loose.Rect.Top))
		if at < index {
			its = its.joinBox(here.box)
		}
		here.box = its
	}
	if w.sheet.right > 0 && w.sheet.high > 0 && !here.centredIn([]box{w.sheet}) {
		w.ended = true // behind the edge of the page
		return nil
	}
	if w.within != nil && (w.seen[here.box] || !here.centredIn(w.within)) {
		w.ended = true
		return nil
	}
	if w.seen != nil {
		w.seen[here.box] = true
	}
	w.length += len(text)
	same := w.open && here.box == w.glyph
	w.glyph = here.box
	if w.open && (w.goesDown(here) || !w.ended) {
		w.ended = false
		next := glyphs{box: here.turnBack(w.lastWord().turn), text: text}
		switch {
		case same && w.mirrorLetters(text):
			return nil
		case w.goesOn(next):
			w.joinLetters(next)
			return nil
		}
	}
	w.ended = false
	return w.beginWord(index, here)
}

// centredIn reports whether the middle of a box lies in one of some.
func (b box) centredIn(all []box) bool {
	x, y := (b.left+b.right)/2, (b.low+b.high)/2
	return slices.ContainsFunc(all, func(in box) bool {
		return x >= in.left && x <= in.right && y >= in.low && y <= in.high
	})
}

// onPage returns a box of PDFium as the page shows it.
func (w *pdfWords) onPage(left, bottom, right, top float64) box {
	x0, y0 := w.shown.mapPoint(left, bottom)
	x1, y1 := w.shown.mapPoint(right, top)
	x0, y0, x1, y1 = boundNumber(x0), boundNumber(y0), boundNumber(x1), boundNumber(y1)
	return box{min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)}
}

// mirrorLetters puts a letter before those of the same glyph, as PDFium turns them round where one glyph shows several
// letters of a script that is written from right to left; but for those of a character that stands for lam and alef.
func (w *pdfWords) mirrorLetters(text string) bool {
	last := w.lastWord()
	first, _ := utf8.DecodeRuneInString(text)
	if !startsRTL(text) || !unicode.IsLetter(first) || !startsRTL(last.text[w.before:]) ||
		last.text[w.before:] == "\u0644" && strings.ContainsRune("\u0627\u0622\u0623\u0625", first) {
		return false
	}
	last.text = last.text[:w.before] + text + last.text[w.before:]
	return true
}

// goesDown reports whether a glyph stands right below an upright one of a script that is written in columns, too; then
// what begins there runs downwards.
func (w *pdfWords) goesDown(here glyphs) bool {
	last := w.lastWord()
	size := last.size
	switch {
	case !isIdeographic(here.text):
		return false
	case last.turn == downwards:
		return true
	case last.turn != 0 || utf8.RuneCountInString(last.text) != 1 || !isIdeographic(last.text) ||
		here.right < last.left+size/2 || here.left > last.right-size/2 ||
		here.high > last.low+size/4 || here.high < last.low-size/4:
		return false
	}
	last.box, last.turn = last.turnBack(downwards), downwards
	last.y = (last.low + last.high) / 2
	return true
}

// isIdeographic reports whether a text begins with a letter or mark of a script that has no blanks between words.
func isIdeographic(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return first >= 0x2e80 && (unicode.In(first, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo) ||
		first >= 0x3000 && first < 0x3040 || first == 0x30fb || first == 0x30fc ||
		first >= 0xff00 && first < 0xff66 && !unicode.Is(unicode.Latin, first))
}

// lastWord returns the word that was begun last.
func (w *pdfWords) lastWord() *glyphs { return &w.found[len(w.found)-1] }

// goesOn reports whether letters belong to the word that is open.
func (w *pdfWords) goesOn(here glyphs) bool {
	last := w.lastWord()
	if last.turn == slanted {
		return true
	}
	size := max(last.size, 1e-3)
	if last.turn == downwards && isIdeographic(here.text) && here.low < last.high && here.high > last.low {
		return here.left-last.right < gutter*size && here.left > last.left
	}
	if math.Abs(here.low-last.low) > sameRow*size {
		return false
	}
	if startsRTL(here.text) && startsRTL(last.text) {
		return last.left-here.right < gutter*size && here.right < last.right+size/2
	}
	return here.left-last.right < gutter*size && here.left > last.left-size/2
}

// startsRTL reports whether a text begins with a letter of a script that is written from right to left.
func startsRTL(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return first >= 0x590 && unicode.In(first, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko)
}

// joinLetters adds letters to the word that is open.
func (w *pdfWords) joinLetters(here glyphs) {
	last := w.lastWord()
	if w.blank {
		last.text += " "
	}
	w.blank, w.before = false, len(last.text)
	last.text += here.text
	last.box = last.joinBox(here.box)
}

// beginWord begins a word.
func (w *pdfWords) beginWord(index int, here glyphs) error {
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
	here.size, here.apart, w.before = boundNumber(size.FontSize), w.blank, 0
	if matrix != nil {
		sign := math.Copysign(1, here.size) // letters of a size below zero are turned over
		here.size = boundNumber(math.Abs(here.size) * math.Hypot(float64(matrix.Matrix.C), float64(matrix.Matrix.D)))
		here.turn = turnOf(w.mapVector(sign*float64(matrix.Matrix.A), sign*float64(matrix.Matrix.B)))
		here.box = here.turnBack(here.turn)
	}
	if n := len(w.found); w.blank && n > 0 && w.found[n-1].turn == here.turn && here.right < w.found[n-1].right {
		w.found[n-1].apart, here.apart = true, false // the line is read from right to left
	}
	w.blank = false
	here.y = here.low
	if origin != nil {
		x, y := w.shown.mapPoint(origin.X, origin.Y)
		x, y = boundNumber(x), boundNumber(y)
		here.y = box{x, y, x, y}.turnBack(here.turn).low
	}
	w.open = true
	w.found = append(w.found, here)
	return nil
}

// mapVector returns where a vector of the page points to on what is shown of it.
func (w *pdfWords) mapVector(x, y float64) (float64, float64) {
	return w.shown[0]*x + w.shown[2]*y, w.shown[1]*x + w.shown[3]*y
}

// pdfText returns text without what moves no letter: a form feed stands between pages, and nowhere else.
func pdfText(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u00a0' || r == '\t' || r == '\n' || r == '\f' || r == '\r' || r == '\v':
			return ' '
		case r < ' ' || r == '\ufffd' || r == '\u00ad' || r == '\ufeff' || r == '\u200b' || r == '\ufffe' || r == '\uffff':
			return -1
		}
		if r == '\u2010' || r == '\u2011' {
			return '-'
		}
		return r
	}, ligatureText.Replace(strings.ToValidUTF8(text, "")))
}

// ligatureText takes letters that are printed as one apart.
var ligatureText = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st")
