package pdf

import (
	"math"
	"strings"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/klippa-app/go-pdfium/structs"
)

// glyphs are letters that a page shows without room between them: a word, as a rule. Places are points of the page as
// it is shown, from its lower left corner; y goes upwards.
type glyphs struct {
	box           // turned as they are, so that they run to the right
	y     float64 // of the line they stand on, turned as well
	size  float64 // of the letters
	text  string
	apart bool // a blank stands to the left of them
	turn  int  // quarters of a circle by which they are turned to the left, or slanted
}

const (
	// slanted is the turn of letters that run in none of the four directions: a line of them is one word.
	slanted = 4
	// downwards is the turn of what is read from top to bottom, and of columns of such text from right to left.
	downwards = 3
	// steep is how many times as far letters run in their direction as beside it, at least.
	steep = 20
)

// turnOf returns how letters are turned that run along a vector.
func turnOf(x, y float64) int {
	switch {
	case math.Abs(y) <= math.Abs(x)/steep && x >= 0:
		return 0
	case math.Abs(y) <= math.Abs(x)/steep:
		return 2
	case math.Abs(x) > math.Abs(y)/steep:
		return slanted
	case y > 0:
		return 1
	}
	return 3
}

// turnBack returns a box as it stands once what is turned to the left by some quarters of a circle is turned back.
func (b box) turnBack(quarters int) box {
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
	lost          bool // fonts do not say which of its letters they show
}

// maxCharacters of a page: one with more is no page that somebody reads.
const maxCharacters = 4 << 20

// loadPage reads one page.
func (r *pdfReader) loadPage(index int) (*pdfPage, error) {
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
	page, out := requests.Page{ByReference: &loaded.Page}, &pdfPage{}
	if objects, err := r.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page}); err == nil {
		out.shows = objects.Count > 0
	}
	if !out.shows {
		inside, err := r.inspectObjects()
		if err != nil {
			return nil, err
		}
		out.broken = inside.isDamaged(index, r.count)
	}
	shown, err := r.placePage(page, out)
	if err != nil {
		return nil, err
	}
	words := pdfWords{pdfReader: r, shown: shown, sheet: box{right: out.width, high: out.height}}
	noted, err := words.listNotes(page)
	if err != nil {
		return nil, err
	}
	if err := words.prepareTexts(page, out); err != nil {
		return nil, err
	}
	broken, err := words.readPage(page)
	if out.broken = out.broken || broken; err != nil || broken {
		return out, err
	}
	if err := words.drawNotes(page, noted); err != nil {
		return nil, err
	}
	beside, err := words.addNotes(noted)
	if err != nil {
		return nil, err
	}
	words.levelValues(noted)
	out.lines, out.lost = append(linesOfPage(words.found, out.height, words.rules), beside...), words.lost
	if out.pictured, err = r.isPictured(page, out); err != nil {
		return nil, err
	}
	_, err = r.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page})
	return out, err
}

// prepareTexts outlines texts that take no width, as PDFium passes over them but for an outline: those of one letter or
// in a column, in a font that the file does not have. It takes away what is written invisibly beside other texts; on a
// scanned page that is what the page says.
func (w *pdfWords) prepareTexts(page requests.Page, read *pdfPage) error {
	counted, err := w.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	if err != nil {
		return trapOf(err)
	}
	const least = 0.01
	var invisible []references.FPDF_PAGEOBJECT
	texts := 0
	for index := range min(counted.Count, mostObjects) {
		if index%1024 == 1023 {
			if err := w.inTime(); err != nil {
				return err
			}
		}
		object, err := w.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: index})
		if err != nil {
			return trapOf(err)
		}
		at, err := w.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: object.PageObject})
		if err == nil && at.Right-at.Left < least {
			err = w.outlineText(object.PageObject)
		}
		if isTrap(err) {
			return err
		}
		mode, err := w.FPDFTextObj_GetTextRenderMode(&requests.FPDFTextObj_GetTextRenderMode{PageObject: object.PageObject})
		switch {
		case isTrap(err):
			return err
		case err != nil:
			continue
		case mode.TextRenderMode == enums.FPDF_TEXTRENDERMODE_UNKNOWN: // it is no text
			w.addRules(at)
		case mode.TextRenderMode == enums.FPDF_TEXTRENDERMODE_INVISIBLE:
			invisible = append(invisible, object.PageObject)
		}
		texts++
	}
	if len(invisible)*2 >= texts {
		return nil
	}
	if scanned, err := w.hasPictures(page, read); err != nil || scanned {
		return err
	}
	for _, object := range invisible {
		_, err := w.FPDFPage_RemoveObject(&requests.FPDFPage_RemoveObject{Page: page, PageObject: object})
		if isTrap(err) {
			return err
		}
	}
	return nil
}

// addRules notes the upper and the lower edge of what is no text, which may be lines of a table.
func (w *pdfWords) addRules(at *responses.FPDFPageObj_GetBounds) {
	if at == nil || at.Right-at.Left < shortestRule {
		return
	}
	low := w.onPage(float64(at.Left), float64(at.Bottom), float64(at.Right), float64(at.Bottom))
	high := w.onPage(float64(at.Left), float64(at.Top), float64(at.Right), float64(at.Top))
	w.rules = append(w.rules, low)
	if high.low-low.low > thickestRule {
		w.rules = append(w.rules, high)
	}
}

// outlineText gives a text an outline.
func (w *pdfWords) outlineText(object references.FPDF_PAGEOBJECT) error {
	_, err := w.FPDFTextObj_SetTextRenderMode(&requests.FPDFTextObj_SetTextRenderMode{
		PageObject: object, TextRenderMode: enums.FPDF_TEXTRENDERMODE_FILL_STROKE,
	})
	if err != nil { // it is no text
		return err
	}
	if _, err := w.FPDFPageObj_SetStrokeWidth(&requests.FPDFPageObj_SetStrokeWidth{
		PageObject: object, StrokeWidth: 1,
	}); err != nil {
		return err
	}
	_, err = w.FPDFPageObj_TransformF(&requests.FPDFPageObj_TransformF{ // it measures the text again
		PageObject: object, Transform: structs.FPDF_FS_MATRIX{A: 1, D: 1},
	})
	return err
}

// readPage reads the words of a page, and reports whether it cannot be read.
func (w *pdfWords) readPage(page requests.Page) (broken bool, err error) {
	text, err := w.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: page})
	if err != nil {
		return true, trapOf(err)
	}
	w.text = text.TextPage
	if err := w.read(); err != nil {
		return false, err
	}
	_, err = w.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage})
	return false, err
}

// isTrap reports whether PDFium broke off, and not just refused.
func isTrap(err error) bool {
	return err != nil &&
		(strings.Contains(err.Error(), "wasm error") || strings.Contains(err.Error(), "could not allocate memory"))
}

// affine is a matrix of six numbers, as PDF writes it.
type affine [6]float64

func (m affine) mapPoint(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

// finer is how many steps PDFium's whole numbers of a place have a point.
const finer = 100

// placePage returns how places of a page become those of what is shown of it: cut, and turned. It notes the size of
// that.
func (r *pdfReader) placePage(page requests.Page, out *pdfPage) (affine, error) {
	width, err := r.FPDF_GetPageWidthF(&requests.FPDF_GetPageWidthF{Page: page})
	if err != nil {
		return affine{}, err
	}
	height, err := r.FPDF_GetPageHeightF(&requests.FPDF_GetPageHeightF{Page: page})
	if err != nil {
		return affine{}, err
	}
	out.width, out.height = boundNumber(float64(width.PageWidth)), boundNumber(float64(height.PageHeight))
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

// boundNumber returns a number that a page may have, or 0.
func boundNumber(x float64) float64 {
	if !(math.Abs(x) < 1e5) {
		return 0
	}
	return x
}
