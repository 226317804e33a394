package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

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
