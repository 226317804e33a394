package documenttest

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Samples returns small sound documents of every kind, by file name: what is damaged to test what reads them.
func Samples() map[string][]byte {
	made := func(write func(io.Writer) error) string {
		var out bytes.Buffer
		_ = write(&out) // a buffer takes everything
		return out.String()
	}
	tables := "<table><tr><th>Year<th>Flights<tr><td rowspan=2>1990<td>12<tr><td colspan=2>13</table>"
	page := "<!DOCTYPE html><html><head><title>A page &amp; more</title></head><body><h1>Head</h1><p>Some <b>words</b>, " +
		"<a href='https://a.example/?x=1'>a link</a><ul><li>one<li>two</ul><blockquote>said</blockquote>" + tables +
		"<pre><code>x := 1</code></pre><img src=a.png alt=picture></body></html>"
	row := `{"id":7,"title":"A flight","text":"It landed at 12:30.","year":1990,"tags":["a",{"b":null}],"ok":true}`
	sheet := "id,title,text\n1,First,\"two\nlines, \"\"quoted\"\"\"\n2,Second,plain\n"
	paragraph := `<w:p><w:r><w:t xml:space="preserve">Some words &amp; more</w:t><w:tab/></w:r></w:p>`
	word := docxOf(
		part{"[Content_Types].xml", around("<Types/>", "", 0, "")},
		body(around(`<?xml version="1.0"?><w:document xmlns:w="http://w.example"><w:body>`, paragraph, 5,
			`<w:tbl><w:tr><w:tc><w:p><w:t>cell</w:t></w:p></w:tc></w:tr></w:tbl></w:body></w:document>`)),
		part{"docProps/core.xml", around(`<cp:coreProperties xmlns:dc="d"><dc:title>`, "A title", 1,
			"</dc:title></cp:coreProperties>")},
	)
	files := map[string]string{
		"plain.txt": "A title\n\nSome words in lines,\r\nand Z\xc3\xbcrich.\n", "latin.txt": "Z\xfcrich und M\xfcnchen\n",
		"utf16.txt": "\xff\xfea\x00\xe9\x00\r\x00\n\x00", "notes.md": "# Head\n\ntext *more*\n\n## Next\n- a\n",
		"page.html": page, "tables.html": strings.Repeat(tables, 4), "value.json": row,
		"list.json":  `[1,"two",{"three":[3,3.5e10,-0]},null,true,"\u00e9\ud83d\ude00"]`,
		"rows.jsonl": strings.Repeat(row+"\n", 3), "rows.csv": sheet, "word.docx": made(word),
		"rows.csv.gz": made(zipped(around("", sheet, 3, ""))), "page.html.gz": made(zipped(around("", page, 1, ""))),
		"styles.docx": WordWithStyles(), "deck.pptx": Slides(), "book.xlsx": Workbook(), "book.epub": Book(),
		"letter.eml": Mail(), "guide.rst": "=====\nGuide\n=====\n\nPart\n----\n\nSome words.\n",
		"front.md": "---\ntitle: A page\ndate: 2026-11-20\ntags: [a, b]\n---\n\n# Head\n\ntext\n",
		"book.ipynb": `{"metadata":{"kernelspec":{"language":"python"}},"nbformat":4,"cells":[` +
			`{"cell_type":"markdown","source":["# A"]},{"cell_type":"code","source":"x = 1","outputs":[{"output_type":"stream","text":["one\n"]},{"data":{"image/png":"AA=="}}]}]}`,
		"small.pdf": good(), "packed.pdf": packedPDF(), "tree.pdf": treePDF(), "stream.pdf": streamPDF(),
	}
	for name, parts := range Rich() {
		files[name] = Zip(parts...)
	}
	files["semicolons.tsv"] = "id;name;price\n1;\"Ada, MD\";1,5\n2;\"Ben\nCid\"\n"
	files["nested.json"] = `{"title":"T","towns":[{"name":"Oslo","at":[59.9,10.7]},["x"]],"metadata":{"by":{"n":1}}}`
	out := map[string][]byte{}
	for name, content := range files {
		out[name] = []byte(content)
	}
	return out
}

// packedPDF has a deflated page and a font with a map of characters.
func packedPDF() string {
	characters := "/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <00> <ff> " +
		"endcodespacerange 2 beginbfchar <01> <0041> <02> <00e9> endbfchar 1 beginbfrange <03> <20> <0061> endbfrange " +
		"endcmap"
	page := deflated(around("BT /F1 12 Tf 20 200 Td ", "<0102030405> Tj [(\\001) -20 <02>] TJ T* ", 3, "ET"), 1)
	return pdfOf("", append(
		onePage("", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>",
			stream("/Filter /FlateDecode", page)),
		stream("/Filter [/FlateDecode]", deflated(around(characters, "", 0, ""), 1)))...)
}

// treePDF has pages below pages, resources that are inherited, and an encoding with differences.
func treePDF() string {
	return pdfOf("/Info 7 0 R",
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R 5 0 R] /Count 3 /Resources << /Font << /F1 6 0 R >> >> >>",
		"<< /Type /Pages /Parent 2 0 R /Kids [5 0 R 5 0 R] /Count 2 >>",
		stream("", "BT /F1 12 Tf (some \\(words\\) \\101) Tj 0 -12 Td (more) ' ET"),
		"<< /Type /Page /Parent 3 0 R /Contents [4 0 R 4 0 R] /MediaBox [0 0 300 300] >>",
		"<< /Type /Font /Subtype /Type1 /Encoding << /Differences [65 /A /Eacute 97 /a] >> /Widths [500 500] >>",
		"<< /Title (A title) /Author (Ada) /Keywords (lease; Bergen,) /CreationDate (D:20260131233000-02'00') >>",
	)
}

// streamPDF has its objects in a stream, and its table of objects in another.
func streamPDF() string {
	inner := []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F1 4 0 R >> >> >>",
		"<< /Type /Font /Subtype /Type1 /Encoding /WinAnsiEncoding >>",
	}
	index, objects := "", ""
	for i, object := range inner {
		index += fmt.Sprintf("%d %d ", i+1, len(objects))
		objects += object + " "
	}
	content := "5 0 obj\n" + stream("", "BT /F1 12 Tf (in streams) Tj ET") + "\nendobj\n"
	holder := "6 0 obj\n" + stream(fmt.Sprintf("/Type /ObjStm /N %d /First %d /Filter /FlateDecode",
		len(inner), len(index)), deflated(around(index+objects, "", 0, ""), 1)) + "\nendobj"
	first := len("%PDF-1.5\n")
	entries := "\x00\x00\x00\x00"
	for i := range inner {
		entries += string([]byte{2, 0, 6, byte(i)})
	}
	for _, at := range []int{first, first + len(content) + 1} {
		entries += string([]byte{1, byte(at >> 8), byte(at), 0})
	}
	return xrefStream("/Size 7 /W [1 2 1] /Filter /FlateDecode", deflated(around(entries, "", 0, ""), 1), content, holder)
}
