package readers_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func TestThePageOfAHTMLSaysWhoWroteItWhen(t *testing.T) {
	title, _, meta, err := documenttest.Read(`<head><meta property="og:title" content="Shown">`+
		`<meta name="author" content="A. Writer">`+
		`<meta name="keywords" content="a, b"><meta property="article:published_time" content="2026-11-20"></head>`+
		`<body><meta name="author" content="no">x`, document.HTML)
	assert.True(t, err == nil && title == "Shown" &&
		fmt.Sprint(meta) == "map[author:A. Writer date:2026-11-20 keywords:a, b]", "%q %v %v", title, meta, err)
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
		"pdf":       {document.PDF, documenttest.SmallPDF("Page one", "Page two"), "", "Page one\n\f\nPage two\n\f\n", ""},
		"pdf, gaps": {document.PDF, documenttest.SmallPDF("Only the first", ""), "", "Only the first\n\f\n\n\f\n", ""},
	} {
		title, text, meta, err := documenttest.Read(c.content, c.kind)
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
	whole, nothing := documenttest.SmallPDF("text"), one("a", "<a/>")
	for name, c := range map[string]struct {
		kind    document.Kind
		content string
		code    fault.Code
	}{
		"a protected pdf":     {document.PDF, string(protected), fault.Encrypted},
		"a pdf without text":  {document.PDF, documenttest.SmallPDF(""), fault.EmptyDocument},
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
		_, text, _, err := documenttest.Read(c.content, c.kind)
		assert.True(t, fault.CodeOf(err) == c.code && fault.KindOf(err) == fault.Content &&
			strings.Contains(err.Error(), "dir/x"), "%s: %q, %v", name, text, err)
		e := fault.As(err)
		assert.True(t, e == nil || e.Hint != "" || c.kind == document.Text, "%s: the error advises nothing: %v", name, err)
	}
	_, err = readers.Parse(iotest.ErrReader(io.ErrUnexpectedEOF), document.JSON, "dir/x", document.DefaultLimits())
	assert.True(t, fault.Is(err, fault.Unreadable), "a broken source: %v", err)
}

// The type of an object follows from its name; text is read as a stream.
func ExampleParse() {
	const object = "ships/fram.md.gz"
	kind, gzipped, ok := document.TypeOf(object)
	fmt.Println(kind, gzipped, ok)

	source := strings.NewReader("---\ntitle: Fram\nbuilt: 1892\n---\nFram sailed to Antarctica.\n")
	doc, err := readers.Parse(source, kind, object, document.DefaultLimits())
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
		_, text, _, err := documenttest.Read(page, document.HTML)
		assert.True(t, err == nil && text == want, "%s\n got %q\nwant %q, %v", page, text, want, err)
	}
}

func TestHeadingsOfPagesAreFoundAsTheyAreShown(t *testing.T) {
	_, text, _, err := documenttest.Read("<h1>__init__ and *args* [x](y)</h1><p># no<pre># no\n=====</pre><h2>C#</h2>", document.HTML)
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
		title, _, _, err := documenttest.Read(page, document.HTML)
		assert.True(t, err == nil && title == want, "%s: %q, %v", page, title, err)
	}
}

func TestSpansThatMakeCellsWithoutEndAreAboveTheLimit(t *testing.T) {
	page := "<table>" + strings.Repeat("<tr><td colspan=1000 rowspan=60000>a", 60)
	_, _, _, err := documenttest.Read(page, document.HTML)
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "spans"), "%v", err)
}
