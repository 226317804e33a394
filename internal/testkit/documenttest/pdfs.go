package documenttest

import (
	"fmt"
	"io"
	"strings"
)

// pdfOf writes a PDF of objects numbered from 1; trailer stands in its last dictionary, beside /Size and /Root 1 0 R.
func pdfOf(trailer string, objects ...string) string {
	var out strings.Builder
	var offsets []int
	out.WriteString("%PDF-1.4\n")
	for i, object := range objects {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, trailer, start)
	return strings.ReplaceAll(out.String(), "SELF", fmt.Sprint(start))
}

// onePage returns the objects of a PDF of one page; what stands for a part replaces it.
func onePage(tree, page, font, content string) []string {
	return []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		or(tree, "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"),
		or(page, "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"),
		or(content, stream("", "BT /F1 12 Tf (good) Tj ET")),
		or(font, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"),
	}
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func stream(says, content string) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(content), says, content)
}

// SmallPDF returns a PDF with a page of 300 points for each text, which may end its string and draw more.
func SmallPDF(texts ...string) string {
	kids, objects := "", []string{"<< /Type /Catalog /Pages 2 0 R >>", "",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	for i, text := range texts {
		kids += fmt.Sprintf("%d 0 R ", 4+2*i)
		content := "BT /F1 12 Tf 20 200 Td (" + text + ") Tj ET"
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents %d 0 R "+
			"/Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, len(texts))
	return pdfOf("", objects...)
}

// xrefStream returns a PDF whose only object besides those given is its table of objects, which holds entries.
func xrefStream(says, entries string, objects ...string) string {
	var out strings.Builder
	out.WriteString("%PDF-1.5\n")
	for _, object := range objects {
		out.WriteString(object + "\n")
	}
	start := out.Len()
	fmt.Fprintf(&out, "9 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF\n",
		stream("/Type /XRef /Root 1 0 R "+says, entries), start)
	return out.String()
}

// good returns a small sound PDF.
func good() string { return pdfOf("", onePage("", "", "", "")...) }

// characters returns a PDF of one page whose font has this map of characters.
func characters(text string) string {
	return pdfOf("", append(onePage("", "", "<< /Type /Font /ToUnicode 6 0 R >>", ""), stream("", text))...)
}

func pdfPills(size func(small, full int) int) []Pill {
	page := func(tree, page, font, content string) string { return pdfOf("", onePage(tree, page, font, content)...) }
	deep := size(200_000, 2_000_000)
	bomb := func(layers, megabytes int) func(io.Writer) error {
		return func(out io.Writer) error {
			filter := "/Filter [" + strings.Repeat("/FlateDecode ", layers) + "]"
			content := stream(filter, deflated(around("BT ", "(a) Tj ", megabytes*mega/7, "ET"), layers))
			_, err := io.WriteString(out, page("", "", "", content))
			return err
		}
	}
	return []Pill{
		written("selfstream.pdf", xrefStream("/Size 3 /W [1 1 1]", "\x00\x00\x00\x02\x01\x00\x02\x01\x00")),
		written("xrefsize.pdf", xrefStream("/Size 30000000000 /W [1 1 1]", "\x00\x00\x00")),
		written("xrefw0.pdf", xrefStream("/Size 3 /W [0 0 0] /Index [0 9000000000000000]", "\x00")),
		written("xrefwide.pdf", xrefStream("/Size 3 /W [1 9000000000 1]", "\x00")),
		written("xrefstart.pdf", strings.Replace(good(), "xref\n0 6", "xref\n30000000000 6", 1)),
		written("xrefstart2g.pdf", strings.Replace(good(), "xref\n0 6", "xref\n67000000 6", 1)),
		written("prevcycle.pdf", pdfOf("/Prev SELF", onePage("", "", "", "")...)),
		written("cmapn.pdf", characters("begincmap 900000000000 beginbfchar endbfchar endcmap")),
		written("parentcycle.pdf", page("", "<< /Type /Page /Parent 3 0 R /Contents 4 0 R >>", "", "")),
		written("count.pdf", page("<< /Type /Pages /Kids [3 0 R] /Count 9000000000000000000 >>", "", "", "")),
		written("kidscycle.pdf", page("<< /Type /Pages /Kids [2 0 R 2 0 R 3 0 R] /Count 19000 >>", "", "", "")),
		written("pagerepeat.pdf", page(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>",
			strings.Repeat("3 0 R ", size(3000, 28_000)), size(3000, 28_000)), "", "",
			stream("", strings.Repeat("BT (some words) Tj ET ", 10)))),
		written("arrays.pdf", page("<< /Type /Pages /Kids "+strings.Repeat("[", deep)+" /Count 1 >>", "", "", "")),
		written("objects.pdf", page(strings.Repeat("1 0 obj ", deep), "", "", "")),
		written("lengthself.pdf", page("", "", "", "<< /Length 4 0 R >>\nstream\nBT ET\nendstream")),
		written("columns.pdf", page("", "", "", stream(
			"/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 900000000000 >>",
			deflated(around("x", "", 0, ""), 1)))),
		written("objectsinself.pdf", objectsInSelf()),
		{Name: "flatebomb2g.pdf", Make: bomb(1, size(8, 2048))},
		{Name: "flatebomb4g.pdf", Make: bomb(3, size(8, 4096))},
	}
}

// objectsInSelf has a stream of objects that must be opened to learn how many objects it has.
func objectsInSelf() string {
	holder := "2 0 obj\n" + stream("/Type /ObjStm /N 1 0 R /First 4", "1 0 7") + "\nendobj"
	return xrefStream("/Size 3 /W [1 1 1]", "\x00\x00\x00\x02\x02\x00\x01\x09\x00", holder)
}
