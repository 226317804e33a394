package document_test

import (
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/document"
)

func TestTheKindIsToldByTheName(t *testing.T) {
	for key, want := range map[string]struct {
		kind       document.Kind
		gz, hidden bool
		ok, rows   bool
	}{
		"a.txt":            {document.Text, false, false, true, false},
		"dir/A.TXT":        {document.Text, false, false, true, false},
		"a.md.gz":          {document.Markdown, true, false, true, false},
		"a.xhtml":          {document.HTML, false, false, true, false},
		"a.pdf":            {document.PDF, false, false, true, false},
		"a.docx":           {document.DOCX, false, false, true, false},
		"a.pptx":           {document.PPTX, false, false, true, false},
		"a.xlsx":           {document.XLSX, false, false, true, false},
		"a.epub":           {document.EPUB, false, false, true, false},
		"a.eml.gz":         {document.EML, true, false, true, false},
		"a.rst":            {document.RST, false, false, true, false},
		"a.json":           {document.JSON, false, false, true, false},
		"a.ndjson":         {document.JSONL, false, false, true, true},
		"a.CSV.GZ":         {document.CSV, true, false, true, true},
		"a.exe":            {"", false, false, false, false},
		"txt":              {"", false, false, false, false},
		"a.gz":             {"", true, false, false, false},
		".git/config.txt":  {"", false, true, false, false},
		"dir/.hidden.md":   {"", false, true, false, false},
		"dir.with/dots.md": {document.Markdown, false, false, true, false},
	} {
		kind, gz, hidden, ok := document.KindOf(key)
		if kind != want.kind || gz != want.gz || hidden != want.hidden || ok != want.ok || kind.HasRows() != want.rows {
			t.Errorf("%s: %q gz %v hidden %v ok %v", key, kind, gz, hidden, ok)
		}
	}
	for _, extension := range strings.Split(strings.TrimSuffix(document.Extensions, ", each also with .gz"), " ") {
		if _, _, _, ok := document.KindOf("a" + extension); !ok {
			t.Errorf("%s is said to be read", extension)
		}
	}
}
