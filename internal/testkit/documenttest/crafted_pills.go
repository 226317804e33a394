package documenttest

import (
	"fmt"
	"io"
	"strings"
)

// craftedPills returns documents of newer types, and of PDFs as they are laid out: made by looking for what reading
// them takes more of than they have.
func craftedPills(size func(small, full int) int) []Pill {
	return append(craftedPDFs(size), append(craftedParts(size), craftedTexts(size)...)...)
}

func craftedPDFs(size func(small, full int) int) []Pill {
	made := func(font, content string, more ...string) string {
		return pdfOf("", append(onePage("", "", font, stream("", content)), more...)...)
	}
	shown := func(text string, times int) string { return "BT /F1 12 Tf " + repeated(text, times) + " ET" }
	columns := &strings.Builder{} // a row of many columns above rows of one: is it a page in columns?
	for x := range 700 {
		fmt.Fprintf(columns, "1 0 0 1 %d 900 Tm (a) Tj ", 40*x)
	}
	for y := range 700 {
		fmt.Fprintf(columns, "1 0 0 1 %d %d Tm (a) Tj ", 40*(y%700), -20*y)
	}
	form := stream("/Type /XObject /Subtype /Form /Resources << /XObject << /X 6 0 R >> /Font << /F1 5 0 R >> >>",
		strings.Repeat("/X Do ", 100)+strings.Repeat(" ", size(1000, 100_000))+"BT /F1 9 Tf (x) Tj ET")
	page := "<< /Type /Page /Parent 2 0 R /Contents 4 0 R " +
		"/Resources << /XObject << /X 6 0 R >> /Font << /F1 5 0 R >> >> >>"
	return []Pill{
		written("oneplace.pdf", made("", shown("(a) Tj 0 0 Td ", size(100_000, 1_000_000)))),
		written("columnrows.pdf", made("", "BT /F1 9 Tf "+columns.String()+"ET")),
		written("forms.pdf", pdfOf("", append(onePage("", page, "", stream("", "/X Do")), form)...)),
		written("widths.pdf", made("<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [6 0 R] >>",
			shown("(ab) Tj", 1), "<< /Type /Font /W ["+strings.Repeat("0 65534 500 ", size(3000, 100_000))+"] >>")),
		written("encodings.pdf", made("<< /Type /Font /Subtype /Type0 /Encoding 6 0 R /ToUnicode 6 0 R "+
			"/DescendantFonts [5 0 R] >>", shown("(ab) Tj ", 10),
			"<< /BaseEncoding 6 0 R /Differences 7 0 R >>", "[7 0 R 65 7 0 R]")),
		written("differences.pdf", made("<< /Type /Font /Subtype /Type1 /Encoding << /Differences [0 "+
			strings.Repeat("/a ", size(20_000, 500_000))+"] >> >>", shown("(ab) Tj ", size(2000, 20_000)))),
		written("fonts.pdf", made("", shown("/F1 12 Tf (a) Tj ", size(20_000, 500_000)))),
	}
}

func craftedParts(size func(small, full int) int) []Pill {
	fixed := func(name, content string) part { return part{name, around(content, "", 0, "")} }
	bomb := func(name string, parts ...part) Pill { return Pill{Name: name, Make: docxOf(parts...)} }
	relations, slides := &strings.Builder{}, &strings.Builder{}
	for n := range size(5000, 20_000) {
		fmt.Fprintf(relations, `<Relationship Id="r%d" Type="x/slide" Target="s%d.xml"/>`, n, n)
		fmt.Fprintf(slides, `<sldId r:id="r%d"/>`, n)
	}
	again := func(out io.Writer) error {
		return around("<p>"+slides.String(), `<sldId r:id="r4999"/>`, size(20_000, 2_000_000), "</p>")(out)
	}
	items := repeated(`<item id="a" href="../../etc/passwd" media-type="text/html"/>`+
		`<item id="b" href="b.opf" media-type="text/html"/>`, 1000) +
		repeated(`<itemref idref="b"/><itemref idref="a"/>`, 1000)
	row := around("<s><row>", `<c t="s"><v>0</v></c>`, 16_000, "</row></s>")
	return []Pill{
		bomb("widerow.xlsx", fixed("xl/workbook.xml", `<w><sheet name="a" r:id="a"/></w>`),
			fixed("xl/_rels/workbook.xml.rels", `<r><Relationship Id="a" Type="x/worksheet" Target="s.xml"/></r>`),
			part{"xl/sharedStrings.xml", around("<s><si><t>", "text ", size(10_000, 50_000), "</t></si></s>")},
			part{"xl/s.xml", row}),
		bomb("slides.pptx", part{"ppt/presentation.xml", again},
			part{"ppt/_rels/presentation.xml.rels", around("<r>"+relations.String(), "", 0, "</r>")}),
		bomb("cells.pptx", fixed("ppt/presentation.xml", `<p><sldId r:id="a"/></p>`),
			fixed("ppt/_rels/presentation.xml.rels", `<r><Relationship Id="a" Type="x/slide" Target="s.xml"/></r>`),
			part{"ppt/s.xml", around("<s><tr>", "<tc/>", size(200_000, 20_000_000), "</tr></s>")}),
		bomb("circle.epub", fixed("META-INF/container.xml", `<c><rootfile full-path="b.opf"/></c>`),
			fixed("b.opf", "<package><manifest>"+items+"</manifest></package>")),
		bomb("ownpackage.epub", fixed("META-INF/container.xml", `<c><rootfile full-path="META-INF/container.xml"/></c>`)),
	}
}

func craftedTexts(size func(small, full int) int) []Pill {
	parts := &strings.Builder{}
	for n := range size(1000, 20_000) {
		fmt.Fprintf(parts, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", n, n)
	}
	return []Pill{
		written("quotedspans.html", strings.Repeat("<blockquote>said ", 60)+
			"<table><tr><td rowspan=200000>a<td>b<tr><td>c</table>"),
		written("encodedwords.eml", "Subject: "+repeated("=?a?q?", size(20_000, 2_000_000))+"\n\ngood\n"),
		written("headers.eml", repeated("X-A: b\n", size(20_000, 2_000_000))+"\ngood\n"),
		written("nestedparts.eml", parts.String()+"good\n"),
		written("quoted.eml", "Content-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n"+
			repeated("=3Cp=3Ea", size(20_000, 500_000))),
		written("base64.eml", "Content-Transfer-Encoding: base64\n\n"+repeated(" \n=", size(20_000, 2_000_000))),
		written("charsets.eml", "Content-Type: text/plain; charset=iso-2022-jp\n\n"+
			repeated("\x1b$B$\"\x1b(B", size(20_000, 1_000_000))),
		written("deeptable.md", "+++\na = "+strings.Repeat("[", 15_000)+"\n+++\ngood\n"),
		written("dottedkeys.md", "+++\n"+strings.Repeat("a.", 7000)+"a = 1\n+++\ngood\n"),
		written("titles.rst", repeated("a\n-\n", size(20_000, 1_000_000))),
	}
}
