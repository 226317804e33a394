package documenttest

import (
	"context"
	"io"

	"github.com/unweaver/unweaver/internal/document"
)

// Here parses in this process, where a document that breaks its parser breaks everything else with it.
type Here struct{ Limits document.Limits }

// Parse implements document.Parser.
func (h Here) Parse(ctx context.Context, reader io.Reader, kind document.Kind, object string) (document.Doc, error) {
	limits := h.Limits
	limits.Reading = document.ReadingOf(ctx)
	return document.Parse(reader, kind, object, limits)
}
