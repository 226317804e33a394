package document_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func TestFrontMatterBecomesTitleAndMetadata(t *testing.T) {
	for name, c := range map[string]struct{ content, title, text, meta string }{
		"yaml": {"---\ntitle: A page\ndate: 2026-11-20\ntags: [a, b]\nnested: {x: 1}\ndraft: true\n---\n# Head\n", "A page",
			"# Head\n", "map[date:2026-11-20 draft:true tags:a, b]"},
		"toml": {"+++\ntitle = \"T\"\ndate = 2026-11-20\ntags = [\"x\"]\n+++\ntext", "T", "text",
			"map[date:2026-11-20 tags:x]"},
		"times as they are written": {"---\nvalid_from: 2026-01-01T00:00:00+02:00\nvalid_until: 2026-01-01T00:00:00Z\n---\n",
			"", "", "map[valid_from:2026-01-01T00:00:00+02:00 valid_until:2026-01-01T00:00:00Z]"},
		"times of toml": {"+++\na = 2026-01-01T00:00:00Z\nb = 2026-01-01T00:00:00\nc = 00:00:00\nd = 2026-01-01\n+++\n",
			"", "", "map[a:2026-01-01T00:00:00Z b:2026-01-01T00:00:00 c:00:00:00 d:2026-01-01]"},
		"json":                       {"---json\n{\n\t\"title\": \"T\",\n\t\"n\": 1\n}\n---\ntext", "T", "text", "map[n:1]"},
		"a rule, no front matter":    {"---\n\nSome text\n\n---\nmore", "", "---\n\nSome text\n\n---\nmore", "map[]"},
		"no end":                     {"---\ntitle: x\n", "", "---\ntitle: x\n", "map[]"},
		"no YAML":                    {"---\na: [\n---\ntext", "", "---\na: [\n---\ntext", "map[]"},
		"anchors":                    {"---\na: &x 1\nb: *x\n---\ntext", "", "---\na: &x 1\nb: *x\n---\ntext", "map[]"},
		"only in the first line":     {"\n---\ntitle: x\n---\n", "", "\n---\ntitle: x\n---\n", "map[]"},
		"front matter and no text":   {"---\ntitle: x\n---\n", "x", "", "map[]"},
		"lines that end in a return": {"---\r\ntitle: x\r\n---\r\ntext", "x", "text", "map[]"},
	} {
		title, text, meta, err := documenttest.Read(c.content, document.Markdown)
		assert.True(t, err == nil && title == c.title && text == c.text && fmt.Sprint(meta) == c.meta,
			"%s: title %q, text %q, meta %v, %v", name, title, text, meta, err)
	}
	title, text, _, _ := documenttest.Read("---\ntitle: x\n---\n", document.Text)
	assert.True(t, title == "" && text != "", "plain text has no front matter: %q %q", title, text)
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

// Front matter is decoded where it is read, in no box: what is nested or repeated without end is text at once.
func TestFrontMatterThatTakesTheDecoderLongIsText(t *testing.T) {
	for name, content := range map[string]string{
		"braces":   "+++\na = " + strings.Repeat("{a=", 3900) + "1" + strings.Repeat("}", 3900) + "\n+++\ngood\n",
		"dots":     "+++\n" + strings.Repeat("a . ", 1000) + "a = 1\n+++\ngood\n",
		"quotes":   "+++\n" + strings.Repeat(`"a".`, 1000) + "a = 1\n+++\ngood\n",
		"a key":    "---\n" + strings.Repeat("a: b\n", 3000) + "---\ngood\n",
		"in a map": "---\nx:\n" + strings.Repeat("  <<: {a: 1}\n", 1000) + "---\ngood\n",
	} {
		doc, text, err := documenttest.ReadWhole(content, document.Markdown, "a.md", document.DefaultLimits())
		assert.True(t, err == nil && text == content && len(doc.Meta) == 0,
			"%s: %v, %d bytes, %v", name, err, len(text), doc.Meta)
	}
	for _, content := range []string{
		"+++\ntitle = \"1.2.3................................ \\\" .\" # ...................................\n+++\ngood",
		"---\ntitle: a . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . . .\n---\ngood",
	} {
		doc, err := readers.Parse(strings.NewReader(content), document.Markdown, "a.md", document.DefaultLimits())
		assert.True(t, err == nil && len(doc.Title) >= 30, "%v %q", err, doc.Title)
	}
}

// Of many headings that name nothing, none is looked at twice.
func TestManyHeadingsThatAreNoTitleCostLittle(t *testing.T) {
	for name, text := range map[string]string{
		"parts":    strings.Repeat("A paragraph before any heading. ", 30) + "\n" + strings.Repeat("## a\n", 9000),
		"no words": strings.Repeat("## .\n", 9000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		document.TitleOf("", text, document.Markdown, "notes.md", document.DefaultLimits())
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300*len(text)), name)
	}
}
