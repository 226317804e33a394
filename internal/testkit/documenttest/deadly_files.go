package documenttest

import (
	"fmt"
	"slices"
	"strings"
)

// Deadly returns small documents that break programs which believe them, by file name. Each kills, stops or bloats the
// process that parses it without limits, and none can be read.
func Deadly() map[string]string {
	names := []string{
		"selfstream.pdf", "xrefsize.pdf", "xrefwide.pdf", "objectsinself.pdf", "forms.pdf", "rowspans.html", "indent200k.json",
	}
	all := map[string]string{}
	for _, pill := range Pills() {
		if slices.Contains(names, pill.Name) {
			var content strings.Builder
			_ = pill.Make(&content) // never fails
			all[pill.Name] = content.String()
		}
	}
	return all
}

// PDF returns a good PDF with a page for each text; a page of no text shows a picture.
func PDF(texts ...string) string {
	var kids strings.Builder
	var pages []string
	for i, text := range texts {
		content := fmt.Sprintf("BT /F1 12 Tf 72 700 Td (%s) Tj ET", text)
		if text == "" {
			content = "q 100 0 0 100 72 500 cm BI /W 1 /H 1 /BPC 8 /CS /G ID x EI Q"
		}
		page := fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R /MediaBox [0 0 612 792] "+
			"/Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i)
		pages = append(pages, page, stream("", content))
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	return pdfOf("", append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>", fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(texts)),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
	}, pages...)...)
}

// Tireless returns a small PDF of 19,000 pages that show nothing, each in a million operators: reading it takes hours.
func Tireless() string {
	const pages = 19_000
	tree := fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Repeat("3 0 R ", pages), pages)
	content := stream("/Filter /FlateDecode", deflated(around("", "q Q ", 1_000_000, ""), 1))
	return pdfOf("", onePage(tree, "", "", content)...)
}
