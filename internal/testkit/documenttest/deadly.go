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
		"selfstream.pdf", "xrefsize.pdf", "prevcycle.pdf", "count.pdf", "kidscycle.pdf", "rowspan.html", "indent200k.json",
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

// Tireless is a PDF that no check of its structure stops: the number of its characters is computed. What parses it
// takes ever more memory until it is stopped: never parse it outside a box.
func Tireless() string {
	return characters("begincmap 1 dict begin /n 900000000000 def n beginbfchar endbfchar end endcmap")
}
