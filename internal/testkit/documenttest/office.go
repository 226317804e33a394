package documenttest

import (
	"bytes"
	"io"
)

// Part is a part of a document that is a zip: its name and content.
type Part struct{ Name, Content string }

// Zip returns a zip of parts in order; several may have one name.
func Zip(parts ...Part) string {
	var out bytes.Buffer
	var all []part
	for _, each := range parts {
		all = append(all, part{each.Name, func(to io.Writer) error {
			_, err := io.WriteString(to, each.Content)
			return err
		}})
	}
	_ = docxOf(all...)(&out) // a buffer takes everything
	return out.String()
}

// ZipOf returns a zip of files by name.
func ZipOf(files map[string]string) string {
	var parts []Part
	for name, content := range files {
		parts = append(parts, Part{name, content})
	}
	return Zip(parts...)
}

// related returns the part that says which parts another one names, by id, kind and target.
func related(of string, relations ...[3]string) Part {
	content := `<Relationships>`
	for _, r := range relations {
		content += `<Relationship Id="` + r[0] + `" Type="http://r.example/` + r[1] + `" Target="` + r[2] + `"/>`
	}
	return Part{of, content + `</Relationships>`}
}

// Slides returns a small .pptx: two slides in the order of the deck, not of their names, a list, a table, and notes.
func Slides() string {
	shape := func(holder, text string) string {
		return `<p:sp><p:nvPr><p:ph type="` + holder + `"/></p:nvPr><p:txBody>` + text + `</p:txBody></p:sp>`
	}
	line := func(level, text string) string {
		return `<a:p><a:pPr lvl="` + level + `"/><a:r><a:t>` + text + `</a:t></a:r></a:p>`
	}
	table := `<p:graphicFrame><a:tbl><a:tr><a:tc><a:p><a:r><a:t>Year</a:t></a:r></a:p></a:tc><a:tc><a:p><a:r>` +
		`<a:t>Flights` +
		`</a:t></a:r></a:p></a:tc></a:tr></a:tbl></p:graphicFrame>`
	return Zip(
		Part{"ppt/presentation.xml", `<p:presentation xmlns:r="r"><p:sldIdLst><p:sldId id="256" r:id="rId8"/>` +
			`<p:sldId id="257" r:id="rId7"/></p:sldIdLst></p:presentation>`},
		related("ppt/_rels/presentation.xml.rels",
			[3]string{"rId7", "slide", "slides/slide1.xml"}, [3]string{"rId8", "slide", "slides/slide2.xml"}),
		Part{"ppt/slides/slide1.xml", `<p:sld>` + shape("title", line("0", "The end")) + table +
			shape("sldNum", line("0", "2")) + `</p:sld>`},
		Part{"ppt/slides/slide2.xml", `<p:sld>` + shape("ctrTitle", line("0", "The start")) +
			shape("body", line("0", "First point")+line("1", "below it")) + `</p:sld>`},
		related("ppt/slides/_rels/slide2.xml.rels", [3]string{"rId1", "notesSlide", "../notesSlides/notesSlide1.xml"}),
		Part{"ppt/notesSlides/notesSlide1.xml", `<p:notes>` + shape("sldNum", line("0", "1")) +
			shape("body", line("0", "Say hello")) + `</p:notes>`},
	)
}

// Workbook returns a small .xlsx: two sheets with shared texts, a number, a date, a truth value and an empty cell.
func Workbook() string {
	return Zip(
		Part{"xl/workbook.xml", `<workbook xmlns:r="r"><sheets><sheet name="Flights" sheetId="1" r:id="rId1"/>` +
			`<sheet name="Notes" sheetId="2" r:id="rId2"/></sheets></workbook>`},
		related("xl/_rels/workbook.xml.rels",
			[3]string{"rId1", "worksheet", "worksheets/sheet1.xml"},
			[3]string{"rId2", "worksheet", "/xl/worksheets/sheet2.xml"}),
		Part{"xl/sharedStrings.xml", `<sst><si><t>Airport</t></si><si><r><t>Da</t></r><r><t>te</t></r></si></sst>`},
		Part{"xl/styles.xml", `<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm"/></numFmts>` +
			`<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>`},
		Part{"xl/worksheets/sheet1.xml", `<worksheet><sheetData>` +
			`<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c><c r="D1" t="inlineStr"><is><t>Open</t>` +
			`</is></c></row>` +
			`<row r="2"><c r="A2" t="str"><v>Oslo</v></c><c r="B2" s="1"><v>39415</v></c><c r="C2">` +
			`<v>0.10000000000000001</v></c>` +
			`<c r="D2" t="b"><v>1</v></c></row></sheetData></worksheet>`},
		Part{"xl/worksheets/sheet2.xml", `<worksheet><sheetData><row r="1"><c r="A1"><v>7</v></c></row></sheetData>` +
			`</worksheet>`},
	)
}

// Book returns a small .epub: two chapters in the order of reading, not of their names.
func Book() string {
	return Zip(
		Part{"mimetype", "application/epub+zip"},
		Part{"META-INF/container.xml", `<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles>` +
			`</container>`},
		Part{"OEBPS/book.opf", `<package xmlns:dc="dc"><metadata><dc:title>A book</dc:title>` +
			`<dc:creator>A. Writer</dc:creator>` +
			`</metadata><manifest><item id="b" href="b%20two.xhtml" media-type="application/xhtml+xml"/>` +
			`<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>` +
			`<item id="p" href="p.png" media-type="image/png"/>` +
			`</manifest><spine><itemref idref="b"/><itemref idref="a"/></spine></package>`},
		Part{"OEBPS/a.xhtml", `<?xml version="1.0"?><html><head><title>x</title></head><body><h2>Later</h2>` +
			`<p>Two.</p></body></html>`},
		Part{"OEBPS/b two.xhtml", `<?xml version="1.0"?><html><body><h1>Chapter one</h1><p>One.</p></body></html>`},
	)
}

// Mail returns a small message: an encoded subject, a plain form and one of HTML, and something attached.
func Mail() string {
	return "From: =?utf-8?q?Zo=C3=AB?= <zoe@a.example>\r\nTo: b@a.example\r\nDate: Fri, 20 Nov 2026 10:00:00 +0100\r\n" +
		"Subject: =?utf-8?b?TmV3cyDigqw=?=\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=outer\r\n\r\n" +
		"--outer\r\nContent-Type: multipart/alternative; boundary=inner\r\n\r\n" +
		"--inner\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
		"Z=FCrich is =\r\nopen.\r\n--inner\r\nContent-Type: text/html\r\n\r\n<p>Z&uuml;rich is open.</p>\r\n--inner--\r\n" +
		"--outer\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=\"plan.pdf\"\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\nJVBERi0=\r\n--outer--\r\n"
}

// WordWithStyles returns a small .docx with headings by the ids of a German program, a list, and a table.
func WordWithStyles() string {
	paragraph := func(properties, text string) string {
		return `<w:p><w:pPr>` + properties + `</w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
	}
	item := func(level, text string) string {
		return paragraph(`<w:numPr><w:ilvl w:val="`+level+`"/><w:numId w:val="3"/></w:numPr>`, text)
	}
	cell := func(text string) string { return `<w:tc>` + paragraph("", text) + `</w:tc>` }
	return Zip(
		Part{"word/styles.xml", `<w:styles><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>` +
			`<w:style w:styleId="Eigen"><w:name w:val="Own"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>`},
		Part{"word/document.xml", `<w:document><w:body>` + paragraph(`<w:pStyle w:val="Title"/>`, "The report") +
			paragraph(`<w:pStyle w:val="berschrift1"/>`, "Part") + paragraph("", "# of flights: 7") +
			paragraph(`<w:pStyle w:val="Eigen"/>`, "Section") + item("0", "one") + item("1", "two") + paragraph("", "after") +
			`<w:tbl><w:tr>` + cell("Year") + cell("Flights") + `</w:tr><w:tr>` + cell("1990") + cell("12") + `</w:tr></w:tbl>` +
			`<mc:AlternateContent><mc:Choice>` + paragraph("", "once") + `</mc:Choice><mc:Fallback>` + paragraph("", "twice") +
			`</mc:Fallback></mc:AlternateContent></w:body></w:document>`},
	)
}

// Rich returns the parts of documents that have of everything that is read in one of their type, by file name.
func Rich() map[string][]Part {
	return map[string][]Part{
		"rich.docx": {
			{"word/document.xml", `<d><p><pPr><pStyle val="H"/><numPr><ilvl val="1"/><numId val="1"/></numPr></pPr><r><rPr><vanish/></rPr><t>a</t>` +
				`</r><txbxContent><p><r><t>b</t></r></p></txbxContent><footnoteReference id="1"/><ruby><rt><t>c</t></rt><rubyBase><t>d</t></rubyBase></ruby>` +
				`</p><tbl><tr><tc><tcPr><gridSpan val="2"/><vMerge/></tcPr><p><r><t>e</t></r></p></tc></tr></tbl><altChunk id="a"/><chart id="a"/></d>`},
			{"word/numbering.xml", `<n><abstractNum abstractNumId="0"><lvl ilvl="0"><start val="1"/><numFmt val="upperRoman"/><lvlText val="%1.%2"/>` +
				`</lvl></abstractNum><num numId="1"><abstractNumId val="0"/><lvlOverride ilvl="1"><startOverride val="3"/></lvlOverride></num></n>`},
			{"word/styles.xml", `<s><style styleId="H"><basedOn val="H"/><name val="heading 1"/><vanish/></style></s>`},
			related("word/_rels/document.xml.rels", [3]string{"n", "footnotes", "document.xml"}, [3]string{"a", "aFChunk", "c.html"}),
			{"word/c.html", "<p>within</p>"},
		},
		"rich.pptx": {
			{"ppt/s.xml", `<sld><sp><nvSpPr><cNvPr hidden="1"/></nvSpPr><p><t>a</t></p></sp><AlternateContent><Choice><sp><p><t>b_x000D_</t></p></sp>` +
				`</Choice><Fallback><p><t>c</t></p></Fallback></AlternateContent><tbl><tr><tc hMerge="1"><p><t>d</t></p></tc><tc vMerge="1"/></tr></tbl><chart id="c"/><relIds dm="d"/></sld>`},
			{"ppt/c.xml", `<c><title><p/><p><t># a</t></p></title><ser><tx><pt><v>b</v></pt></tx><cat><pt>1</pt></cat><val><pt><v>2</v></pt></val></ser></c>`},
			{"ppt/d.xml", `<d><pt><t><p><pPr lvl="2"><buAutoNum type="romanLcParenBoth" startAt="9"/></pPr><t>a</t></p></t></pt></d>`},
			{"ppt/e.xml", `<e><cm><text>a</text></cm><threadedComment ref="A1"><text>b</text></threadedComment><comment><t>c</t></comment></e>`},
			{"ppt/presentation.xml", `<p><sldId r:id="a"/></p>`},
			related("ppt/_rels/presentation.xml.rels", [3]string{"a", "slide", "s.xml"}),
			related("ppt/_rels/s.xml.rels", [3]string{"c", "chart", "c.xml"}, [3]string{"d", "diagramData", "d.xml"},
				[3]string{"e", "comments", "e.xml"}),
		},
		"rich.xlsx": {
			{"xl/s.xml", `<w><cols><col min="1" max="2" hidden="1"/></cols><row r="1"><c r="C1" s="1"><v>39415.5</v></c><c r="D1" t="s"><v>0</v></c>` +
				`</row><row r="2" hidden="1"><c><f>1</f></c></row><mergeCell ref="C1:D9"/><oddHeader>&amp;Lx&amp;&amp;</oddHeader></w>`},
			{"xl/styles.xml", `<s><numFmt numFmtId="164" formatCode="[&gt;10]#,##0.00_);[Red]\(0\);@"/><numFmt numFmtId="165" formatCode="[h]:mm:ss.00 AM/PM"/>` +
				`<cellXfs><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></s>`},
			{"xl/workbook.xml", `<w><sheet name="a" r:id="a"/></w>`},
			related("xl/_rels/workbook.xml.rels", [3]string{"a", "worksheet", "s.xml"}),
			{"xl/sharedStrings.xml", `<s><si><t>a_x000D_</t><rPh><t>b</t></rPh></si></s>`},
		},
	}
}

func officePills(size func(small, full int) int) []Pill {
	bomb := func(name string, parts ...part) Pill { return Pill{Name: name, Make: docxOf(parts...)} }
	fixed := func(name, content string) part { return part{name, around(content, "", 0, "")} }
	deck := fixed("ppt/presentation.xml", `<p><sldId r:id="a"/></p>`)
	deckRelated := fixed("ppt/_rels/presentation.xml.rels", `<r><Relationship Id="a" Type="x/slide" Target="s.xml"/></r>`)
	book := fixed("xl/workbook.xml", `<w><sheet name="a" r:id="a"/></w>`)
	bookRelated := fixed("xl/_rels/workbook.xml.rels", `<r><Relationship Id="a" Type="x/worksheet" Target="s.xml"/></r>`)
	container := fixed("META-INF/container.xml", `<c><rootfile full-path="b.opf"/></c>`)
	opf := fixed("b.opf", `<p><m><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></m><s>`+
		`<itemref idref="a"/></s></p>`)
	boundary := "Content-Type: multipart/mixed; boundary=b\n\n"
	return []Pill{
		bomb("slidebomb.pptx", deck, deckRelated,
			part{"ppt/s.xml", around("<s><p><t>", "x", size(8, 2000)*mega, "</t></p></s>")}),
		bomb("deepslide.pptx", deck, deckRelated, part{"ppt/s.xml", around("", "<a>", size(1, 96)*mega, "")}),
		bomb("sharedbomb.xlsx", book, bookRelated,
			part{"xl/sharedStrings.xml", around("<s>", "<si><t>x</t></si>", size(1, 480)*mega/8, "</s>")}),
		bomb("farcolumn.xlsx", book, bookRelated,
			part{"xl/s.xml", around("<s><row>", `<c r="ZZZ1"><v>1</v></c>`, 20_000, "</row></s>")}),
		bomb("bigtext.xlsx", book, bookRelated,
			part{"xl/sharedStrings.xml", around("<s><si><t>", "text ", 50_000, "</t></si></s>")},
			part{"xl/s.xml", around("<s>", `<row><c t="s"><v>0</v></c></row>`, size(3000, 10_000), "</s>")}),
		bomb("chapterbomb.epub", container, opf, part{"a.xhtml", around("<p>", "x", size(8, 2000)*mega, "</p>")}),
		bomb("deepchapter.epub", container, opf, part{"a.xhtml", around("", "<div>", 100_000, "x")}),
		written("letters.eml", boundary+repeated("--b\n\nx\n", size(2000, 200_000))),
		written("deepletters.eml", repeated("Content-Type: message/rfc822\n\n", size(2000, 200_000))),
		written("frontmatter.md", "---\na: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n---\ngood\n"),
		written("deepfront.md", "---\na: "+repeated("[", 15_000)+"\n---\ngood\n"),
	}
}

func repeated(text string, times int) string {
	var out bytes.Buffer
	_ = repeat(&out, text, times) // a buffer takes everything
	return out.String()
}
