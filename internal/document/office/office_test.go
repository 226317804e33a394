package office_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func TestWhatOfficeDocumentsGive(t *testing.T) {
	for name, c := range map[string]struct {
		kind              document.Kind
		content           string
		title, text, meta string
	}{
		"docx with styles, a list and a table": {
			document.DOCX, documenttest.WordWithStyles(), "The report",
			"# The report\n\n# Part\n\n    # of flights: 7\n\n## Section\n\n- one\n  - two\n\nafter\n\n| Year | Flights |\n" +
				"| 1990 | 12 |\n\nonce", "map[]",
		},
		"pptx in the order of the deck": {document.PPTX, documenttest.Slides(), "",
			"# The start\n\nFirst point\n  - below it\n\nNotes: Say hello\n\f\n# The end\n\n| Year | Flights |\n\f\n", "map[]"},
		"xlsx with dates and gaps": {document.XLSX, documenttest.Workbook(), "",
			"# Flights\n\n| Airport | Date |  | Open |\n| Oslo | 2007-11-29 | 0.1 | TRUE |\n\n# Notes\n\n| 7 |", "map[]"},
		"epub in the order of reading": {document.EPUB, documenttest.Book(), "A book",
			"# Chapter one\n\nOne.\n\n## Later\n\nTwo.", "map[author:A. Writer]"},
		"eml, the plain form": {
			document.EML, documenttest.Mail(), "News €",
			"From: Zoë <zoe@a.example>\nTo: b@a.example\nDate: 2026-11-20 10:00 +0100\n\nZürich is open.\n\n" +
				"Attachments: plan.pdf",
			"map[attachments:plan.pdf date:2026-11-20T09:00:00Z from:Zoë <zoe@a.example> to:b@a.example]",
		},
	} {
		title, text, meta, err := documenttest.Read(c.content, c.kind)
		assert.True(t, err == nil && title == c.title && text == c.text && fmt.Sprint(meta) == c.meta,
			"%s: title %q, text %q, meta %v, %v", name, title, text, meta, err)
	}
}

type part = documenttest.Part

// rels returns the part that names, for another one, parts by id, kind and target.
func rels(of string, names ...string) part {
	at := strings.LastIndex(of, "/") + 1
	out := "<Relationships>"
	for i := 0; i+2 < len(names); i += 3 {
		out += `<Relationship Id="` + names[i] + `" Type="http://r.example/` + names[i+1] + `" Target="` + names[i+2] + `"/>`
	}
	return part{Name: of[:at] + "_rels/" + of[at:] + ".rels", Content: out + "</Relationships>"}
}

// office reads a document of parts, and gives its title, its text with " / " for line ends, and what is left out.
func office(t *testing.T, kind document.Kind, hidden bool, parts ...part) (title, text, missing string) {
	t.Helper()
	limits := document.DefaultLimits()
	limits.Hidden = hidden
	doc, raw, err := documenttest.ReadWhole(documenttest.Zip(parts...), kind, "a."+string(kind), limits)
	if err != nil {
		return "", err.Error(), ""
	}
	return doc.Title, strings.Join(strings.FieldsFunc(raw, func(r rune) bool { return r == '\n' }), " / "), doc.Missing
}

func p(inner string) string { return "<w:p>" + inner + "</w:p>" }

func run(text string) string { return "<w:r><w:t>" + text + "</w:t></w:r>" }

func body(inner string) part {
	return part{Name: "word/document.xml", Content: "<w:document><w:body>" + inner + "</w:body></w:document>"}
}

func utf16Of(text string, bigEndian bool) string {
	out := []byte{0xff, 0xfe}
	if bigEndian {
		out = []byte{0xfe, 0xff}
	}
	for _, unit := range utf16.Encode([]rune(text)) {
		low, high := byte(unit), byte(unit>>8)
		if bigEndian {
			low, high = high, low
		}
		out = append(out, low, high)
	}
	return string(out)
}

func TestAllThatAWordDocumentShowsIsReadOnce(t *testing.T) {
	box := func(inner string) string { return "<w:txbxContent>" + inner + "</w:txbxContent>" }
	cell := func(properties, text string) string {
		return "<w:tc><w:tcPr>" + properties + "</w:tcPr>" + p(run(text)) + "</w:tc>"
	}
	table := func(rows ...string) string {
		return "<w:tbl><w:tr>" + strings.Join(rows, "</w:tr><w:tr>") + "</w:tr></w:tbl>"
	}
	header := `<?xml version="1.0" encoding="utf-16"?>`
	for name, c := range map[string]struct {
		parts         []part
		text, missing string
	}{
		"parts by their relations": {[]part{
			rels("", "r1", "officeDocument", "/Folder/Main.xml", "r2", "core-properties", "meta/c.xml"),
			{Name: "folder/main.xml", Content: "<w:document>" + p(`<w:pPr><w:pStyle w:val="S"/></w:pPr>`+run("One")) + "</w:document>"},
			rels("Folder/Main.xml", "r1", "styles", "../other%20styles.xml"),
			{Name: "other styles.xml", Content: `<w:styles><w:style w:styleId="S"><w:name w:val="heading 2"/></w:style></w:styles>`},
		}, "## One", ""},
		"UTF-16, little":  {[]part{{Name: "word/document.xml", Content: utf16Of(header+"<d>"+p(run("Zoë")), false) + utf16Of("</d>", false)[2:]}}, "Zoë", ""},
		"UTF-16, big":     {[]part{{Name: "word/document.xml", Content: utf16Of(header+"<d>"+p(run("Zoë"))+"</d>", true)}}, "Zoë", ""},
		"UTF-16, no mark": {[]part{{Name: "word/document.xml", Content: utf16Of(header+"<d>"+p(run("Zoë"))+"</d>", false)[2:]}}, "Zoë", ""},
		"Latin-1": {[]part{{Name: "word/document.xml", Content: `<?xml version="1.0" encoding="ISO-8859-1"?><d>` +
			p(run("Zo\xeb")) + "</d>"}}, "Zoë", ""},
		"notes behind their paragraphs": {[]part{
			body(p(run("Tall")+`<w:footnoteReference w:id="2"/>`+run(" towers.")+`<w:endnoteReference w:id="2"/>`) + p(run("Next."))),
			rels("word/document.xml", "a", "footnotes", "f.xml", "b", "endnotes", "e.xml"),
			{Name: "word/f.xml", Content: `<f><w:footnote w:type="separator" w:id="0">` + p(run("no")) + `</w:footnote>` +
				`<w:footnote w:id="2">` + p(run("Foot.")) + p(run("Toe.")) + `</w:footnote><w:footnote w:id="3">` + p(run("Lost.")) + `</w:footnote></f>`},
			{Name: "word/e.xml", Content: `<f><w:endnote w:id="2">` + p(run("End.")) + `</w:endnote></f>`},
		}, "Tall towers. / Foot. / Toe. / End. / Next. / Lost.", ""},
		"a note of a cell": {[]part{
			body(table(cell("", `A</w:t></w:r><w:r><w:footnoteReference w:id="1"/><w:t>`), cell("", "C")) + p(run("x"))),
			rels("word/document.xml", "a", "footnotes", "f.xml"),
			{Name: "word/f.xml", Content: `<f><w:footnote w:id="1">` + p(run("Foot.")) + `</w:footnote></f>`},
		}, "| A Foot. | / | C | / x", ""},
		"comments, headers, footers": {[]part{
			body(p(run("Text.") + `<w:commentReference w:id="0"/>`)),
			rels("word/document.xml", "a", "comments", "c.xml", "b", "header", "h1.xml", "c", "header", "h2.xml", "d", "footer", "f.xml"),
			{Name: "word/c.xml", Content: `<c><w:comment w:id="0" w:author="Ann">` + p(run("Sure?")) + `</w:comment></c>`},
			{Name: "word/h1.xml", Content: "<h>" + p(run("Acme")) + "</h>"}, {Name: "word/h2.xml", Content: "<h>" + p(run("Acme")) + "</h>"},
			{Name: "word/f.xml", Content: "<h>" + p(run("Page 3 of 9")) + p(run("Secret")) + "</h>"},
		}, "Text. / Comment by Ann: Sure? / Header: Acme / Footer: Secret", ""},
		"a box behind its paragraph": {[]part{body(p(run("Pump ")+"<w:r><w:pict>"+box(p(run("Warning"))+p(run("Two")))+"</w:pict></w:r>"+
			run("Vesta.")) + p(run("Next.")))}, "Pump Vesta. / Warning / Two / Next.", ""},
		"a box in a box, a table in a box": {[]part{body(p(run("A") + box(p(run("B")+box(p(run("C"))))+table(cell("", "D")+cell("", "E"))) + run("F")))},
			"AF / B / C / | D | E |", ""},
		"a box in a cell": {[]part{body(table(cell("", "A"+"</w:t></w:r>"+box(p(run("B")))+"<w:r><w:t>") + cell("", "C")))}, "| A B | C |", ""},
		"one of several forms": {[]part{body(p("<mc:AlternateContent><mc:Choice>" + box(p(run("once"))) + "</mc:Choice><mc:Choice>" + box(p(run("twice"))) +
			"</mc:Choice><mc:Fallback>" + box(p(run("once"))) + "</mc:Fallback></mc:AlternateContent>" + run("text")))}, "text / once", ""},
		"only an old form": {[]part{body(p("<mc:AlternateContent><mc:Fallback>" + run("old") + "</mc:Fallback></mc:AlternateContent>"))}, "old", ""},
		"moved and deleted": {[]part{body(p("<w:moveFrom>"+run("moved")+"</w:moveFrom>"+"<w:del>"+run("gone")+"</w:del>"+run("stays ")) +
			p("<w:moveTo>"+run("moved")+"</w:moveTo><w:ins>"+run(" new")+"</w:ins>"))}, "stays / moved new", ""},
		"ruby": {[]part{body(p("<w:r><w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:r>" +
			run("に行く")))}, "東京に行く / 東京 (とうきょう)", ""},
		"merged cells": {[]part{body(table(cell(`<w:gridSpan w:val="2"/>`, "A")+cell(`<w:vMerge w:val="restart"/>`, "B"),
			cell("", "c")+cell("", "d")+cell(`<w:vMerge/>`, "")))}, "| A | A | B | / | c | d | B |", ""},
		"hidden text": {[]part{body(p(run("Shown.")+"<w:r><w:rPr><w:vanish/></w:rPr><w:t>hid</w:t></w:r>"+
			`<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t> Too.</w:t></w:r>`) + p("<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>"+run("Its mark alone.")))},
			"Shown. Too. / Its mark alone.", "left out: hidden pieces of text: 1 (documents.hidden: include reads them)"},
		"hidden by a style": {[]part{
			body(p(`<w:pPr><w:pStyle w:val="H"/></w:pPr>`+run("hid")) + p(run("Shown.")+`<w:r><w:rPr><w:rStyle w:val="C"/></w:rPr><w:t>hid</w:t></w:r>`)),
			{Name: "word/styles.xml", Content: `<w:styles><w:style w:styleId="B"><w:rPr><w:vanish/></w:rPr></w:style>` +
				`<w:style w:styleId="H"><w:basedOn w:val="B"/></w:style><w:style w:styleId="C"><w:rPr><w:vanish/></w:rPr></w:style></w:styles>`},
		}, "Shown.", "left out: hidden pieces of text: 2 (documents.hidden: include reads them)"},
		"a hidden row": {[]part{body(table("<w:trPr><w:hidden/></w:trPr>"+cell("", "hid"), cell("", "A")))}, "| A |",
			"left out: hidden rows: 1 (documents.hidden: include reads them)"},
		"a chart and a diagram": {[]part{
			body(p(run("See.") + `<c:chart r:id="r1"/><dgm:relIds r:dm="r2"/>`)),
			rels("word/document.xml", "r1", "chart", "charts/c.xml", "r2", "diagramData", "d.xml"),
			{Name: "word/charts/c.xml", Content: `<c><c:title><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:title><c:ser><c:tx><c:strRef><c:f>S!A1</c:f>` +
				`<c:pt><c:v>North</c:v></c:pt></c:strRef></c:tx><c:cat><c:pt><c:v>Q1</c:v></c:pt><c:pt><c:v>Q2</c:v></c:pt></c:cat>` +
				`<c:val><c:pt><c:v>7</c:v></c:pt><c:pt><c:v>8</c:v></c:pt></c:val></c:ser></c>`},
			{Name: "word/d.xml", Content: `<d><dgm:pt><dgm:t><a:p><a:r><a:t>Step</a:t></a:r></a:p></dgm:t></dgm:pt></d>`},
		}, "See. / Sales / | North | / | Q1 | Q2 | / | 7 | 8 | / Step", ""},
		"a page within": {[]part{
			body(p(run("Before.")) + `<w:altChunk r:id="r1"/>` + `<w:altChunk r:id="r2"/>` + p(run("After."))),
			rels("word/document.xml", "r1", "aFChunk", "c.html", "r2", "aFChunk", "c.rtf"),
			{Name: "word/c.html", Content: "<p>Within.</p>"}, {Name: "word/c.rtf", Content: "{}"},
		}, "Before. / After.", "left out: a document inside of it (c.html): 1, a document inside of it (c.rtf): 1"},
		"lines that look like headings": {[]part{body(p(`<w:r><w:t># one</w:t><w:br/><w:t>two</w:t><w:br/><w:t>---</w:t></w:r>`) +
			p("<w:pPr><w:pStyle w:val=\"Heading2\"/></w:pPr>"+run("__init__ of **x**")))}, "    # one / two /     --- / ## __init__ of **x**", ""},
		"tabs, breaks, signs": {[]part{body(p("<w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>" + run("a") + "<w:r><w:tab/><w:t>b</w:t><w:noBreakHyphen/>" +
			`<w:sym w:char="2192"/><w:sym w:char="F0E0"/></w:r>`))}, "a\tb-→", ""},
		"signs of a font": {[]part{body(p(run("a") + `<w:r><w:sym w:font="Symbol" w:char="F061"/><w:sym w:font="Symbol" w:char="F06D"/>` +
			`<w:sym w:font="Symbol" w:char="F0B3"/><w:sym w:font="Symbol" w:char="F0DE"/><w:sym w:font="Symbol" w:char="F0FF"/>` +
			`<w:sym w:font="Symbol" w:char="E000"/><w:sym w:font="Wingdings" w:char="F061"/></w:r>`))}, "aαμ≥⇒", ""},
		"letters of a font of signs": {[]part{body(p(`<w:r><w:rPr><w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/></w:rPr><w:t>abD </w:t></w:r>` + run(" abc ") +
			`<w:r><w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr><w:t>üz</w:t></w:r>`))}, "αβΔ ∑ abc ✓→", ""},
		"a form of another program": {[]part{body(p(`<mc:AlternateContent xmlns:new="http://new.example/1"><mc:Choice Requires="new">` + run("new") +
			"</mc:Choice><mc:Fallback>" + run("old") + "</mc:Fallback></mc:AlternateContent>" +
			`<mc:AlternateContent xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"><mc:Choice Requires="wps">` + run(" box") +
			"</mc:Choice><mc:Fallback>" + run("old") + "</mc:Fallback></mc:AlternateContent>"))}, "old box", ""},
		"nothing":     {[]part{body(p(""))}, "read a.docx: it has no text (write something into it, or take it away)", ""},
		"no document": {[]part{{Name: "word/styles.xml", Content: "<s/>"}}, "read a.docx: it has no word/document.xml (the file is no readable .docx: save it again)", ""},
		"a code of a field": {[]part{body(p(`<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>IF </w:instrText></w:r>` +
			`<w:r><w:fldChar w:fldCharType="begin"/><w:fldChar w:fldCharType="separate"/><w:t>code</w:t><w:fldChar w:fldCharType="end"/></w:r>` +
			`<w:r><w:fldChar w:fldCharType="separate"/><w:t>Shown</w:t><w:fldChar w:fldCharType="end"/></w:r>` + run(".")))}, "Shown.", ""},
		"a fraction":         {[]part{body(p("<m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"))}, "1/2", ""},
		"a document outside": {[]part{body(p(run("a")) + `<w:subDoc r:id="r1"/>`)}, "a", "left out: a document outside of it: 1"},
		"damaged notes": {[]part{body(p(run("a"))), rels("word/document.xml", "a", "footnotes", "f.xml"), {Name: "word/f.xml", Content: "<f><g></f>"}}, "a",
			"left out: part word/f.xml, which is damaged (XML syntax error on line 1: element <g> closed by </f>): 1"},
		"a watermark": {[]part{body(p(run("a") + `<v:shape><v:textpath string="DRAFT"/></v:shape>`))}, "a / DRAFT", ""},
	} {
		if _, text, missing := office(t, document.DOCX, false, c.parts...); text != c.text || missing != c.missing {
			t.Errorf("%s: %s\n%s", name, text, missing)
		}
	}
	secret := body(p("<w:r><w:rPr><w:vanish/></w:rPr><w:t>hid</w:t></w:r>"))
	if _, text, _ := office(t, document.DOCX, true, secret); text != "hid" {
		t.Errorf("hidden: include: %s", text)
	}
	if _, text, _ := office(t, document.DOCX, false, secret); !strings.Contains(text, "hidden pieces of text: 1") {
		t.Errorf("nothing but hidden text: %s", text)
	}
}

func TestItemsOfListsHaveTheirNumbers(t *testing.T) {
	item := func(list, level, text string) string {
		return p(`<w:pPr><w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="` + list + `"/></w:numPr></w:pPr>` + run(text))
	}
	level := func(at, start, format, text string) string {
		return `<w:lvl w:ilvl="` + at + `"><w:start w:val="` + start + `"/><w:numFmt w:val="` + format + `"/><w:lvlText w:val="` + text + `"/></w:lvl>`
	}
	numbers := part{Name: "word/numbering.xml", Content: `<n><w:abstractNum w:abstractNumId="0">` + level("0", "1", "decimal", "%1.") +
		level("1", "1", "lowerLetter", "%1.%2)") + level("2", "3", "upperRoman", "(%3)") + `</w:abstractNum><w:abstractNum w:abstractNumId="1">` +
		level("0", "1", "bullet", "•") + `</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/>` +
		`</w:num><w:abstractNum w:abstractNumId="4">` + level("0", "53", "upperLetter", strings.Repeat("%1", 50_000)) + `</w:abstractNum>` +
		`<w:num w:numId="4"><w:abstractNumId w:val="4"/></w:num><w:num w:numId="3"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num></n>`}
	for name, c := range map[string]struct{ body, want string }{
		"one level":           {item("1", "0", "a") + item("1", "0", "b"), "1. a / 2. b"},
		"levels":              {item("1", "0", "a") + item("1", "1", "b") + item("1", "1", "c") + item("1", "0", "d") + item("1", "1", "e"), "1. a /   1.a) b /   1.b) c / 2. d /   2.a) e"},
		"a start of its own":  {item("1", "2", "a") + item("1", "2", "b"), "(III) a /     (IV) b"},
		"bullets":             {item("2", "0", "a"), "- a"},
		"a list goes on":      {item("1", "0", "a") + p(run("x")) + item("1", "0", "b"), "1. a / x / 2. b"},
		"a list begins again": {item("1", "0", "a") + item("3", "0", "b") + item("3", "0", "c"), "1. a / 7. b / 8. c"},
		"an unknown list":     {item("9", "0", "a"), "- a"},
		"none":                {item("0", "0", "a"), "a"},
		"a heading":           {p(`<w:pPr><w:pStyle w:val="Heading1"/><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>` + run("a")), "# 1. a"},
		"by a style":          {p(`<w:pPr><w:pStyle w:val="Clause"/></w:pPr>` + run("a")), "1. a"},
		"a mark that grows":   {strings.Repeat(item("4", "0", "a"), 2), strings.Repeat("A", 100) + " a / " + strings.Repeat("B", 100) + " a"},
		"an empty item":       {item("1", "0", "") + item("1", "0", "b"), "1. b"},
	} {
		_, text, _ := office(t, document.DOCX, false, body(c.body), numbers,
			part{Name: "word/styles.xml", Content: `<s><w:style w:styleId="Clause"><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style></s>`})
		assert.True(t, strings.TrimSpace(text) == c.want, "%s: %s", name, text)
	}
}

func slide(inner string) part {
	return part{Name: "ppt/slides/s.xml", Content: "<p:sld><p:cSld><p:spTree>" + inner + "</p:spTree></p:cSld></p:sld>"}
}

func shape(holder, properties, text string) string {
	if holder != "" {
		holder = `<p:ph type="` + holder + `"/>`
	}
	return "<p:sp><p:nvSpPr><p:cNvPr " + properties + "/><p:nvPr>" + holder + "</p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>" + text +
		"</a:t></a:r></a:p></p:txBody></p:sp>"
}

func TestAllThatSlidesShowIsReadOnce(t *testing.T) {
	deck := []part{
		rels("", "d", "officeDocument", "ppt/deck.xml"),
		{Name: "ppt/deck.xml", Content: `<p><p:sldId r:id="a"/><p:sldId r:id="b"/></p>`},
		rels("ppt/deck.xml", "a", "slide", "slides/s.xml", "b", "slide", "slides/t.xml"),
	}
	cell := func(properties, text string) string {
		return "<a:tc " + properties + "><a:txBody><a:p><a:r><a:t>" + text + "</a:t></a:r></a:p></a:txBody></a:tc>"
	}
	for name, c := range map[string]struct {
		parts         []part
		text, missing string
	}{
		"a diagram": {[]part{slide(`<p:graphicFrame><dgm:relIds r:dm="r3"/></p:graphicFrame>`), rels("ppt/slides/s.xml", "r3", "diagramData", "../d.xml"),
			{Name: "ppt/d.xml", Content: "<d><dgm:pt><dgm:t><a:p><a:r><a:t>Kelp</a:t></a:r></a:p></dgm:t></dgm:pt></d>"}}, "Kelp", ""},
		"one of several forms": {[]part{slide("<mc:AlternateContent><mc:Choice>" + shape("", "", "once") + "</mc:Choice><mc:Fallback>" + shape("", "", "once") +
			"</mc:Fallback></mc:AlternateContent>")}, "once", ""},
		"a chart": {[]part{slide(`<p:graphicFrame><c:chart r:id="r3"/></p:graphicFrame>`), rels("ppt/slides/s.xml", "r3", "chart", "../c.xml"),
			{Name: "ppt/c.xml", Content: "<c><c:ser><c:tx><c:v>North</c:v></c:tx><c:val><c:pt><c:v>7.1000000000000005</c:v></c:pt></c:val></c:ser></c>"}},
			"| North | / | 7.1 |", ""},
		"merged cells": {[]part{slide("<p:graphicFrame><a:tbl><a:tr>" + cell(`gridSpan="2"`, "A") + cell(`hMerge="1"`, "") + cell(`rowSpan="2"`, "B") + "</a:tr><a:tr>" +
			cell("", "c") + cell("", "d") + cell(`vMerge="1"`, "") + "</a:tr></a:tbl></p:graphicFrame>")}, "| A | A | B | / | c | d | B |", ""},
		"comments": {[]part{slide(shape("", "", "Text")), rels("ppt/slides/s.xml", "r3", "comments", "../c.xml"),
			{Name: "ppt/c.xml", Content: "<c><p:cm><p:text>Why?</p:text></p:cm><p188:cm><p188:txBody><a:p><a:r><a:t>Who?</a:t></a:r></a:p></p188:txBody></p188:cm></c>"}},
			"Text / Comment: Why? / Comment: Who?", ""},
		"a hidden shape": {[]part{slide(shape("", `hidden="1"`, "hid") + shape("", "", "Text"))}, "Text",
			"left out: hidden shapes: 1 (documents.hidden: include reads them)"},
		"a hidden slide": {[]part{{Name: "ppt/slides/s.xml", Content: `<p:sld show="0">` + shape("", "", "hid") + "</p:sld>"},
			{Name: "ppt/slides/t.xml", Content: "<p:sld>" + shape("title", "", "Shown") + "</p:sld>"}}, "\f / # Shown",
			"left out: hidden slides: 1 (documents.hidden: include reads them)"},
		"footers once": {[]part{slide(shape("", "", "One") + shape("ftr", "", "Acme") + shape("sldNum", "", "1")),
			{Name: "ppt/slides/t.xml", Content: "<p:sld>" + shape("", "", "Two") + shape("ftr", "", "Acme") + shape("dt", "", "May") + "</p:sld>"}},
			"One / Acme / \f / Two / May", ""},
		"numbers": {[]part{slide(`<p:sp><a:p><a:pPr><a:buAutoNum type="arabicPeriod" startAt="3"/></a:pPr><a:r><a:t>a</a:t></a:r></a:p>` +
			`<a:p><a:pPr lvl="1"><a:buAutoNum type="alphaLcParenR"/></a:pPr><a:r><a:t>b</a:t></a:r></a:p>` +
			`<a:p><a:pPr><a:buAutoNum type="arabicPeriod" startAt="3"/></a:pPr><a:r><a:t>c</a:t></a:r></a:p></p:sp>`)}, "3. a /   a) b / 4. c", ""},
		"a slide that is damaged": {[]part{slide(shape("", "", "One")), {Name: "ppt/slides/t.xml", Content: "<p:sld><a:p><a:t>cut</a:t></a:p>"}}, "One / \f / cut",
			"left out: part ppt/slides/t.xml, which is damaged (XML syntax error on line 1: unexpected EOF): 1"},
		"escapes": {[]part{slide(shape("", "", "One_x000B_two _x0041_ snake_xabcd_"))}, "One two A snake\uabcd", ""},
	} {
		if parts := c.parts; parts[len(parts)-1].Name != "ppt/slides/t.xml" {
			c.parts = append(c.parts, part{Name: "ppt/slides/t.xml", Content: "<p:sld/>"})
		}
		_, text, missing := office(t, document.PPTX, false, append(c.parts, deck...)...)
		text = strings.TrimSpace(strings.TrimRight(text, "\f /"))
		assert.True(t, (strings.TrimLeft(text, " ") == c.text || text == strings.TrimSpace(c.text)) && missing == c.missing,
			"%s: %q\n%s", name, text, missing)
	}
}

func TestAllThatSheetsShowIsReadOnce(t *testing.T) {
	book := func(sheets string) []part {
		return []part{
			rels("", "d", "officeDocument", "book/wb.xml"), {Name: "book/wb.xml", Content: "<w>" + sheets + "</w>"},
			rels("book/wb.xml", "a", "worksheet", "s.xml", "b", "worksheet", "t.xml", "c", "sharedStrings", "strings.xml", "d", "styles", "look.xml", "e", "chartsheet", "u.xml"),
			{Name: "book/strings.xml", Content: "<s><si><t>one_x000D_\ntwo</t></si><si><t>東京</t><rPh><t>トウキョウ</t></rPh></si><si><t>_x005F_x0041_</t></si></s>"},
			{Name: "book/look.xml", Content: `<s><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></s>`},
		}
	}
	one := `<sheet name="S" r:id="a"/>`
	row := func(properties string, cells ...string) string {
		out := "<row " + properties + ">"
		for _, cell := range cells {
			name, value, _ := strings.Cut(cell, "=")
			out += `<c r="` + name + `" t="inlineStr"><is><t>` + value + `</t></is></c>`
		}
		return out + "</row>"
	}
	sheet := func(inner string) part {
		return part{Name: "book/s.xml", Content: "<worksheet>" + inner + "</worksheet>"}
	}
	for name, c := range map[string]struct {
		sheets        string
		parts         []part
		text, missing string
	}{
		"shared texts": {one, []part{sheet(`<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c><c t="s"><v>2</v></c></row>`)}, "# S / | one two | 東京 | _x0041_ |", ""},
		"merged cells": {one, []part{sheet(row(`r="1"`, "A1=Region", "C1=Sum") + row(`r="2"`, "A2=North", "B2=Q1", "C2=1") + row(`r="3"`, "B3=Q2", "C3=2") +
			row(`r="4"`, "B4=Q9") + row(`r="5"`, "A5=South", "B5=Q1") + `<mergeCells count="2"><mergeCell ref="A1:B1"/><mergeCell ref="A2:A3"/></mergeCells>`)},
			"# S / | Region | Region | Sum | / | --- | --- | --- | / | North | Q1 | 1 | / | North | Q2 | 2 | / |  | Q9 | / | South | Q1 |", ""},
		"a heading above all": {one, []part{sheet(row(`r="1"`, "A1=Report") + row(`r="2"`, "A2=a", "B2=b") + `<mergeCell ref="A1:B1"/>`)}, "# S / | Report | / | a | b |", ""},
		"hidden": {one + `<sheet name="T" state="veryHidden" r:id="b"/>`, []part{
			sheet(`<cols><col min="2" max="3" hidden="1"/><col min="5" max="5" hidden="0"/></cols>` + row(`r="1"`, "A1=a", "B1=hid", "C1=hid", "D1=d", "E1=e") +
				row(`r="2" hidden="1"`, "A2=hid") + row(`r="3"`, "A3=c", "D3=f")),
			{Name: "book/t.xml", Content: "<w>" + row("", "A1=hid") + "</w>"},
		}, "# S / | a | d | e | / | c | f |", "left out: hidden sheets: 1, hidden columns: 2, hidden rows: 1 (documents.hidden: include reads them)"},
		"formulas and a hidden row": {one, []part{sheet(`<row><c><f>1+2</f></c><c><v>3</v></c></row>` + row(`r="2" hidden="1"`, "A2=hid"))},
			"# S / |  | 3 |", "left out: hidden rows: 1 (documents.hidden: include reads them), formulas of which the file has no value: 1"},
		"comments": {one, []part{sheet(row("", "A1=a")), rels("book/s.xml", "a", "comments", "c.xml"),
			{Name: "book/c.xml", Content: `<c><comment ref="B2"><text><r><t>Is it </t></r><r><t>so?</t></r></text></comment></c>`}}, "# S / | a | / Comment on B2: Is it so?", ""},
		"threads": {one, []part{sheet(row("", "A1=a")), rels("book/s.xml", "a", "comments", "c.xml", "b", "threadedComment", "d.xml"),
			{Name: "book/c.xml", Content: `<c><comment ref="B2"><text><t>[Threaded comment] So.</t></text></comment></c>`},
			{Name: "book/d.xml", Content: `<c><threadedComment ref="B2"><text>So.</text></threadedComment></c>`}}, "# S / | a | / Comment on B2: So.", ""},
		"boxes and charts": {one, []part{sheet(row("", "A1=a")), rels("book/s.xml", "a", "drawing", "d.xml"), rels("book/d.xml", "b", "chart", "c.xml"),
			{Name: "book/d.xml", Content: `<d><xdr:sp><xdr:txBody><a:p><a:r><a:t>A box</a:t></a:r></a:p></xdr:txBody></xdr:sp><xdr:graphicFrame><c:chart r:id="b"/></xdr:graphicFrame></d>`},
			{Name: "book/c.xml", Content: "<c><c:title><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:title></c>"}}, "# S / | a | / A box / Sales", ""},
		"a sheet that is a chart": {`<sheet name="C" r:id="e"/>`, []part{{Name: "book/u.xml", Content: "<chartsheet/>"}, rels("book/u.xml", "a", "drawing", "d.xml"),
			{Name: "book/d.xml", Content: `<d><xdr:sp><xdr:txBody><a:p><a:r><a:t>A box</a:t></a:r></a:p></xdr:txBody></xdr:sp></d>`}}, "# C / A box", ""},
		"formulas": {one, []part{sheet(`<row><c><f>1+2</f></c><c><f>1+2</f><v>3</v></c><c t="str"><f>""</f><v></v></c><c t="e"><f>1/0</f><v>#DIV/0!</v></c></row>`)},
			"# S / |  | 3 |  | #DIV/0! |", "left out: formulas of which the file has no value: 1"},
		"dates": {one, []part{sheet(`<row><c t="d"><v>2021-05-06T00:00:00</v></c><c s="1"><v>44322</v></c></row>`)}, "# S / | 2021-05-06 | 2021-05-06 |", ""},
		"a sheet that is not there": {one + `<sheet name="T" r:id="b"/>`, []part{sheet(row("", "A1=a"))}, "# S / | a | / # T",
			"left out: part book/t.xml, which is not in the file: 1"},
		"rows without numbers": {one, []part{sheet(`<row><c><v>1</v></c><c><v>2</v></c></row>`)}, "# S / | 1 | 2 |", ""},
	} {
		_, text, missing := office(t, document.XLSX, false, append(c.parts, book(c.sheets)...)...)
		assert.True(t, text == c.text && missing == c.missing, "%s: %s\n%s", name, text, missing)
	}
	_, text, missing := office(t, document.XLSX, true, append(book(one+`<sheet name="T" state="hidden" r:id="b"/>`),
		sheet(`<col min="1" max="1" hidden="1"/>`+row(`r="1"`, "A1=a", "B1=b")+row(`r="2" hidden="1"`, "A2=c")),
		part{Name: "book/t.xml", Content: "<w>" + row("", "A1=d") + "</w>"})...)
	assert.True(t, text == "# S / | a | b | / | c | / # T / | d |" && missing == "", "hidden: include: %s %s", text,
		missing)
}

func TestNumbersAreReadAsTheirCellsShowThem(t *testing.T) {
	for _, c := range []struct{ code, number, want string }{
		{"0", "2.5", "3"}, {"0.00", "1.005", "1.01"}, {"#,##0", "1234567", "1,234,567"}, {"#,##0.00", "-1234.5", "-1,234.50"},
		{"0%", "0.255", "26%"}, {"0.0%", "0.1234", "12.3%"}, {`0.00" days"`, "5.5", "5.50 days"}, {`"yes";"no"`, "1", "yes"}, {`"yes";"no"`, "-1", "no"},
		{`#,##0,," M"`, "2500000", "3 M"}, {"[$-409]d-mmm-yy;@", "44322", "2021-05-06"}, {"[h]:mm", "1.5", "36:00"}, {`#,##0.00\ [$€-407]`, "1234.5", "1,234.50 €"},
		{"000-0000", "5551234", "5551234"}, {"_-$* #,##0.00_-", "12.5", "$12.50"}, {"0.00E+00", "0.000123", "1.23E-04"}, {"# ?/?", "1.5", "1.5"},
		{"yyyy/mm/dd hh:mm:ss", "44322.75", "2021-05-06 18:00:00"}, {"dddd, mmmm dd", "44322", "2021-05-06"}, {"h:mm AM/PM", "0.0208333333", "00:30"},
		{"mm:ss.0", "0.00001157407", "00:00:01"}, {"00000", "7", "00007"}, {"0.0##", "3.14159", "3.142"}, {"0.0##", "3", "3.0"}, {"General", "0.10000000000000001", "0.1"},
		{`[>10]"big "0;0`, "12", "12"}, {`[<=10]0;"big "0`, "-5", "-5"}, {`[=1]"Yes";[=0]"No";"?"`, "0", "0"}, {"[0", "5", "5"}, {";;;", "42", ""}, {`0;-0;"zero"`, "0", "zero"}, {"#,##0_);(#,##0)", "-50", "(50)"},
		{"#.##", "0.5", ".5"}, {"[Red]0", "-4", "-4"}, {"0", "-0.2", "0"}, {"dd.mm.yyyy", "-1", "-1"}, {"d/m", "2958466", "2958466"}, {"\\K0", "5", "K5"},
		{"yyyy", "39415.999999", "2007-11-30"}, {"0,", "1234567", "1235"}, {"ge.m.d", "44322", "2021-05-06"}, {"yyyy-mm-dd", "1", "1900-01-01"},
		{"d mmm yyyy", "59.5", "1900-02-28"}, {"yyyy-mm-dd", "60", "60"}, {"yyyy-mm-dd", "61", "1900-03-01"}, {"[h]:mm", "2.5", "60:00"}, {"#", "1e300", ""}, {"[ss]", "0.5", "12:00:00"},
	} {
		_, text, _ := office(t, document.XLSX, false, part{Name: "xl/workbook.xml", Content: `<w><sheet name="S" r:id="a"/></w>`},
			rels("xl/workbook.xml", "a", "worksheet", "s.xml"), part{Name: "xl/s.xml", Content: `<w><row><c s="0"><v>` + c.number + `</v></c><c><v>1</v></c></row></w>`},
			part{Name: "xl/styles.xml", Content: fmt.Sprintf("<s><numFmt numFmtId='164' formatCode='%s'/><cellXfs><xf numFmtId='164'/></cellXfs></s>",
				strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(c.code))})
		got, _, _ := strings.Cut(strings.TrimPrefix(text, "# S / | "), " |")
		assert.True(t, c.want == "" || got == c.want, "%s of %s: %q, want %q", c.code, c.number, got, c.want)
	}
}
