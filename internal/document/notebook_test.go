package document_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestANotebookIsReadAsMarkdown(t *testing.T) {
	cells := func(cells string) string {
		return `{"nbformat":4,"metadata":{"kernelspec":{"display_name":"Python 3","language":"python"},` +
			`"authors":[{"name":"Ada"}]},"cells":[` + cells + `]}`
	}
	long := strings.Repeat(`"row\n",`, 30) + `"end"`
	for name, c := range map[string]struct{ content, text, missing string }{
		"cells": {
			cells(`{"cell_type":"markdown","source":["# Tides\n","![h](data:image/png;base64,iVBORw0KGgo=) high"]},` +
				`{"cell_type":"code","source":"print(1)","outputs":[{"output_type":"stream","text":["\u001b[31m1\u001b[0m\n"]},` +
				`{"data":{"image/png":"iVBO","text/plain":"<Figure size 1x1>"}},{"data":{"text/html":"<table>"}},` +
				`{"data":{"text/markdown":["**b**"]}},{"ename":"E","evalue":"no","traceback":["x"]}]}`),
			"# Tides\n![h]() high\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n**b**\n\n```\nE: no\n```\n\n",
			"left out: pictures: 2, outputs of HTML without a text: 1",
		},
		"long output": {cells(`{"cell_type":"code","source":"~` + "```" + `~","outputs":[{"text":[` + long + `]}]}`),
			"````python\n~```~\n````\n\n```\n" + strings.Repeat("row\n", 20) + "…\n```\n\n", ""},
	} {
		doc, err := document.Parse(strings.NewReader(c.content), document.Notebook, "a.ipynb", document.Limits{})
		require.NoError(t, err, "%v %v", name, err)
		text, _ := io.ReadAll(doc.Text)
		if string(text) != c.text || doc.Missing != c.missing || doc.Meta["language"] != "python" || doc.Meta["author"] != "Ada" {
			t.Errorf("%s: %q, %q, %v", name, text, doc.Missing, doc.Meta)
		}
	}
	for _, broken := range []string{`{"nbformat":3,"worksheets":[]}`, `{"cells":]`, `{"nbformat":4,"cells":[{"source":7}]}`} {
		_, err := document.Parse(strings.NewReader(broken), document.Notebook, "a.ipynb", document.Limits{})
		assert.True(t, fault.Is(err, fault.Unreadable) && strings.Contains(err.Error(), "nbconvert"), "%s: %v", broken, err)
	}
}
