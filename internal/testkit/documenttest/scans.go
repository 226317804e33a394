package documenttest

import (
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// ScannedPage begins a page of PDFOfPages that is a picture: the rest of it is written in cells that the model server
// of modeltest reads.
const ScannedPage = "scanned: "

// PDFOfPages returns a PDF of pages of so many points; each has its text as text, or as a picture.
func PDFOfPages(width, height int, pages ...string) string {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	kids := ""
	for _, text := range pages {
		at := len(objects) + 1
		kids += fmt.Sprintf("%d 0 R ", at)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R "+
			"/Resources << /Font << /F1 3 0 R >> /XObject << /I %d 0 R >> >> >>", width, height, at+1, at+2))
		scanned, ok := strings.CutPrefix(text, ScannedPage)
		cells := make([]byte, modeltest.Columns*modeltest.Rows/8)
		copy(cells, scanned)
		for i := range cells {
			cells[i] = ^cells[i] // 1 is white
		}
		shown := fmt.Sprintf("q %d 0 0 %d 0 0 cm /I Do Q", width, height)
		if !ok {
			shown = fmt.Sprintf("BT /F1 12 Tf 50 %d Td (%s) Tj ET", height/2, text)
		}
		objects = append(objects, stream("", shown), stream(fmt.Sprintf(
			"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 1",
			modeltest.Columns, modeltest.Rows), string(cells)))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, len(pages))
	return pdfOf("", objects...)
}
