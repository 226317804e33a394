package document_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// protected.pdf is one blank page, encrypted with a user password.
func TestAPasswordProtectedPDFIsNamed(t *testing.T) {
	file, err := os.Open("testdata/protected.pdf")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	_, err = document.Parse(file, document.PDF, "protected.pdf")
	if !fault.Is(err, fault.Encrypted) || !strings.Contains(err.Error(), "protected.pdf") ||
		!strings.Contains(err.Error(), "password") {
		t.Errorf("got %v", err)
	}
}

func TestHTMLKeepsTablesAndDropsScripts(t *testing.T) {
	doc, err := document.Parse(
		strings.NewReader(
			"<title> A  page </title><script>alert(1)</script><h1>Head</h1><table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>b</td></tr></table>",
		),
		document.HTML,
		"x.html",
	)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(doc.Text)
	if err != nil || doc.Title != "A page" || strings.Contains(string(b), "alert") ||
		!strings.Contains(string(b), "| a") {
		t.Errorf("%q %q %v", doc.Title, b, err)
	}
}

func TestTitles(t *testing.T) {
	for _, c := range []struct{ given, head, kind, want string }{
		{"Given", "# Head", "markdown", "Given"},
		{"", "\n\nintro\n\n## Head one\n", "markdown", "Head one"},
		{"", "A first line\nmore", "text", "A first line"},
		{"", "Page 1 of 4\n\nThe report\n", "pdf", "The report"},
		{"", strings.Repeat("long ", 50) + "\nshort", "text", "name.txt"},
		{"", "", "text", "name.txt"},
	} {
		if got := document.TitleOf(c.given, c.head, document.Kind(c.kind), "dir/name.txt"); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestRowsHaveStableIdentitiesAndMetadata(t *testing.T) {
	rows := func(s string, k document.Kind) []document.Row {
		var out []document.Row
		if err := document.Rows(strings.NewReader(s), k, "f", func(r document.Row) error { out = append(out, r); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	a := rows(`{"text":"x","n":1,"id":7}`+"\n"+`{"b":2,"a":"y"}`, document.JSONL)
	b := rows(`{"id":7,"n":1,"text":"x"}`+"\n"+`{"a":"y","b":2}`, document.JSONL)
	for i := range a {
		if a[i].ID != b[i].ID || string(a[i].Canonical) != string(b[i].Canonical) {
			t.Errorf("row %d depends on the order of its fields", i)
		}
	}
	if a[0].ID != "7" || len(a[1].ID) != 64 || a[1].Line != 2 {
		t.Errorf("%+v", a)
	}
	title, text, meta, err := document.Record(a[0].Canonical)
	if err != nil || title != "" || text != "x" || meta["n"] != "1" {
		t.Errorf("%q %q %v %v", title, text, meta, err)
	}
	c := rows("id,title,text,year\n1,T,\"a\nb\",1999\n", document.CSV)
	if title, text, meta, _ = document.Record(c[0].Canonical); c[0].ID != "1" || title != "T" || text != "a\nb" ||
		meta["year"] != "1999" {
		t.Errorf("%+v", c)
	}
}
