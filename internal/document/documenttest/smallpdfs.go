package documenttest

import (
	"fmt"
	"strings"
)

// SmallPDFs are small documents that break programs which believe them, by file name. Each kills, stops or bloats the
// process that parses it without limits.
func SmallPDFs() map[string]string {
	return map[string]string{
		"selfstream.pdf":  selfStream(),
		"xrefsize.pdf":    xrefSize(),
		"parentcycle.pdf": pages("/Parent 3 0 R", "/Type /Pages /Kids [3 0 R] /Count 1"),
		"count.pdf":       pages("/Parent 2 0 R", "/Type /Pages /Kids [3 0 R] /Count 9000000000000000000"),
		"kidscycle.pdf":   pages("/Parent 2 0 R", "/Type /Pages /Kids [2 0 R] /Count 1"),
		"rowspan.html": "<table><tr><td colspan=1000000 rowspan=1000000>a</td></tr>" +
			strings.Repeat("<tr><td colspan=1000000 rowspan=1000000>b</td></tr>", 2) + "</table>",
		"spaces.json": strings.Repeat("[", 9990) + strings.Repeat("0,", 200_000) + "0" + strings.Repeat("]", 9990),
	}
}

// file puts objects behind the header of a PDF, and a table that tells where they begin.
func file(trailer string, objects ...string) string {
	var out strings.Builder
	out.WriteString("%PDF-1.4\n")
	places := make([]int, len(objects))
	for i, object := range objects {
		places[i] = out.Len()
		fmt.Fprintf(&out, "%d 0 obj %s endobj\n", i+1, object)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, place := range places {
		fmt.Fprintf(&out, "%010d 00000 n \n", place)
	}
	fmt.Fprintf(&out, "trailer << /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, start)
	return out.String()
}

// pages is a PDF of one page, with the page's parent and the tree of pages as given.
func pages(parent, tree string) string {
	content := "BT /F1 12 Tf 72 700 Td (Hello) Tj ET"
	return file("/Root 1 0 R",
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< "+tree+" >>",
		"<< /Type /Page "+parent+" /Contents 4 0 R >>",
		fmt.Sprintf("<< /Length %d >> stream\n%s\nendstream", len(content), content),
	)
}

// PDF is a good PDF of one page that says so much.
func PDF(text string) string {
	content := fmt.Sprintf("BT /F1 12 Tf 72 700 Td (%s) Tj ET", text)
	return file("/Root 1 0 R",
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "+
			"/Resources << /Font << /F1 5 0 R >> >> >>",
		fmt.Sprintf("<< /Length %d >> stream\n%s\nendstream", len(content), content),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
	)
}

// selfStream is a PDF whose only object stream lies in itself.
func selfStream() string {
	const head = "%PDF-1.5\n"
	entry := []byte{2, 1, 0} // object 0 and 1: both in the object stream 1
	entries := string(entry) + string(entry)
	return head + fmt.Sprintf(
		"1 0 obj<</Type/XRef/Size 2/W[1 1 1]/Length %d/Root 1 0 R>>stream\n%s\nendstream endobj\nstartxref\n%d\n%%%%EOF",
		len(entries), entries, len(head))
}

// xrefSize is a PDF whose table of objects claims a length that no memory holds.
func xrefSize() string {
	const head = "%PDF-1.5\n"
	return head + fmt.Sprintf(
		"1 0 obj<</Type/XRef/Size 30000000000/W[1 1 1]/Length 0/Root 1 0 R>>stream\n\nendstream endobj\n"+
			"startxref\n%d\n%%%%EOF",
		len(head))
}

// Tireless is a PDF that no check of its structure stops: the number of its characters is computed. What parses it
// takes ever more memory until it is stopped: never parse it outside a box.
func Tireless() string {
	return characters("begincmap 1 dict begin /n 900000000000 def n beginbfchar endbfchar end endcmap")
}
