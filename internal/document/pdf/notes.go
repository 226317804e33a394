package pdf

import (
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
)

// note is an annotation of a page: a field of a form, or what somebody typed on it.
type note struct {
	text  string // that was typed; empty: it is not known
	at    box
	drawn bool // the page may show text of it there
	typed bool // that is what was typed; else it is shown beside the page
	list  bool // the page shows what may be chosen, too
}

const (
	mostNotes = 10_000 // annotations of a page that are looked at

	hiddenNote    = enums.FPDF_ANNOT_FLAG_HIDDEN | enums.FPDF_ANNOT_FLAG_NOVIEW
	passwordField = 1 << 13
	dropDownField = 1 << 17
)

// listNotes returns the notes of a page that a viewer shows.
func (w *pdfWords) listNotes(page requests.Page) ([]note, error) {
	counted, err := w.FPDFPage_GetAnnotCount(&requests.FPDFPage_GetAnnotCount{Page: page})
	if err != nil {
		return nil, trapOf(err)
	}
	var found []note
	for index := range min(counted.Count, mostNotes) {
		got, err := w.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: page, Index: index})
		if err != nil {
			if isTrap(err) {
				return nil, err
			}
			continue
		}
		one, err := w.noteIn(got.Annotation)
		if err != nil {
			return nil, err
		}
		if one.drawn || one.text != "" {
			found = append(found, one)
		}
		if _, err := w.FPDFPage_CloseAnnot(&requests.FPDFPage_CloseAnnot{Annotation: got.Annotation}); err != nil {
			return nil, trapOf(err)
		}
	}
	if len(found) > 0 {
		w.seen = map[box]bool{}
	}
	return found, nil
}

// noteIn reads an annotation; one that is hidden, or was not typed, is none.
func (w *pdfWords) noteIn(annotation references.FPDF_ANNOTATION) (note, error) {
	kind, err := w.FPDFAnnot_GetSubtype(&requests.FPDFAnnot_GetSubtype{Annotation: annotation})
	if err != nil {
		return note{}, trapOf(err)
	}
	key, one := "Contents", note{drawn: true}
	switch kind.Subtype {
	case enums.FPDF_ANNOT_SUBTYPE_LINK, enums.FPDF_ANNOT_SUBTYPE_POPUP:
		return note{}, nil
	case enums.FPDF_ANNOT_SUBTYPE_FILEATTACHMENT:
		w.pinned = true
	case enums.FPDF_ANNOT_SUBTYPE_WIDGET:
		key, one.typed = "V", true
	case enums.FPDF_ANNOT_SUBTYPE_FREETEXT:
		one.typed = true
	case enums.FPDF_ANNOT_SUBTYPE_TEXT, enums.FPDF_ANNOT_SUBTYPE_HIGHLIGHT, enums.FPDF_ANNOT_SUBTYPE_UNDERLINE,
		enums.FPDF_ANNOT_SUBTYPE_SQUIGGLY, enums.FPDF_ANNOT_SUBTYPE_STRIKEOUT:
		one.drawn = false
	}
	flags, err := w.FPDFAnnot_GetFlags(&requests.FPDFAnnot_GetFlags{Annotation: annotation})
	if err != nil || flags.Flags&hiddenNote != 0 {
		return note{}, trapOf(err)
	}
	rect, err := w.FPDFAnnot_GetRect(&requests.FPDFAnnot_GetRect{Annotation: annotation})
	if err != nil {
		return note{}, trapOf(err)
	}
	one.at = w.onPage(float64(rect.Rect.Left), float64(rect.Rect.Bottom), float64(rect.Rect.Right), float64(rect.Rect.Top))
	flag := 0
	field, err := w.FPDFAnnot_GetNumberValue(&requests.FPDFAnnot_GetNumberValue{Annotation: annotation, Key: "Ff"})
	if err == nil {
		flag = int(field.Value)
	}
	if flag&passwordField != 0 || isTrap(err) {
		return one, trapOf(err)
	}
	options, err := w.FPDFAnnot_GetValueType(&requests.FPDFAnnot_GetValueType{Annotation: annotation, Key: "Opt"})
	if isTrap(err) {
		return note{}, err
	}
	one.list = err == nil && options.ValueType == enums.FPDF_OBJECT_TYPE_ARRAY && flag&dropDownField == 0
	of, err := w.FPDFAnnot_GetValueType(&requests.FPDFAnnot_GetValueType{Annotation: annotation, Key: key})
	if err != nil || of.ValueType != enums.FPDF_OBJECT_TYPE_STRING { // a name is the state of a button
		return one, trapOf(err)
	}
	value, err := w.FPDFAnnot_GetStringValue(&requests.FPDFAnnot_GetStringValue{Annotation: annotation, Key: key})
	if err != nil {
		return one, trapOf(err)
	}
	one.text = strings.Join(strings.Fields(pdfText(strings.TrimRight(value.Value, "\x00"))), " ")
	return one, nil
}

// drawNotes has PDFium draw notes and values of fields on the page as a viewer does, and reads what is new there: the
// letters of the page itself may be others then, as it loses the fonts that it has from the tree of pages.
func (w *pdfWords) drawNotes(page requests.Page, notes []note) error {
	for _, one := range notes {
		if one.drawn {
			w.within = append(w.within, one.at)
		}
	}
	if w.within == nil {
		return nil
	}
	if _, err := w.GetForm(&requests.GetForm{Page: page}); err != nil && isTrap(err) { // draws what has no look yet
		return err
	}
	drawn, err := w.FPDFPage_Flatten(&requests.FPDFPage_Flatten{Page: page})
	if err != nil || drawn.Result != responses.FPDFPage_FlattenResultSuccess {
		return trapOf(err)
	}
	lost := w.lost
	_, err = w.readPage(page)
	w.lost = lost
	return err
}

// usualSize is that of the letters of a field.
const usualSize = 12

// addNotes puts what was typed, and the page does not show, in its place, or returns it as lines beside the page.
func (w *pdfWords) addNotes(notes []note) ([]pdfLine, error) {
	var lines []pdfLine
	var page strings.Builder
	for _, word := range w.found {
		page.WriteString(word.text)
	}
	shown := lettersOf(page.String())
	for _, one := range notes {
		if err := w.inTime(); err != nil {
			return nil, err
		}
		size := math.Max(1, math.Min(usualSize, one.at.high-one.at.low))
		switch {
		case lettersOf(one.text) == "":
		case one.typed && !w.showsNote(one):
			w.found = append(w.found, glyphs{box: one.at, y: one.at.high - size, size: size, text: one.text, apart: true})
		case !one.typed && !strings.Contains(shown, lettersOf(one.text)):
			lines = append(lines, pdfLine{text: one.text, y: one.at.low, size: size, gap: true, box: one.at})
		}
	}
	return lines, nil
}

// levelValues puts the value of a field that has one line on the line of the text that stands beside the field, to its
// left: fields are higher than lines.
func (w *pdfWords) levelValues(notes []note) {
	for _, one := range notes {
		var value []*glyphs
		var label *glyphs
		for i := range w.found {
			switch word := &w.found[i]; {
			case word.turn != 0 || !one.typed:
			case word.centredIn([]box{one.at}):
				value = append(value, word)
			case word.right <= one.at.left && word.y > one.at.low && word.y < one.at.high &&
				(label == nil || word.right > label.right):
				label = word
			}
		}
		onOtherLine := func(word *glyphs) bool { return math.Abs(word.y-value[0].y) > sameRow*word.size }
		if label == nil || slices.ContainsFunc(value, onOtherLine) {
			continue
		}
		for _, word := range value {
			word.y = label.y
		}
	}
}

// showsNote reports whether the page shows a text, or another that a field means by it. Of one that it shows in part,
// as a font does not have its letters or the field no room, it takes that away.
func (w *pdfWords) showsNote(one note) bool {
	has, kept := "", make([]glyphs, 0, len(w.found))
	for _, word := range w.found {
		if word.turnBack((4 - word.turn%4) % 4).centredIn([]box{one.at}) {
			has += lettersOf(word.text)
		} else {
			kept = append(kept, word)
		}
	}
	text := lettersOf(one.text)
	simple := strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxLatin1 }) < 0
	switch {
	case strings.Contains(has, text):
		return true
	case has != "" && strings.Contains(text, has), !simple:
		w.found = kept
	case !one.list && len(kept) < len(w.found):
		return true
	}
	return false
}

// lettersOf returns the letters and digits of a text.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}
