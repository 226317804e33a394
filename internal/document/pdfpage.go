package document

import (
	"math"
	"strings"

	"github.com/ledongthuc/pdf"
)

// glyphs are a string as a page shows it: where it begins and ends on its line, in points; y goes upwards.
type glyphs struct {
	left, right, y float64
	size           float64 // of its letters
	text           string
}

// A page that shows more strings, or runs more operators, than this is no page that somebody reads.
const (
	maxSpans     = 1 << 20
	maxOperators = 5 << 20
	maxForms     = 8  // forms in one another
	lookUp       = 20 // operators that finding a form or a picture counts as
)

// affine is a matrix of six numbers, as PDF writes it.
type affine [6]float64

var identity = affine{1, 0, 0, 1, 0, 0}

// times applies m first, then n.
func (m affine) times(n affine) affine {
	return affine{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func moved(x, y float64) affine { return affine{1, 0, 0, 1, x, y} }

// pageReader runs the operators of one page and collects what they show.
type pageReader struct {
	pages     *pages
	resources pdf.Value
	spans     []glyphs
	bytes     int64 // of text
	operators int
	depth     int // of forms
	state     graphics
	saved     []graphics
	text      affine // of the next letter
	line      affine // of the line's start
	err       error
}

// graphics is the state that q saves and Q brings back.
type graphics struct {
	page             affine
	font             *pdfFont
	size             float64
	letters, words   float64 // extra space behind each
	stretch, leading float64
	rise             float64
}

// spansOf gives what a page shows, in the order of its operators.
func (p *pages) spansOf(page pdf.Value, has inherited) ([]glyphs, error) {
	reader := pageReader{pages: p, resources: has.resources}
	reader.state = graphics{page: rotation(has.rotate), stretch: 1}
	reader.run(page.Key("Contents"))
	return reader.spans, reader.err
}

// rotation turns a page as it is to be shown.
func rotation(turn pdf.Value) affine {
	switch turn.Int64() % 360 {
	case 90, -270:
		return affine{0, -1, 1, 0, 0, 0}
	case 180, -180:
		return affine{-1, 0, 0, -1, 0, 0}
	case 270, -90:
		return affine{0, 1, -1, 0, 0, 0}
	}
	return identity
}

func (r *pageReader) run(contents pdf.Value) {
	if contents.IsNull() {
		return
	}
	pdf.Interpret(contents, func(stack *pdf.Stack, operator string) {
		args := make([]pdf.Value, stack.Len())
		for i := len(args) - 1; i >= 0; i-- {
			args[i] = stack.Pop()
		}
		if r.operators++; r.operators > maxOperators && r.err == nil {
			r.err = over(r.pages.object, "memory", r.pages.limits.Memory, "one page of it has too many operators")
		}
		if r.err == nil {
			r.operator(operator, args)
		}
	})
}

// numbers are the last count arguments as numbers; ok is false where there are fewer.
func numbers(args []pdf.Value, count int) (out [6]float64, ok bool) {
	if len(args) < count {
		return out, false
	}
	for i, arg := range args[len(args)-count:] {
		out[i] = arg.Float64()
	}
	return out, true
}

// arity is how many numbers an operator takes, of those that take only numbers.
var arity = map[string]int{
	"cm": 6, "Tm": 6, "Td": 2, "TD": 2, "Tc": 1, "Tw": 1, "Tz": 1, "TL": 1, "Ts": 1,
	"q": 0, "Q": 0, "BT": 0, "T*": 0,
}

func (r *pageReader) operator(name string, args []pdf.Value) {
	if count, known := arity[name]; known {
		if given, ok := numbers(args, count); ok {
			r.place(name, given)
		}
		return
	}
	if len(args) == 0 {
		return
	}
	last := args[len(args)-1]
	switch name {
	case "Tf":
		if len(args) > 1 {
			r.state.font, r.state.size = r.font(args[len(args)-2].Name()), last.Float64()
		}
	case "Tj":
		r.show(last.RawString())
	case "'":
		r.newLine(0, -r.state.leading)
		r.show(last.RawString())
	case "\"":
		if given, ok := numbers(args[:len(args)-1], 2); ok {
			r.state.words, r.state.letters = given[0], given[1]
		}
		r.newLine(0, -r.state.leading)
		r.show(last.RawString())
	case "TJ":
		for i := range last.Len() {
			part := last.Index(i)
			if part.Kind() == pdf.String {
				r.show(part.RawString())
				continue
			}
			r.text = moved(-part.Float64()/1000*r.state.size*r.state.stretch, 0).times(r.text)
		}
	case "Do":
		r.form(last.Name())
	}
}

// place does an operator that moves what is shown, or sets how.
func (r *pageReader) place(name string, given [6]float64) {
	switch name {
	case "q":
		if len(r.saved) < maxSpans {
			r.saved = append(r.saved, r.state)
		}
	case "Q":
		if n := len(r.saved); n > 0 {
			r.state, r.saved = r.saved[n-1], r.saved[:n-1]
		}
	case "cm":
		r.state.page = affine(given).times(r.state.page)
	case "BT":
		r.text, r.line = identity, identity
	case "Tm":
		r.text, r.line = affine(given), affine(given)
	case "TD":
		r.state.leading = -given[1]
		r.newLine(given[0], given[1])
	case "Td":
		r.newLine(given[0], given[1])
	case "T*":
		r.newLine(0, -r.state.leading)
	case "Tc":
		r.state.letters = given[0]
	case "Tw":
		r.state.words = given[0]
	case "Tz":
		r.state.stretch = given[0] / 100
	case "TL":
		r.state.leading = given[0]
	case "Ts":
		r.state.rise = given[0]
	}
}

func (r *pageReader) newLine(x, y float64) {
	r.line = moved(x, y).times(r.line)
	r.text = r.line
}

// show adds a string, and moves on by its width.
func (r *pageReader) show(raw string) {
	s := &r.state
	if s.font == nil { // no sound page shows text before it names a font
		s.font = r.font("")
	}
	if s.font == nil || raw == "" {
		return
	}
	width, letters, blanks := s.font.measure(raw)
	step := (width*s.size + float64(letters)*s.letters + float64(blanks)*s.words) * s.stretch
	at := affine{s.size * s.stretch, 0, 0, s.size, 0, s.rise}.times(r.text).times(s.page)
	r.text = moved(step, 0).times(r.text)
	end := r.text.times(s.page)
	text := pdfText(s.font.decode(raw))
	if text == "" {
		return
	}
	shown := glyphs{left: at[4], right: end[4], y: at[5], size: math.Hypot(at[2], at[3]), text: text}
	if math.Abs(at[1]) > math.Abs(at[0]) { // upright on the page: it takes no room on a line
		shown.right = shown.left
	}
	if !finite(shown.left) || !finite(shown.right) || !finite(shown.y) || !finite(shown.size) {
		shown.left, shown.right, shown.y, shown.size = 0, 0, 0, 0
	}
	if shown.right < shown.left {
		shown.left, shown.right = shown.right, shown.left
	}
	r.bytes += int64(len(text))
	if r.bytes > r.pages.limits.Text {
		r.err = r.pages.limits.overText(r.pages.object)
		return
	}
	if len(r.spans) >= maxSpans {
		r.err = over(r.pages.object, "memory", r.pages.limits.Memory, "one page of it shows too many strings")
		return
	}
	r.spans = append(r.spans, shown)
}

func finite(x float64) bool { return math.Abs(x) < 1e9 }

// pdfText is text without what moves no letter: a form feed stands between pages, and nowhere else.
func pdfText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u00a0' || r == '\t' || r == '\n' || r == '\f' || r == '\r' || r == '\v':
			return ' '
		case r < ' ' || r == '\u00ad' || r == '\ufeff' || r == '\u200b':
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

// form runs a form as if its operators stood here.
func (r *pageReader) form(name string) {
	if r.depth >= maxForms {
		return
	}
	r.operators += lookUp
	object := r.resources.Key("XObject").Key(name)
	if object.Kind() != pdf.Stream || object.Key("Subtype").Name() != "Form" {
		return
	}
	if err := r.pages.check(object, false); err != nil {
		r.err = err
		return
	}
	state, saved, resources, text, line := r.state, r.saved, r.resources, r.text, r.line
	if own := object.Key("Resources"); !own.IsNull() {
		r.resources = own
	}
	if matrix := object.Key("Matrix"); matrix.Len() == 6 {
		var given affine
		for i := range given {
			given[i] = matrix.Index(i).Float64()
		}
		r.state.page = given.times(r.state.page)
	}
	r.saved = nil
	r.depth++
	// Reading it costs more than an operator does, and what it holds beside operators is read all the same.
	r.operators += 100 + int(min(r.pages.sizes[object.String()]/16, maxOperators))
	r.run(object)
	r.depth--
	r.state, r.saved, r.resources, r.text, r.line = state, saved, resources, text, line
}

func (r *pageReader) font(name string) *pdfFont {
	value := r.resources.Key("Font").Key(name)
	says := value.String()
	if known := r.pages.fonts[says]; known != nil {
		return known
	}
	if err := r.pages.check(value.Key("ToUnicode"), true); err != nil {
		r.err = err
		return nil
	}
	made := newPDFFont(value)
	r.pages.fonts[says] = made
	return made
}
