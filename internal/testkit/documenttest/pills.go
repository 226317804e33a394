package documenttest

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

// Pill is a document made to harm what reads it: to end it, to occupy it, or to fill its memory.
type Pill struct {
	Name string // a file name, whose extension says how it is read
	Kind document.Kind
	Make func(io.Writer) error
}

// Pills returns small pills, each made in milliseconds. What they claim of themselves is as large as it gets, what they
// unpack to is some megabytes.
func Pills() []Pill { return pills(false) }

// LargePills returns the same at full size: gigabytes come out of some of them, and making one takes up to a minute.
func LargePills() []Pill { return pills(true) }

func pills(large bool) []Pill {
	size := func(small, full int) int {
		if large {
			return full
		}
		return small
	}
	all := append(pdfPills(size), docxPills(size)...)
	all = append(all, officePills(size)...)
	all = append(all, htmlPills(size)...)
	all = append(all, jsonPills(size)...)
	all = append(all, packedPills(size)...)
	all = append(all, craftedPills(size)...)
	for i := range all {
		all[i].Kind, _, _ = document.TypeOf(all[i].Name)
	}
	return all
}

const mega = 1 << 20

// written returns a pill that is one string.
func written(name, content string) Pill {
	return Pill{Name: name, Make: func(out io.Writer) error {
		_, err := io.WriteString(out, content)
		return err
	}}
}

// repeat writes text over and over, as often as asked.
func repeat(out io.Writer, text string, times int) error {
	if text == "" {
		return nil
	}
	block := strings.Repeat(text, max(1, mega/len(text)))
	each := len(block) / len(text)
	for ; times >= each; times -= each {
		if _, err := io.WriteString(out, block); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, strings.Repeat(text, times))
	return err
}

// around returns a function that writes start, a text many times, and an end.
func around(start, text string, times int, end string) func(io.Writer) error {
	return func(out io.Writer) error {
		if _, err := io.WriteString(out, start); err != nil {
			return err
		}
		if err := repeat(out, text, times); err != nil {
			return err
		}
		_, err := io.WriteString(out, end)
		return err
	}
}

func zipped(content func(io.Writer) error) func(io.Writer) error {
	return func(out io.Writer) error {
		packed := gzip.NewWriter(out)
		if err := content(packed); err != nil {
			return err
		}
		return packed.Close()
	}
}

func packedPills(size func(small, full int) int) []Pill {
	return []Pill{
		{Name: "jsonbomb.json.gz", Make: zipped(around("[", "{},", size(4, 250)*mega/3, "{}]"))},
		{Name: "quote4g.csv.gz", Make: zipped(around("id,text\n1,\"", "a\n", size(4, 4096)*mega/2, ""))},
		{Name: "line1gstr.jsonl.gz", Make: zipped(around(`{"text":"`, "x", size(4, 1024)*mega, `"}`))},
		{Name: "bomb10g.txt.gz", Make: zipped(around("", "all work and no play ", size(4, 10240)*mega/21, ""))},
		{Name: "nested.txt.gz", Make: zipped(zipped(around("", "\x00", size(4, 1024)*mega, "")))},
		{Name: "zeros.json.gz", Make: zipped(around("[", "0,", size(4, 250)*mega/2, "0]"))},
		{Name: "elements.html.gz", Make: zipped(around("", "<p>", size(4, 250)*mega/3, ""))},
	}
}

func jsonPills(size func(small, full int) int) []Pill {
	deep := func(depth int, inner string) string {
		return strings.Repeat("[", depth) + inner + strings.Repeat("]", depth)
	}
	zeros := strings.Repeat("0,", size(20_000, 200_000)) + "0"
	head := strings.Repeat("c", size(64<<10, mega))
	return []Pill{
		written("indent200k.json", deep(9990, zeros)),
		written("indent900.json", deep(900, zeros)),
		written("deep.json", deep(200_000, "1")),
		written("deepobject.json", strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_000)),
		written("deeprow.jsonl", deep(200_000, "1")+"\n{\"text\":\"good\"}\n"),
		written("title3m.jsonl", `{"title":"`+strings.Repeat("A title ", 3*mega/8)+`","text":"good"}`+"\n"),
		{Name: "manyobjects.json", Make: around("[", "{},", size(2, 80)*mega, "{}]")},
		{Name: "openquote.csv", Make: around(
			"id,text\n1,\"", "not closed"+strings.Repeat(" ", 100_000)+"\n", size(50, 2000), "2,good\n")},
		{Name: "longline.csv", Make: around("id,text\n1,", "x", size(5, 200)*mega, "\n2,good\n")},
		{Name: "longhead.csv", Make: around(head+",b\n", "1\n", size(10_000, 1_000_000), "")},
		{Name: "commas.csv", Make: around("id,text\n", ",", size(3, 10)*mega, "\n2,good\n")},
	}
}

func htmlPills(size func(small, full int) int) []Pill {
	nested := func(start string, depth int, inner string) string { return strings.Repeat(start, depth) + inner }
	var marks strings.Builder
	for i := range 400 {
		fmt.Fprintf(&marks, "<b id=%d>", i)
	}
	return []Pill{
		written("rowspan.html", "<table><tr><td colspan=1000000 rowspan=1000000>a</td><td>b</td></tr>"+
			"<tr><td colspan=1000000 rowspan=1000000>c</td></tr><tr><td>d</td></tr></table>"),
		written("rowspans.html", "<table>"+strings.Repeat("<tr><td colspan=1000 rowspan=60000>a", 300)),
		written("blockquote.html", nested("<blockquote>", 400, strings.Repeat("a<br>", size(3000, 32_000)))),
		written("lists.html", nested("<ul><li>", 240, strings.Repeat("<p>a", size(3000, 40_000)))),
		written("table.html", "<table><tr><td>"+strings.Repeat("wide ", size(2000, 6000))+
			strings.Repeat("<tr><td>a", size(2000, 4000))),
		written("tables.html", nested("<table><tr><td>", 120, strings.Repeat("x ", 10_000))),
		written("depth.html", nested("<div>", 100_000, "x")),
		written("formatting.html", marks.String()+strings.Repeat("<p>a", size(300, 20_000))),
		written("title.html", "<title>"+strings.Repeat("&lt;\x1b ", size(200_000, 3_000_000))+"</title><p>good"),
		written("entities.html", "<p>"+strings.Repeat("&amp;&#x41;&notanentity;", size(20_000, 1_000_000))),
		written("attributes.html", "<p "+strings.Repeat("a=b ", size(2000, 20_000))+">x"),
	}
}

// docxOf returns a function that writes a .docx of parts in order; several may have one name.
func docxOf(parts ...part) func(io.Writer) error {
	return func(out io.Writer) error {
		archive := zip.NewWriter(out)
		for _, part := range parts {
			file, err := archive.Create(part.name)
			if err == nil {
				err = part.make(file)
			}
			if err != nil {
				return err
			}
		}
		return archive.Close()
	}
}

type part struct {
	name string
	make func(io.Writer) error
}

// Gzip returns a text packed by gzip.
func Gzip(text string) string {
	var out strings.Builder
	_ = zipped(around("", "", 0, text))(&out) // to memory
	return out.String()
}

func body(content func(io.Writer) error) part { return part{"word/document.xml", content} }

func docxPills(size func(small, full int) int) []Pill {
	text := body(around("<w:document><w:p><w:t>good", "", 0, "</w:t></w:p></w:document>"))
	var copies, entries []part
	for range size(30, 2000) {
		copies = append(copies, body(around("<d><p><t>", "text ", 50_000, "</t></p></d>")))
	}
	for range size(5_000, 200_000) {
		entries = append(entries, part{"a", around("", "", 0, "")})
	}
	var inner bytes.Buffer
	_ = docxOf(body(around("<d><t>", "x", size(2, 256)*mega, "</t></d>")))(&inner) // a buffer takes everything
	expand := `<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>`
	return []Pill{
		{Name: "dupdoc.docx", Make: docxOf(copies...)},
		{Name: "deepdoc.docx", Make: docxOf(body(around("", "<a>", size(1, 96)*mega, "")))},
		{Name: "titlebomb2g.docx", Make: docxOf(
			text, part{"docProps/core.xml", around("<c><title>", "t", size(8, 2000)*mega, "</title></c>")})},
		{Name: "title.docx", Make: docxOf(
			text, part{"docProps/core.xml", around("<c><title>", "t\n", 400_000, "</title></c>")})},
		{Name: "bodybomb.docx", Make: docxOf(body(around("<d><p><t>", "x", size(8, 2000)*mega, "</t></p></d>")))},
		{Name: "paragraphs.docx", Make: docxOf(body(around("<d>", "<p/>", size(1, 500)*mega, "</d>")))},
		{Name: "nestedzip.docx", Make: docxOf(body(around(inner.String(), "", 0, "")))},
		{Name: "entities.docx", Make: docxOf(body(around(expand+"<d><p><t>", "&c;", 1000, "</t></p></d>")))},
		{Name: "external.docx", Make: docxOf(body(around(
			`<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]><d><p><t>`, "&x;", 1, "</t></p></d>")))},
		{Name: "attribute.docx", Make: docxOf(body(around(`<d a="`, "x", size(8, 500)*mega, `"><t>x</t></d>`)))},
		{Name: "entries.docx", Make: docxOf(append(entries, text)...)},
	}
}

// deflated packs content so many times.
func deflated(content func(io.Writer) error, times int) string {
	var out bytes.Buffer
	writer := io.Writer(&out)
	var layers []io.Closer
	for range times {
		layer := zlib.NewWriter(writer)
		layers, writer = append(layers, layer), layer
	}
	_ = content(writer) // a buffer takes everything
	for i := len(layers) - 1; i >= 0; i-- {
		_ = layers[i].Close()
	}
	return out.String()
}
