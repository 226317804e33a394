package stage

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// pauses are waited out before an object that changed while it was read is read again.
var pauses = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1600 * time.Millisecond}

// ReadSteady reads an object of a corpus, and reads it again in the version that the store has then, as long as read
// says that it changed meanwhile (fault.Precondition): three times more, after growing pauses. One that goes on
// changing, or is gone by then, is fault.DocumentChanged. Other errors of read, and those of the store, are given as
// they are.
func ReadSteady(ctx context.Context, store blob.Store, seen blob.Info, read func(blob.Info) error) error {
	object := seen.Key
	for attempt := 0; ; attempt++ {
		err := read(seen)
		if !fault.Is(err, fault.Precondition) {
			return err
		}
		if attempt == len(pauses) {
			return fault.DocumentChanged.At("read", object).
				Because("it changed during every attempt to read it").
				Advise("run unweaver index again when nothing writes to it")
		}
		if err := retry.Wait(ctx, pauses[attempt]); err != nil {
			return err
		}
		if seen, err = store.Stat(ctx, object); fault.Is(err, fault.NotFound) {
			return fault.DocumentChanged.At("read", object).Because("it was removed while it was read")
		}
		if err != nil {
			return err
		}
	}
}

// Body is the content of an object in the version that its ETag names, hashed as it is read.
type Body struct {
	body  io.Closer
	plain io.Reader
	hash  hash.Hash
	read  int64 // bytes so far
	err   error // of reading; io.EOF at the end
}

// Open starts reading an object. Close it. One that its store packed (blob.Info.Encoding) is unpacked; where its bytes
// are not packed all the same, as behind servers that unpack by themselves, it is read as it is.
func Open(ctx context.Context, store blob.Store, info blob.Info) (*Body, error) {
	body, opened, err := store.Get(ctx, info.Key, blob.Range{Length: -1, Match: info.ETag})
	if err != nil {
		return nil, err
	}
	out := &Body{body: body, plain: ReadUntil(ctx, body), hash: sha256.New()}
	if opened.Encoding != blob.Gzip {
		return out, nil
	}
	peeked := bufio.NewReader(out.plain)
	head, _ := peeked.Peek(2) // reading it again gives the error
	out.plain, err = document.Gunzip(peeked, string(head) == "\x1f\x8b", info.Key, document.Limits{})
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	return out, nil
}

// ReadUntil returns a reader that ends with the error of a context as soon as it has one: what reads a long text stops.
func ReadUntil(ctx context.Context, from io.Reader) io.Reader { return until{ctx, from} }

type until struct {
	ctx  context.Context
	from io.Reader
}

func (u until) Read(out []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(out)
}

// Read implements io.Reader.
func (b *Body) Read(out []byte) (int, error) {
	n, err := b.plain.Read(out)
	b.hash.Write(out[:n])
	b.read += int64(n)
	if err != nil {
		b.err = err
	}
	return n, err
}

// Close implements io.Closer.
func (b *Body) Close() error { return b.body.Close() }

// digestStep is how much is read for a digest before it is reported.
const digestStep = 8 << 20

// Digest reads what was not read yet and gives the digest of all bytes, which is the version of a document. Of an
// object of gigabytes that takes longer than a unit may be silent (activities), so reported gets how many were read,
// every few of them; it may be nil.
func (b *Body) Digest(reported func(read int64)) (core.Digest, error) {
	for b.err == nil {
		_, _ = io.CopyN(io.Discard, b, digestStep) // b.err has the error
		if reported != nil && b.err == nil {
			reported(b.read)
		}
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return core.Digest{}, b.err
	}
	return core.Digest(b.hash.Sum(nil)), nil
}
