package document_test

import (
	"bytes"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// tight limits are reached by the small inputs that fuzzing makes.
var tight = document.Limits{
	Bytes: 1 << 20, Ratio: 100, Text: 64 << 10, Title: 50, Row: 8 << 10, Spans: 1000, Nesting: 100, Pages: 50,
	Time: 2 * time.Second, Memory: 64 << 20,
}

// fuzz reads whatever it is given as an object of that name: no panic, text that is valid and within the limits, a
// title that is one line, in bounded time. It starts from the samples and the pills of the kind, where those are small.
func fuzz(f *testing.F, name string) {
	kind, gz, _ := document.TypeOf(name)
	for sample, content := range documenttest.Samples() {
		if of, packed, _ := document.TypeOf(sample); of == kind && packed == gz {
			f.Add(content)
		}
	}
	for _, pill := range documenttest.Pills() {
		var content bytes.Buffer
		_, packed, _ := document.TypeOf(pill.Name)
		if pill.Kind != kind || packed != gz {
			continue
		}
		small := limited{out: &content, left: 4 << 10}
		if strings.HasPrefix(pill.Name, "flatebomb") || pill.Make(&small) != nil {
			continue // too large to begin from
		}
		f.Add(content.Bytes())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<20 {
			return
		}
		start := time.Now()
		consume(t, name, bytes.NewReader(content), tight)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%d bytes took %v", len(content), took)
		}
	})
}

// limited takes so many bytes and no more.
type limited struct {
	out  io.Writer
	left int
}

func (l *limited) Write(raw []byte) (int, error) {
	if l.left -= len(raw); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.out.Write(raw)
}

func FuzzHTML(f *testing.F)  { fuzz(f, "a.html") }
func FuzzJSON(f *testing.F)  { fuzz(f, "a.json") }
func FuzzJSONL(f *testing.F) { fuzz(f, "a.jsonl") }
func FuzzCSV(f *testing.F)   { fuzz(f, "a.csv") }
func FuzzDOCX(f *testing.F)  { fuzz(f, "a.docx") }
func FuzzPPTX(f *testing.F)  { fuzz(f, "a.pptx") }
func FuzzXLSX(f *testing.F)  { fuzz(f, "a.xlsx") }
func FuzzEPUB(f *testing.F)  { fuzz(f, "a.epub") }
func FuzzEML(f *testing.F)   { fuzz(f, "a.eml") }

func FuzzMarkdown(f *testing.F) { fuzz(f, "a.md") }
func FuzzRST(f *testing.F)      { fuzz(f, "a.rst") }
func FuzzText(f *testing.F)     { fuzz(f, "a.txt") }
func FuzzGunzip(f *testing.F)   { fuzz(f, "a.csv.gz") }

// A stack without end ends the process, and no test can catch that: the stack is bounded, so that such an input is
// found at once and kept by the fuzzer. TestDamagedFilesAreReadOrRefused of package sandbox reads in child processes.
func FuzzPDF(f *testing.F) {
	debug.SetMaxStack(64 << 20)
	fuzz(f, "a.pdf")
}

// FuzzOfficeParts reads parts that a zip holds whole, so that what reads XML is reached: a part of each kind is the
// content, the others are those of the samples.
func FuzzOfficeParts(f *testing.F) {
	parts := map[string]string{
		"a.docx word/document.xml": `<d><p><pPr><pStyle val="H"/><numPr><ilvl val="1"/><numId val="1"/></numPr></pPr><r><rPr><vanish/></rPr><t>a</t>` +
			`</r><txbxContent><p><r><t>b</t></r></p></txbxContent><footnoteReference id="1"/><ruby><rt><t>c</t></rt><rubyBase><t>d</t></rubyBase></ruby>` +
			`</p><tbl><tr><tc><tcPr><gridSpan val="2"/><vMerge/></tcPr><p><r><t>e</t></r></p></tc></tr></tbl><altChunk id="a"/><chart id="a"/></d>`,
		"a.docx word/numbering.xml": `<n><abstractNum abstractNumId="0"><lvl ilvl="0"><start val="1"/><numFmt val="upperRoman"/><lvlText val="%1.%2"/>` +
			`</lvl></abstractNum><num numId="1"><abstractNumId val="0"/><lvlOverride ilvl="1"><startOverride val="3"/></lvlOverride></num></n>`,
		"a.docx word/styles.xml": `<s><style styleId="H"><basedOn val="H"/><name val="heading 1"/><vanish/></style></s>`,
		"a.pptx ppt/s.xml": `<sld><sp><nvSpPr><cNvPr hidden="1"/></nvSpPr><p><t>a</t></p></sp><AlternateContent><Choice><sp><p><t>b_x000D_</t></p></sp>` +
			`</Choice><Fallback><p><t>c</t></p></Fallback></AlternateContent><tbl><tr><tc hMerge="1"><p><t>d</t></p></tc><tc vMerge="1"/></tr></tbl><chart id="c"/><relIds dm="d"/></sld>`,
		"a.pptx ppt/c.xml": `<c><title><p/><p><t># a</t></p></title><ser><tx><pt><v>b</v></pt></tx><cat><pt>1</pt></cat><val><pt><v>2</v></pt></val></ser></c>`,
		"a.pptx ppt/d.xml": `<d><pt><t><p><pPr lvl="2"><buAutoNum type="romanLcParenBoth" startAt="9"/></pPr><t>a</t></p></t></pt></d>`,
		"a.pptx ppt/e.xml": `<e><cm><text>a</text></cm><threadedComment ref="A1"><text>b</text></threadedComment><comment><t>c</t></comment></e>`,
		"a.xlsx xl/s.xml": `<w><cols><col min="1" max="2" hidden="1"/></cols><row r="1"><c r="C1" s="1"><v>39415.5</v></c><c r="D1" t="s"><v>0</v></c>` +
			`</row><row r="2" hidden="1"><c><f>1</f></c></row><mergeCell ref="C1:D9"/><oddHeader>&amp;Lx&amp;&amp;</oddHeader></w>`,
		"a.xlsx xl/styles.xml": `<s><numFmt numFmtId="164" formatCode="[&gt;10]#,##0.00_);[Red]\(0\);@"/><numFmt numFmtId="165" formatCode="[h]:mm:ss.00 AM/PM"/>` +
			`<cellXfs><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></s>`,
	}
	var names []string
	for name, content := range parts {
		names = append(names, name)
		f.Add(name, content)
	}
	f.Fuzz(func(t *testing.T, name, content string) {
		if !slices.Contains(names, name) {
			return
		}
		file, changed, _ := strings.Cut(name, " ")
		all := []documenttest.Part{
			{Name: "ppt/presentation.xml", Content: `<p><sldId r:id="a"/></p>`}, rels("ppt/presentation.xml", "a", "slide", "s.xml"),
			rels("ppt/s.xml", "c", "chart", "c.xml", "d", "diagramData", "d.xml", "e", "comments", "e.xml"),
			{Name: "xl/workbook.xml", Content: `<w><sheet name="a" r:id="a"/></w>`}, rels("xl/workbook.xml", "a", "worksheet", "s.xml"),
			rels("word/document.xml", "a", "footnotes", "document.xml"),
		}
		for of, usual := range parts {
			if _, part, _ := strings.Cut(of, " "); strings.HasPrefix(of, file) && part != changed {
				all = append(all, documenttest.Part{Name: part, Content: usual})
			}
		}
		all = append(all, documenttest.Part{Name: changed, Content: content})
		consume(t, file, strings.NewReader(documenttest.Zip(all...)), tight)
	})
}
