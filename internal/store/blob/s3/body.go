package s3

import (
	"context"
	"errors"
	"io"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// resumes is how often a stream that broke off goes on where it was: an activity that reads thousands of objects over
// a bad connection would hardly ever end otherwise.
const resumes = 3

// body is an object's stream. Where its connection breaks it asks for the rest of the same version; other errors get
// their object and their kind.
type body struct {
	stream  io.ReadCloser
	s       *Store
	ctx     context.Context //nolint:containedctx // of the request that the body belongs to
	key     string
	etag    string
	at      int64 // in the object, of the next byte
	left    int64 // bytes that are to come
	resumed int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.stream.Read(p)
	b.at += int64(n)
	b.left -= int64(n)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	err = b.s.wrapError(b.ctx, "read", b.key, err)
	if b.left <= 0 || b.etag == "" || b.resumed == resumes || fault.KindOf(err) != fault.Transient {
		return n, err
	}
	b.resumed++
	rest, again := b.s.getObject(b.ctx, b.key, blob.Range{Offset: b.at, Length: b.left, Match: b.etag})
	if again != nil { // what broke the stream is reported: where the object has changed meanwhile, reading it again heals
		return n, err
	}
	_ = b.stream.Close()
	b.stream = rest.Body
	if n > 0 {
		return n, nil
	}
	return b.Read(p)
}

func (b *body) Close() error { return b.stream.Close() }
