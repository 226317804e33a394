package readers_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// Each limit is kept by each parser that it concerns: one below it is read, one above it is named by its key, its value
// and what to do.
func TestEachLimitIsKeptAndNamed(t *testing.T) {
	body := func(text string) string {
		return documenttest.ZipOf(map[string]string{"word/document.xml": "<d><p><t>" + text + "</t></p></d>"})
	}
	x := func(n int) string { return strings.Repeat("x ", n/2) }
	nested := func(start, inner, end string, n int) string {
		return strings.Repeat(start, n) + inner + strings.Repeat(end, n)
	}
	for name, c := range map[string]struct {
		object     string
		set        func(*document.Limits)
		good, over string
		key        string
	}{
		"bytes of HTML": {"a.html", func(l *document.Limits) { l.Bytes = 1000 }, x(1000), x(1002), "bytes: 1000"},
		"bytes of JSON": {"a.json", func(l *document.Limits) { l.Bytes = 9 }, `["1234"]`, `["1234567"]`, "bytes: 9"},
		"bytes of PDF":  {"a.pdf", func(l *document.Limits) { l.Bytes = 2000 }, documenttest.SmallPDF("a"), documenttest.SmallPDF(x(3000)), "bytes: 2000"},
		"bytes of a part": {"a.docx", func(l *document.Limits) { l.Bytes = 1000 }, body(x(900)), body(x(1100)),
			"bytes: 1000"},
		"ratio of gzip": {"a.txt.gz", func(l *document.Limits) { l.Ratio = 50 },
			documenttest.Gzip(x(1 << 20)), documenttest.Gzip(x(2 << 20)),
			"ratio: 50"},
		"text of text":     {"a.txt", func(l *document.Limits) { l.Text = 1000 }, x(1000), x(1002), "text: 1000"},
		"text of Markdown": {"a.md", func(l *document.Limits) { l.Text = 1000 }, x(1000), x(1002), "text: 1000"},
		"text of HTML":     {"a.html", func(l *document.Limits) { l.Text = 1000 }, x(900), x(1100), "text: 1000"},
		"text of PDF":      {"a.pdf", func(l *document.Limits) { l.Text = 50 }, documenttest.SmallPDF(x(30)), documenttest.SmallPDF(x(30), x(30)), "text: 50"},
		"text of Word":     {"a.docx", func(l *document.Limits) { l.Text = 1000 }, body(x(900)), body(x(1100)), "text: 1000"},
		"text of JSON": {"a.json", func(l *document.Limits) { l.Text = 20 }, `{"text":"short"}`, `{"text":"` + x(40) + `"}`,
			"text: 20"},
		"text of a JSON list": {"a.json", func(l *document.Limits) { l.Text = 20 }, `[1,2]`, `[{"a":"` + x(20) + `"}]`, "text: 20"},
		"text of a row": {"a.jsonl", func(l *document.Limits) { l.Text = 30 }, `{"text":"a"}`, `{"text":"` + x(40) + `"}`,
			"text: 30"},
		"a line":      {"a.jsonl", func(l *document.Limits) { l.Row = 30 }, `{"text":"a"}`, `{"text":"` + x(40) + `"}`, "row: 30"},
		"a record":    {"a.csv", func(l *document.Limits) { l.Row = 30 }, "id,text\n1,a", "id,text\n1," + x(40), "row: 30"},
		"an XML text": {"a.docx", func(l *document.Limits) { l.Row = 5000 }, body(x(900)), body(x(9000)), "row: 5000"},
		"cells of HTML": {"a.html", func(l *document.Limits) { l.Spans = 100 }, "<table><tr><td colspan=9 rowspan=9>a",
			"<table>" + strings.Repeat("<tr><td rowspan=99>a", 20), "spans: 100"},
		"cells of two tables": {"a.html", func(l *document.Limits) { l.Spans = 100 }, "<table><tr><td colspan=60>a</table>",
			strings.Repeat("<table><tr><td colspan=60>a</table>", 2), "spans: 100"},
		"nesting of HTML": {"a.html", func(l *document.Limits) { l.Nesting = 20 }, nested("<div>", "x", "", 10),
			nested("<div>", "x", "", 30), "nesting: 20"},
		"nesting of JSON": {"a.json", func(l *document.Limits) { l.Nesting = 20 }, nested("[", "1", "]", 20),
			nested("[", "1", "]", 21), "nesting: 20"},
		"brackets in a string are no nesting": {"a.json", func(l *document.Limits) { l.Nesting = 2 }, `["[[[[\"[["]`,
			`[[[1]]]`, "nesting: 2"},
		"nesting of a row": {"a.jsonl", func(l *document.Limits) { l.Nesting = 5 }, `{"text":"x","a":[[1]]}`,
			`{"text":"x","a":[[[[[1]]]]]}`, "nesting: 5"},
		"nesting of XML": {"a.docx", func(l *document.Limits) { l.Nesting = 20 }, body("x"),
			body(nested("<a>", "x", "</a>", 30)), "nesting: 20"},
		"pages": {"a.pdf", func(l *document.Limits) { l.Pages = 2 }, documenttest.SmallPDF("a", "b"), documenttest.SmallPDF("a", "b", "c"), "pages: 2"},
		"memory of JSON": {"a.json", func(l *document.Limits) { l.Memory = 10_000 }, `{"a":1}`,
			"{" + strings.Repeat(`"a":1,`, 900) + `"b":1}`, "memory: 10000"},
		"memory of HTML": {"a.html", func(l *document.Limits) { l.Memory = 10_000 }, "<p>x", strings.Repeat("<p>", 900),
			"memory: 10000"},
		"memory of fields": {"a.csv", func(l *document.Limits) { l.Memory = 10_000 }, "id,text\n1,a",
			"id,text\n" + strings.Repeat(",", 900), "memory: 10000"},
		"the clock of a PDF": {"a.pdf", func(l *document.Limits) { l.Time = 0 }, documenttest.SmallPDF("a"), "", ""},
	} {
		limits := document.DefaultLimits()
		c.set(&limits)
		out := consume(t, c.object, strings.NewReader(c.good), limits)
		assert.True(t, out.err == nil && out.bad == nil, "%s, below: %v %v", name, out.err, out.bad)
		if c.over == "" {
			continue
		}
		out = consume(t, c.object, strings.NewReader(c.over), limits)
		err := errors.Join(out.err, errors.Join(out.bad...))
		assert.True(t, fault.Is(err, fault.TooLarge) && fault.KindOf(err) == fault.Content && fault.As(err).Hint != "" &&
			strings.Contains(err.Error(), "limits.document."+c.key) && strings.Contains(err.Error(), c.object),
			"%s, above: %v", name, err)
	}
}

func TestATitleIsOneLineOfBoundedLength(t *testing.T) {
	limits := document.DefaultLimits()
	long := strings.Repeat("é ", 2<<20)
	for given, want := range map[string]string{
		"A title":                       "A title",
		"two\r\n\tlines":                "two lines",
		"bell\a and \x1b[2Jescape":      "bell  and escape",
		"\n \x00 ":                      "name",
		"line\u2028and\u2029paragraph ": "line and paragraph",
		long:                            strings.TrimSpace(long[:1500]),
	} {
		got := document.TitleOf(given, "", document.Text, "dir/name.txt", limits)
		assert.True(t, got == want, "%.50q became %.50q, want %.50q", given, got, want)
	}
	limits.Title = 3
	for object, content := range map[string]string{
		"a.html": "<title>A long title</title><p>x", "a.json": `{"title":"A long title","text":"x"}`,
		"a.jsonl": `{"title":"A long title","text":"x"}`, "a.csv": "title,text\nA long title,x",
		"a.docx": documenttest.ZipOf(map[string]string{
			"word/document.xml": "<d><p><t>x</t></p></d>", "docProps/core.xml": "<c><title>A long title</title></c>",
		}),
	} {
		out := consume(t, object, strings.NewReader(content), limits)
		assert.True(t, out.err == nil && out.title == "A l", "%s: %q, %v", object, out.title, out.err)
	}
}

func TestSamplesAreSound(t *testing.T) {
	for name, content := range documenttest.Samples() {
		out := consume(t, name, bytes.NewReader(content), document.DefaultLimits())
		assert.True(t, out.err == nil && out.bad == nil && out.text != 0,
			"%s: %d bytes of text, %v, %v", name, out.text, out.err, out.bad)
	}
}
