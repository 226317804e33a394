package document_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func parse(content string, kind document.Kind) (title, text string, meta map[string]string, err error) {
	return parseWithin(content, kind, document.DefaultLimits())
}

func parseWithin(
	content string, kind document.Kind, limits document.Limits,
) (title, text string, meta map[string]string, err error) {
	doc, text, err := readWhole(content, kind, "dir/x", limits)
	return doc.Title, text, doc.Meta, err
}

// readWhole reads a document to the end of its text.
func readWhole(
	content string, kind document.Kind, object string, limits document.Limits,
) (document.Doc, string, error) {
	doc, err := document.Parse(strings.NewReader(content), kind, object, limits)
	if err != nil {
		return doc, "", err
	}
	raw, err := io.ReadAll(doc.Text)
	return doc, string(raw), err
}

// pdf makes a file of one page for each text.
func pdf(pages ...string) string {
	var out strings.Builder
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	out.WriteString("%PDF-1.4\n")
	object("<< /Type /Catalog /Pages 2 0 R >>")
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range pages {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents %d 0 R "+
			"/Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i))
		stream := "BT /F1 12 Tf 20 200 Td (" + text + ") Tj ET"
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, offset := range offsets {
		fmt.Fprintf(&out, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return out.String()
}

func TestWhatEachKindGives(t *testing.T) {
	paragraphs := `<w:p><w:r><w:t>First</w:t></w:r><w:tab/><w:t>tabbed</w:t></w:p>` +
		`<w:p/><w:p/><w:p/><w:p><w:t>line</w:t><w:br/><w:t>break</w:t></w:p>` +
		`<w:tbl><w:tr><w:tc><w:p><w:t>cell</w:t></w:p></w:tc></w:tr></w:tbl>`
	for name, c := range map[string]struct {
		kind               document.Kind
		content            string
		title, text, extra string
	}{
		"text":            {document.Text, "\xef\xbb\xbfa\r\nb", "", "a\nb", ""},
		"markdown":        {document.Markdown, "# H\n\ntext", "", "# H\n\ntext", ""},
		"an empty text":   {document.Text, "", "", "", ""},
		"html":            {document.HTML, "<title> A \n page</title><h1>Head</h1><p>x &amp; y</p>", "A page", "# Head\n\nx & y", ""},
		"html in Latin-1": {document.HTML, "<p>Z\xfcrich</p>", "", "Zürich", ""},
		"html, no title":  {document.HTML, "<title></title><p>x</p>", "", "x", ""},
		"json": {document.JSON, `{"title":" T ","body":"text","year":1999,"ok":true,"deep":{"x":1}}`, "T",
			"text\n\ndeep.x: 1\n", "map[ok:true year:1999]"},
		"json metadata": {document.JSON, `{"content":"text","metadata":{"title":"M","lang":"en"}}`, "M", "text",
			"map[lang:en title:M]"},
		"json, no text":    {document.JSON, `{"b":2,"a":"one"}`, "", "b: 2\na: one\n", "map[a:one b:2]"},
		"json, a list":     {document.JSON, `{"text":"t","tags":["a","b"]}`, "", "t", "map[tags:a, b]"},
		"json, no object":  {document.JSON, `[1,"x"]`, "", "1, x\n", ""},
		"json, big number": {document.JSON, `{"text":"t","n":12345678901234567890}`, "", "t", "map[n:12345678901234567890]"},
		"docx": {document.DOCX, documenttest.ZipOf(map[string]string{
			"word/document.xml": "<w:document>" + paragraphs + "</w:document>",
			"docProps/core.xml": "<c><title> The title </title><creator>Ada\nBerg</creator><lastModifiedBy>x</lastModifiedBy>" +
				"<created>2026-01-31T09:00:00Z</created><keywords>lease; Bergen,</keywords><subject/></c>",
		}), "The title", "First\ttabbed\n\nline\nbreak\n\n| cell |",
			"map[author:Ada Berg created:2026-01-31T09:00:00Z keywords:lease, Bergen]"},
		"pdf":       {document.PDF, pdf("Page one", "Page two"), "", "Page one\n\f\nPage two\n\f\n", ""},
		"pdf, gaps": {document.PDF, pdf("Only the first", ""), "", "Only the first\n\f\n\n\f\n", ""},
	} {
		title, text, meta, err := parse(c.content, c.kind)
		assert.True(t, err == nil && title == c.title && text == c.text && (c.extra == "" || fmt.Sprint(meta) == c.extra),
			"%s: title %q, text %q, meta %v, %v", name, title, text, meta, err)
	}
}

// What cannot be read is named with what to do, never a panic and never an empty document.
func TestUnreadableFilesAreNamed(t *testing.T) {
	protected, err := os.ReadFile("testdata/protected.pdf") // one blank page, encrypted with a user password
	require.NoError(t, err)
	one := func(name, content string) string {
		return documenttest.Zip(documenttest.Part{Name: name, Content: content})
	}
	whole, nothing := pdf("text"), one("a", "<a/>")
	for name, c := range map[string]struct {
		kind    document.Kind
		content string
		code    fault.Code
	}{
		"a protected pdf":     {document.PDF, string(protected), fault.Encrypted},
		"a pdf without text":  {document.PDF, pdf(""), fault.EmptyDocument},
		"no pdf":              {document.PDF, "plain text", fault.Unreadable},
		"a cut pdf":           {document.PDF, whole[:len(whole)/2], fault.Unreadable},
		"an encrypted docx":   {document.DOCX, "\xd0\xcf\x11\xe0 compound", fault.Encrypted},
		"no docx":             {document.DOCX, "plain text", fault.Unreadable},
		"a docx without text": {document.DOCX, one("word/other.xml", "<x/>"), fault.Unreadable},
		"a docx of bad xml":   {document.DOCX, one("word/document.xml", "<w:p><w:t>"), fault.Unreadable},
		"no json":             {document.JSON, `{"text":`, fault.Unreadable},
		"two json values":     {document.JSON, `{"text":"a"}{"text":"b"}`, fault.Unreadable},
		"an empty json":       {document.JSON, "", fault.Unreadable},
		"binary text":         {document.Text, "\x7fELF\x00\x00", fault.BinaryContent},
		"binary html":         {document.HTML, "\x7fELF\x00\x00", fault.BinaryContent},
		"an empty pptx":       {document.PPTX, nothing, fault.Unreadable},
		"an empty xlsx":       {document.XLSX, nothing, fault.Unreadable},
		"an encrypted xlsx":   {document.XLSX, "\xd0\xcf\x11\xe0 compound", fault.Encrypted},
		"a protected epub":    {document.EPUB, one("META-INF/rights.xml", "<r/>"), fault.Encrypted},
	} {
		_, text, _, err := parse(c.content, c.kind)
		assert.True(t, fault.CodeOf(err) == c.code && fault.KindOf(err) == fault.Content &&
			strings.Contains(err.Error(), "dir/x"), "%s: %q, %v", name, text, err)
		e := fault.As(err)
		assert.True(t, e == nil || e.Hint != "" || c.kind == document.Text, "%s: the error advises nothing: %v", name, err)
	}
	_, err = document.Parse(iotest.ErrReader(io.ErrUnexpectedEOF), document.JSON, "dir/x", document.DefaultLimits())
	assert.True(t, fault.Is(err, fault.Unreadable), "a broken source: %v", err)
}

func TestTitles(t *testing.T) {
	for _, c := range []struct{ given, head, kind, want string }{
		{"Given", "# Head", "markdown", "Given"},
		{"", "\n\nintro\n\n## Head one\n", "markdown", "Head one"},
		{"", "#hashtag line\n", "markdown", "hashtag line"},
		{"", "intro\n", "markdown", "intro"},
		{"", "A first line\nmore", "text", "A first line"},
		{"", "# not a heading here", "text", "not a heading here"},
		{"", "A sentence that stands alone.\n\nmore", "text", "name"},
		{"", strings.Repeat("long ", 12) + "\n" + strings.Repeat("a paragraph that goes on ", 3), "text", "name"},
		{"", "A sentence is what a record is known by.", "jsonl", "A sentence is what a record is known by."},
		{"", "intro\n\n```\n# a comment\n```\n\nThe *Head*\n===\n", "markdown", "The *Head*"},
		{"", "=====\nBook\n=====\n\nPart\n----\n", "rst", "Book"},
		{"", "Page 1 of 4\n\nThe report\n", "pdf", "The report"},
		{"", "12\n\nThe report\n", "pdf", "The report"},
		{"", strings.Repeat("long ", 50) + "\nshort", "text", "name"},
		{"", strings.Repeat("é", 150), "text", strings.Repeat("é", 150)},
		{"", strings.Repeat("é", 151), "text", "name"},
		{"", "", "text", "name"},
		{"---", "# Head", "markdown", "Head"},
		{"{ }", "", "json", "name"},
		{"", "---\n\nIntroduction\n\nmore", "markdown", "Introduction"},
		{"", "=====\n\n* * *\nThe report\n\nmore", "text", "The report"},
		{"", "# ---\n\n## The second\n", "markdown", "The second"},
		{"", "<!-- licence:\n# no title\n-->\n\n# The page\n", "markdown", "The page"},
		{"", "<!-- one line -->\nNotes\n\nmore", "text", "Notes"},
		{"", "# Logrus <img src=\"a\"/> [![Build](a.svg)](b) [![Docs][1]][2]\n", "markdown", "Logrus"},
		{"", "# [![Viper](logo.svg)](b)\n", "markdown", "Viper"},
		{"", "Archive-Name: editor-faq/sed\nVersion: 015\n\nThe editor\n\nmore", "text", "The editor"},
		{"", "[![Build](a.svg)](b) [![Docs][1]][2]\n\nThe project\n\nmore", "markdown", "The project"},
		{"", "<p align=\"center\">\n<img src=\"a\">\n</p>\n\nThe project\n\nmore", "markdown", "The project"},
		{"", "[\n {\n  \"text\": \"by Bea Dove\"\n }\n]", "json", "\"text\": \"by Bea Dove\""},
		{"", "{% extends 'a' %}\n// a remark\n/* one */\nTerms\n\nmore", "text", "Terms"},
		{"", ".. include:: a.txt\n\nTerms\n\nmore", "rst", "Terms"},
		{"", "From: a@b.example\nTo: c@d.example\nSubject: The tide\n\nHello", "text", "The tide"},
		{"", "---\ntitle: The tide\nkey: [\n---\n\nHello", "markdown", "The tide"},
		{"", "From a@b.example Fri Nov 20 10:00:00 2026\nTerms\n\nmore", "text", "Terms"},
		{"", "From: a@b.example\n\nHarbour notes\n\nmore", "eml", "Harbour notes"},
		{"", "From here to there\n\nmore", "text", "From here to there"},
		{"", "| Port | Head |\n\nmore", "html", "Port | Head"},
		{"", "__init__ of *args*\n\nmore", "html", "__init__ of *args*"},
		{"", "《》\n\n港口\n\nmore", "text", "港口"},
		{"", "***\n!!!\n", "text", "name"},
		{"", "Ada Moe <ada@harbour.example>\nBea Dove <bea@harbour.example>\n", "text", "name"},
		{"", "Port NEWS      -*- outline -*-\n\nmore", "text", "Port NEWS"},
		{"", "===== Changes =====\n\nmore", "text", "Changes"},
		{"", strings.Repeat("A long paragraph opens it. ", 8) + "\n\n## Part\n", "markdown", "name"},
		{"", "messages[0].role: user\nmessages[0].content: Who has the keys?", "json", "name"},
		{"", "v1.2: the tide turns", "jsonl", "v1.2: the tide turns"},
		{"", "ID: 7\ntown: Oslo", "jsonl", "town: Oslo"},
		{"", "feasible: true\ntown: Oslo", "json", "name"},
		{"", "type: FeatureCollection\nfeatures[0].type: Feature", "json", "name"},
		{"", "doc_id: X-7\nyear: 1999\nUser ID: 5", "csv", "name"},
		{"", "---json\nThe tide\n\nmore", "text", "The tide"},
		{"AT&amp;T &#8211; R&D", "", "json", "AT&T – R&D"},
		{"", "# AT&amp;T &c\n", "markdown", "AT&T &c"},
		{"", "# AT&amp;T\n", "html", "AT&amp;T"},
	} {
		got := document.TitleOf(c.given, c.head, document.Kind(c.kind), "dir/name.txt", document.DefaultLimits())
		assert.True(t, got == c.want, "%+v: %q", c, got)
	}
}

func TestTitlesOfProgramsAreNone(t *testing.T) {
	for given, want := range map[string]string{
		"0000104169-18-000028": "", "Microsoft Word - Tides": "", "Untitled": "", "tides.indd": "", "1984": "1984",
		`C:\wp\FILE94\ASA\MT_r1.wpd [PFP#1181003885]`: "", `\\srv\a b\tides`: "", "file:///a b": "", "Report of tides v2.DOC": "",
		"How to open a .docx": "How to open a .docx", "Tides: and/or currents": "Tides: and/or currents",
		"10-Q 2018": "10-Q 2018", "2001: A Space Odyssey": "2001: A Space Odyssey",
	} {
		got := document.OwnTitle(given)
		assert.True(t, got == want, "%q: %q, want %q", given, got, want)
	}
}

func TestNamesThatAreTitles(t *testing.T) {
	for text, names := range map[string]map[string]string{
		"package tide\n\nmore": { // the first line of a program is no title
			"tide.go": "tide.go", "a.sql.gz": "a.sql", "tide.txt": "package tide", "NEWS": "package tide",
		},
		"": {
			"a/b/report.final.txt": "report.final", "rows.csv.gz": "rows", "README": "README", ".md": ".md",
			"---.md": "---.md", "v1.2": "v1.2", "a.txt.html": "a.txt", "港口.html": "港口",
		},
	} {
		for object, want := range names {
			got := document.TitleOf("", text, document.Text, object, document.DefaultLimits())
			assert.True(t, got == want, "%s: %q, want %q", object, got, want)
		}
	}
}

func TestTheKindIsToldByTheName(t *testing.T) {
	for key, want := range map[string]struct {
		kind         document.Kind
		gz, ok, rows bool
	}{
		"a.txt":            {document.Text, false, true, false},
		"dir/A.TXT":        {document.Text, false, true, false},
		"a.md.gz":          {document.Markdown, true, true, false},
		"a.xhtml":          {document.HTML, false, true, false},
		"a.pdf":            {document.PDF, false, true, false},
		"a.docx":           {document.DOCX, false, true, false},
		"a.pptx":           {document.PPTX, false, true, false},
		"a.xlsx":           {document.XLSX, false, true, false},
		"a.epub":           {document.EPUB, false, true, false},
		"a.eml.gz":         {document.EML, true, true, false},
		"a.rst":            {document.RST, false, true, false},
		"a.ipynb":          {document.Notebook, false, true, false},
		"a.json":           {document.JSON, false, true, false},
		"a.ndjson":         {document.JSONL, false, true, true},
		"a.CSV.GZ":         {document.CSV, true, true, true},
		"a.exe":            {"", false, false, false},
		"txt":              {"", false, false, false},
		"a.gz":             {"", true, false, false},
		"dir.with/dots.md": {document.Markdown, false, true, false},
	} {
		kind, gz, ok := document.TypeOf(key)
		assert.True(t, kind == want.kind && gz == want.gz && ok == want.ok && kind.HasRows() == want.rows,
			"%s: %q gz %v ok %v", key, kind, gz, ok)
	}
	for _, extension := range strings.Split(strings.TrimSuffix(document.Extensions, ", each also with .gz"), " ") {
		_, _, ok := document.TypeOf("a" + extension)
		assert.True(t, ok, "%s is said to be read", extension)
	}
}

// What lies in the folder of compiled code is run: code that others may have put there never is.
func TestAFolderThatOthersMayWriteToKeepsNoCompiledCode(t *testing.T) {
	for _, open := range []string{"unweaver", "unweaver/wasm"} {
		base, temporary := t.TempDir(), t.TempDir()
		t.Setenv("XDG_CACHE_HOME", base)
		t.Setenv("TMPDIR", temporary)
		require.NoError(t, os.MkdirAll(filepath.Join(base, open), 0o700))
		if err := os.Chmod(filepath.Join(base, open), 0o777); err != nil { //nolint:gosec // as an attacker finds it
			t.Fatal(err)
		}
		second := document.PDFCache()
		assert.True(t, filepath.Dir(second) == temporary, "%s is open, the cache is %q", open, second)
		if err := os.Chmod(second, 0o777); err != nil { //nolint:gosec // the same
			t.Fatal(err)
		}
		got := document.PDFCache()
		assert.True(t, got == "", "both are open, the cache is %q", got)
	}
}

// The type of an object follows from its name; text is read as a stream.
func ExampleParse() {
	const object = "ships/fram.md.gz"
	kind, gzipped, ok := document.TypeOf(object)
	fmt.Println(kind, gzipped, ok)

	source := strings.NewReader("---\ntitle: Fram\nbuilt: 1892\n---\nFram sailed to Antarctica.\n")
	doc, err := document.Parse(source, kind, object, document.DefaultLimits())
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(doc.Text)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s (%s): %s", doc.Title, doc.Meta["built"], body)
	// Output:
	// markdown true true
	// Fram (1892): Fram sailed to Antarctica.
}

// Each line of JSON Lines is a document. One that cannot be used has an error; the others are read.
func ExampleStreamRows() {
	source := strings.NewReader(`{"id": "a", "title": "Fram", "text": "A ship."}` + "\n" + `{"id": "b", ` + "\n")
	err := document.StreamRows(source, document.JSONL, "ships.jsonl", document.DefaultLimits(), func(row document.Row) error {
		if row.Err != nil {
			fmt.Println("line", row.Line, "cannot be used")
			return nil
		}
		title, text, _, err := document.DecodeRecord(row.Canonical, document.DefaultLimits())
		fmt.Println(row.ID, title, text)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// a Fram A ship.
	// line 2 cannot be used
}

// Each page gives what a browser shows of it.
func TestPagesAreReadAsTheyAreShown(t *testing.T) {
	for page, want := range map[string]string{
		// Letters of a word stay together, whatever stands around some of them.
		`<p>The <b>W</b>orld <i>H</i>ealth, H<sub>2</sub>O, x<sup>2</sup>, K<strong>ar</strong>l, <a href="u?a=b">l</a>ink`: "" +
			"The World Health, H2O, x2, Karl, link",
		"<span>a</span><span>b</span> <em> c </em><em>d</em>e <a>f</a> , g": "ab c de f , g",
		"Dona<wbr>ufahrt <font>o</font>ne\n\t line":                         "Donaufahrt one line",
		// No mark of any other language is written, and what looks like one stays.
		`<p>snake_case_name, *x*, [brackets](x), a | b, 5 * 3, C:\dir\file, &lt;b&gt; &amp;amp; &#39;q&#39;</p><p>1. no list`: "" +
			"snake_case_name, *x*, [brackets](x), a | b, 5 * 3, C:\\dir\\file, <b> &amp; 'q'\n\n1. no list",
		"<p>Use <code>vector&lt;int&gt;</code> and <tt>a_b</tt>": "Use vector<int> and a_b",
		"<pre>if a &lt; b {\n  c\n\n  # d\n}</pre>after":         "    if a < b {\n      c\n\n      # d\n    }\n\nafter",
		"<p># hash<p>---<p>a<br>===<br><br>b":                    "    # hash\n\n    ---\n\na\n    ===\n\nb",
		// What is not shown is no text.
		`<noscript>On</noscript><template><p>t</p></template><script>s</script><style>p{}</style><p hidden>h</p>` +
			`<p style="color:red; DISPLAY : none !important">d</p><datalist><option>o</datalist><dialog>x</dialog>` +
			`<iframe>i</iframe><video>v</video><p aria-hidden="true">shown`: "shown",
		`<div style="visibility:hidden">gone <b style="visibility:visible">back</b></div><p style="display:block">there`: "" +
			"back\n\nthere",
		"<p style='visibility:inherit'>a</p><div><template shadowrootmode=open><p>b</template></div>": "a\n\nb",
		"<details><summary>More</summary><p>Folded</details><dialog open>Asked</dialog>":              "More\n\nFolded\n\nAsked",
		// Fields hold text, and pictures say what they show.
		`<input value="Kay Orr"><input type=hidden value=no><input type=password value=no><input placeholder="Your name">`: "" +
			"Kay Orr Your name",
		"<textarea>First</textarea><select><optgroup label=Ports><option>Oslo<option>Bergen</select><button>Send</button>x": "" +
			"First\nPorts\nOslo\nBergen\nSend x",
		`<img alt="a chart" src=c.png><img src=d.png>`:                  "a chart",
		"<svg><title>tip</title><text>one</text><text>two</text></svg>": "one\ntwo",
		"<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby>です":    "漢字(かんじ)です",
		"<ruby>a<rt>b<ruby>c<rt>d</ruby></ruby>e":                       "a(bcd)e",
		"He said <q>Go</q>": "He said “Go”",
		// Blocks, lists, headings and tables can be distinguished.
		"<div>a</div><div>b<br>c</div><blockquote>d<p>e</blockquote><hr>f": "a\n\nb\nc\n\nd\n\ne\n\nf",
		"<ul><li>one<ul><li>sub</ul><li><p>two<p>more</ul><ol start=3><li>x<li value=9>y<li>z</ol>": "" +
			"- one\n  - sub\n\n- two\n\nmore\n\n3. x\n9. y\n10. z",
		"<dl><dt>Term<dd>Meaning</dl>": "Term\nMeaning",
		"<h1>C# and <b>F#</b><br>now</h1><h2></h2><p>x<h3>a <div>b</div></h3><ul><li><h4>in</h4>y": "" +
			"# C# and F# now\n\nx\n\n### a b\n\n#### in\n\ny",
		"<table><caption>Cap</caption><tr><th>A<th>B<tr><td rowspan=2>x<td>1<tr><td>2<tr><td colspan=2>w<td>z</table>e": "" +
			"Cap\n\n| A | B |\n| --- | --- |\n| x | 1 |\n|  | 2 |\n| w |  | z |\n\ne",
		"<table><tr><td>a<br>b<p>c<td hidden>no<td> </table>":                                                                "| a b c |",
		"<table><tr><td><h2>Menu</h2><td>right<table><tr><td>in</table></table>":                                             "## Menu\n\nright\n\n| in |",
		"<table role=presentation><tr><td>left<td>right</table>":                                                             "left\n\nright",
		"<table><tr style='display:none'><td>no<tr><td>yes</table><table></table>":                                           "| yes |",
		"<p>&nbsp;</p><p>a&nbsp;b":                                                                                           "a\u00a0b",
		"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><head><title/><script src='x'/></head><body><p>All": "All",
		"<?xml version='1.0'?><!DOCTYPE html [<!ENTITY who 'Ana'>]><html><body><pre><![CDATA[a < b && <i>c</i>]]></pre>end": "" +
			"    a < b && <i>c</i>\n\nend",
		"<html xmlns='http://www.w3.org/1999/xhtml'><body><a id='a'/><textarea/><p>here<br/>too": "here\ntoo",
	} {
		_, text, _, err := parse(page, document.HTML)
		assert.True(t, err == nil && text == want, "%s\n got %q\nwant %q, %v", page, text, want, err)
	}
}

func TestHeadingsOfPagesAreFoundAsTheyAreShown(t *testing.T) {
	_, text, _, err := parse("<h1>__init__ and *args* [x](y)</h1><p># no<pre># no\n=====</pre><h2>C#</h2>", document.HTML)
	require.NoError(t, err)
	outline := document.NewOutline(document.HTML)
	outline.Add(text)
	headings, _ := outline.End()
	var got []string
	for _, heading := range headings {
		got = append(got, heading.Text)
	}
	assert.True(t, strings.Join(got, "; ") == "__init__ and *args* [x](y); C#", "%q of %q", got, text)
}

func TestHeadsOfPages(t *testing.T) {
	for page, want := range map[string]string{
		"<title> A \n <b>page</b> </title><p>x":                              "A <b>page</b>",
		"<meta property='og:title' content='Shared'><title></title><p>x":     "Shared",
		"<p>x<svg><title>tip</title></svg>":                                  "",
		"<head><meta name=author content=no></head><title>T</title><p>x<p>y": "T",
	} {
		title, _, _, err := parse(page, document.HTML)
		assert.True(t, err == nil && title == want, "%s: %q, %v", page, title, err)
	}
}

func TestSpansThatMakeCellsWithoutEndAreAboveTheLimit(t *testing.T) {
	page := "<table>" + strings.Repeat("<tr><td colspan=1000 rowspan=60000>a", 60)
	_, _, _, err := parse(page, document.HTML)
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "spans"), "%v", err)
}

// outlineOf gives the outline of a text that comes in pieces of so many bytes: "start-end:level:text", and pages.
func outlineOf(kind document.Kind, text string, size int) (string, []int) {
	outline := document.NewOutline(kind)
	for text != "" {
		n := min(size, len(text))
		for n < len(text) && text[n]&0xc0 == 0x80 {
			n++
		}
		outline.Add(text[:n])
		text = text[n:]
	}
	headings, pages := outline.End()
	var out []string
	for _, h := range headings {
		out = append(out, fmt.Sprintf("%d-%d:%d:%s", h.Start, h.End, h.Level, h.Text))
	}
	return strings.Join(out, " "), pages
}

// Promises: 98.
func TestHeadingsOfATextHoweverItIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		kind       document.Kind
		text, want string
	}{
		"marks":         {document.Markdown, "# Öne\n\ntext\n## Two ##\n#no\n    # code\n", "0-7:1:Öne 12-22:2:Two"},
		"lines below":   {document.Markdown, "a\n\nThe title\n=====\n\nSub\n---\ntext", "3-20:1:The title 20-28:2:Sub"},
		"code":          {document.Markdown, "```sh\n# no\n```\n~~~\n# no\n```\n~~~\n# yes", "32-37:1:yes"},
		"a rule":        {document.Markdown, "one\ntwo\n---\n\n---\n- item\n---\n", ""},
		"links, marks":  {document.Markdown, "# [A **b**](u) `c` {#id}\nx", "0-25:1:A b c"},
		"html":          {document.Markdown, "<h1 align=\"center\">Title <b>x</b></h1>\n", "0-39:1:Title x"},
		"of plain text": {document.Text, "# Head\n", ""},
		"restructured": {document.RST, "====\nDoc\n====\n\nPart\n----\ntext\n\nOther\n-----\n",
			"0-15:1:Doc 15-25:2:Part 31-43:2:Other"},
		"headings at ends": {document.Markdown, "# One\n## Two", "0-6:1:One 6-12:2:Two"},
		"a long line":      {document.Markdown, "# " + strings.Repeat("x", 5000) + "\n# a\n", "5003-5007:1:a"},
	} {
		for _, size := range []int{1, 3, 1 << 20} {
			got, _ := outlineOf(c.kind, c.text, size)
			assert.True(t, got == c.want, "%s, pieces of %d bytes:\ngot  %s\nwant %s", name, size, got, c.want)
		}
	}
}

// Promises: 98.
func TestPagesOfAText(t *testing.T) {
	for name, c := range map[string]struct {
		kind document.Kind
		text string
		want string
	}{
		"two":            {document.PDF, "one\n\f\ntwo\n\f\n", "[0 6]"},
		"an empty one":   {document.PDF, "\n\f\n\n\f\ntwo\n\f\n", "[0 3 6]"},
		"one":            {document.PDF, "one\n\f\n", "[0]"},
		"old pages":      {document.PDF, "one\n\ntwo\n\n", "[]"}, // what an earlier version kept has no pages
		"of plain text":  {document.Text, "one\n\f\ntwo\n\f\n", "[]"},
		"with a heading": {document.PPTX, "# a\n\n\f\n# b\n\f\n", "[0 7]"},
	} {
		for _, size := range []int{1, 1 << 20} {
			_, pages := outlineOf(c.kind, c.text, size)
			assert.True(t, fmt.Sprint(pages) == c.want, "%s: %v, want %s", name, pages, c.want)
		}
	}
}
