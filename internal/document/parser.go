package document

import (
	"context"
	"io"
)

// Parser reads objects of types without rows. The text of what it gives is read under ctx: the caller cancels it
// when the text is not needed any more, and reads no more of it then.
type Parser interface {
	Parse(ctx context.Context, reader io.Reader, kind Kind, object string) (Doc, error)
}

// Converter makes Markdown of a whole file, in another process: pages end in a form feed on a line of its own. It calls
// onWait before each wait for that process.
type Converter interface {
	Convert(ctx context.Context, name string, raw []byte, onWait func()) (string, error)
}

type again struct{}

// WithRetry has a document be parsed once more where the first try says nothing of the document: by a process that had
// no other before, where a Parser has processes.
func WithRetry(ctx context.Context) context.Context { return context.WithValue(ctx, again{}, true) }

// IsRetry reports whether ctx is of Again.
func IsRetry(ctx context.Context) bool { return ctx.Value(again{}) != nil }

// Reading says what of an object is read. Nothing said, it is what the object shows.
type Reading struct {
	Hidden   bool       `json:"hidden,omitempty"`   // what it hides too
	Attached bool       `json:"attached,omitempty"` // each attachment is read by itself: one that cannot be is missing
	List     bool       `json:"list,omitempty"`     // nothing but the list of its attachments
	Part     Attachment `json:"part,omitzero"`      // nothing but this attachment, in this version if one is given
	Scans    string     `json:"scans,omitempty"`    // pages of a PDF that Doc.Scans lists: core.PagesScanned or PagesAll
	Pictures []int      `json:"pictures,omitempty"` // nothing but pictures of these pages of a PDF, in Doc.Pictures
}

// SkipsText reports whether the text of the object itself is not asked for.
func (r Reading) SkipsText() bool { return r.List || r.Part.Name != "" }

type withReading struct{}

// WithReading has objects be read so.
func WithReading(ctx context.Context, reading Reading) context.Context {
	return context.WithValue(ctx, withReading{}, reading)
}

// ReadingOf returns the Reading that ctx has.
func ReadingOf(ctx context.Context) Reading {
	reading, _ := ctx.Value(withReading{}).(Reading)
	return reading
}

// IsStreamed reports whether objects of the type are read as a stream, in bounded memory and by rules so simple that
// they need no process of their own.
func (k Kind) IsStreamed() bool { return k == Text || k == Markdown || k == RST || k.HasRows() }
