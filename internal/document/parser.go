package document

import (
	"context"
	"io"
)

// Parser reads objects of types without rows. The text of what it gives is read under ctx: whoever asked cancels it
// when the text is not needed any more, and reads no more of it then.
type Parser interface {
	Parse(ctx context.Context, reader io.Reader, kind Kind, object string) (Doc, error)
}

type again struct{}

// Again has a document be parsed once more where the first try told nothing of the document: by a process that had no
// other before, where a Parser has processes.
func Again(ctx context.Context) context.Context { return context.WithValue(ctx, again{}, true) }

// IsAgain tells whether ctx is of Again.
func IsAgain(ctx context.Context) bool { return ctx.Value(again{}) != nil }

type withHidden struct{}

// WithHidden has a document be read with what it hides.
func WithHidden(ctx context.Context) context.Context {
	return context.WithValue(ctx, withHidden{}, true)
}

// IsWithHidden reports whether ctx is of WithHidden.
func IsWithHidden(ctx context.Context) bool { return ctx.Value(withHidden{}) != nil }

// Streams tells whether objects of the type are read as a stream, in bounded memory and by rules so simple that they
// need no process of their own.
func (k Kind) Streams() bool { return k == Text || k == Markdown || k == RST || k.HasRows() }
