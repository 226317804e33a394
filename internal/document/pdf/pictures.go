package pdf

import (
	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"
)

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
