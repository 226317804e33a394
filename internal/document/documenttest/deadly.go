package documenttest

import (
	"fmt"
	"slices"
	"strings"
)

// Deadly are small documents that break programs which believe them, by file name. Each kills, stops or bloats the
// process that parses it without limits, and none can be read.
func Deadly() map[string]string {
	names := []string{
		"selfstream.pdf", "xrefsize.pdf", "arrays.pdf", "objectsinself.pdf", "forms.pdf", "rowspan.html", "indent200k.json",
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

// PDF is a good PDF of one page that says so much.
func PDF(text string) string {
	content := stream("", fmt.Sprintf("BT /F1 12 Tf 72 700 Td (%s) Tj ET", text))
	return pdfOf("", onePage("", "", "", content)...)
}

// Tireless is a small PDF of 19,000 pages that show nothing, each in a million operators: reading it takes hours.
func Tireless() string {
	const pages = 19_000
	tree := fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Repeat("3 0 R ", pages), pages)
	content := stream("/Filter /FlateDecode", deflated(around("", "q Q ", 1_000_000, ""), 1))
	return pdfOf("", onePage(tree, "", "", content)...)
}
