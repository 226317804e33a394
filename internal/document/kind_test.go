package document_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
)

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
