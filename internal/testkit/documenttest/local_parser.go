package documenttest

import (
	"context"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
)

// Here parses in this process, where a document that breaks its parser breaks everything else with it.
type Here struct{ Limits document.Limits }

// Parse implements document.Parser.
func (h Here) Parse(ctx context.Context, reader io.Reader, kind document.Kind, object string) (document.Doc, error) {
	limits := h.Limits
	limits.Reading = document.ReadingOf(ctx)
	return readers.Parse(reader, kind, object, limits)
}

// ReadWhole reads a document to the end of its text.
func ReadWhole(
	content string, kind document.Kind, object string, limits document.Limits,
) (document.Doc, string, error) {
	doc, err := readers.Parse(strings.NewReader(content), kind, object, limits)
	if err != nil {
		return doc, "", err
	}
	raw, err := io.ReadAll(doc.Text)
	return doc, string(raw), err
}

// Read returns what a document gives under the usual limits.
func Read(content string, kind document.Kind) (title, text string, meta map[string]string, err error) {
	doc, text, err := ReadWhole(content, kind, "dir/x", document.DefaultLimits())
	return doc.Title, text, doc.Meta, err
}
