package pdf

import (
	"bytes"
	"image/jpeg"
	"math"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
)

const (
	// mostPixels is the longer side of a picture at most, whatever the size of its page.
	mostPixels = 2000
	// pixelsOfPoint is how many pixels a point of a small page gets at most: 300 an inch.
	pixelsOfPoint = 300.0 / 72
)

// isScan reports whether a page is among those that are transcribed: all, or those that show something, and have no
// text but headers and footers.
func (p *pdfPage) isScan(limits document.Limits) bool {
	return limits.Scans == core.PagesAll && !p.broken || limits.Scans != "" && p.isTextless()
}

// isTextless reports whether a page shows something, and has no text but headers and footers.
func (p *pdfPage) isTextless() bool {
	return !p.broken && (len(p.lines) == 0 && p.shows || !p.says && p.pictured)
}

// renderPictures renders the pages that are asked for; those that cannot be rendered, or not in time, are left out.
func (r *pdfReader) renderPictures() (document.Doc, error) {
	doc, begun := document.Doc{Text: strings.NewReader("")}, time.Now()
	for i, page := range r.limits.Pictures[:min(len(r.limits.Pictures), document.PicturesAtOnce)] {
		if i > 0 && time.Since(begun) > r.limits.Time/4 {
			break // the next request goes on here
		}
		raw, err := r.renderPage(page - 1)
		if err != nil {
			return document.Doc{}, r.wrapDamage(err)
		}
		if raw != nil {
			doc.Pictures = append(doc.Pictures, document.Picture{Page: page, JPEG: raw})
		}
	}
	return doc, nil
}

// renderPage renders a page; nil where PDFium refuses to, or had not the memory for what stands on it.
func (r *pdfReader) renderPage(index int) ([]byte, error) {
	r.number = index + 1
	size, err := r.FPDF_GetPageSizeByIndex(&requests.FPDF_GetPageSizeByIndex{Document: r.file, Index: index})
	if err != nil {
		return nil, trapOf(err)
	}
	width, height := boundNumber(size.Width), boundNumber(size.Height)
	scale := min(mostPixels/max(width, height), pixelsOfPoint)
	if width <= 0 || height <= 0 {
		return nil, nil
	}
	before := refused.Load()
	rendered, err := r.RenderPageInPixels(&requests.RenderPageInPixels{
		Page:        requests.Page{ByIndex: &requests.PageByIndex{Document: r.file, Index: index}},
		Width:       max(1, int(math.Round(width*scale))),
		Height:      max(1, int(math.Round(height*scale))),
		RenderFlags: enums.FPDF_RENDER_FLAG_ANNOT,
	})
	if err != nil {
		return nil, trapOf(err)
	}
	defer rendered.Cleanup()
	if refused.Load() > before { // what stands on it is not all there
		return nil, nil
	}
	for quality := 85; quality > 0; quality -= 20 {
		var out bytes.Buffer
		if err := jpeg.Encode(&out, rendered.Result.RenderedImage, &jpeg.Options{Quality: quality}); err != nil {
			return nil, err
		}
		if out.Len() <= document.MaxPicture {
			return out.Bytes(), nil
		}
	}
	return nil, nil
}

// muchOfPage is the part of a page that pictures take where it is a scanned one: a logo takes less.
const muchOfPage = 0.1

// mostObjects is how many objects of a page are looked at.
const mostObjects = 10_000

// isPictured reports whether pictures take much of a page whose lines all stand where headers and footers do.
func (r *pdfReader) isPictured(page requests.Page, read *pdfPage) (bool, error) {
	if len(read.lines) == 0 {
		return false, nil
	}
	for _, line := range read.lines {
		if !line.edge {
			return false, nil
		}
	}
	return r.hasPictures(page, read)
}

// hasPictures reports whether pictures take much of a page.
func (r *pdfReader) hasPictures(page requests.Page, read *pdfPage) (bool, error) {
	counted, err := r.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: page})
	if err != nil {
		return false, trapOf(err)
	}
	taken := 0.0
	for index := range min(counted.Count, mostObjects) {
		area, err := r.areaOfPicture(page, index)
		if err != nil {
			return false, err
		}
		if taken += area; taken > muchOfPage*read.width*read.height {
			return true, nil
		}
	}
	return false, nil
}

// areaOfPicture returns what an object of a page takes of it, in square points; 0 where it is no picture.
func (r *pdfReader) areaOfPicture(page requests.Page, index int) (float64, error) {
	object, err := r.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: page, Index: index})
	if err != nil {
		return 0, trapOf(err)
	}
	kind, err := r.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: object.PageObject})
	if err != nil {
		return 0, trapOf(err)
	}
	if kind.Type != enums.FPDF_PAGEOBJ_IMAGE && kind.Type != enums.FPDF_PAGEOBJ_FORM { // which may hold one
		return 0, nil
	}
	at, err := r.FPDFPageObj_GetBounds(&requests.FPDFPageObj_GetBounds{PageObject: object.PageObject})
	if err != nil {
		return 0, trapOf(err)
	}
	return max(0, boundNumber(float64(at.Right-at.Left))) * max(0, boundNumber(float64(at.Top-at.Bottom))), nil
}

// trapOf returns an error with which PDFium broke off; nil where it just refused.
func trapOf(err error) error {
	if isTrap(err) {
		return err
	}
	return nil
}
