package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
)

// Least is how many bytes of a blob move within the patience of a place: 1 KiB in each second of a minute.
const Least = 60 << 10

// Resolve returns the descriptor of what a tag or digest names.
func (p *Place) Resolve(ctx context.Context, reference string) (out ocispec.Descriptor, err error) {
	err = retry.Do(ctx, func(ctx context.Context) error {
		out, err = p.target.Resolve(ctx, reference)
		return p.newFault("find "+reference, err)
	})
	return out, err
}

// TagManifest names a manifest that the place holds.
func (p *Place) TagManifest(ctx context.Context, manifest ocispec.Descriptor, tag string) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		return p.newFault("tag "+tag, p.target.(content.Tagger).Tag(ctx, manifest, tag))
	})
}

// Push sends a blob that the place does not have yet, and reports whether it sent it. What open gives is compared with
// the digest on the way. moved is called with the bytes that were sent.
func (p *Place) Push(
	ctx context.Context, blob ocispec.Descriptor, open func(context.Context) (io.ReadCloser, error), moved func(int),
) (sent bool, err error) {
	err = retry.Do(ctx, func(ctx context.Context) error {
		there, err := p.target.Exists(ctx, blob)
		if err != nil || there {
			return p.newFault("look for", err)
		}
		watched, read, end := p.watch(ctx, blob.Size, moved)
		defer end()
		body, err := open(watched)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		in := NewChecked(blob, body, read)
		err = p.target.(content.Pusher).Push(watched, blob, in)
		if errors.Is(err, errdef.ErrAlreadyExists) {
			return nil
		}
		if sent = err == nil; in.wrong != nil { // what was to be sent is damaged here
			return in.wrong
		}
		return p.newFault("send "+blob.Digest.String(), causeOf(watched, err))
	})
	return sent, err
}

// PushBytes sends a blob that lies in memory.
func (p *Place) PushBytes(ctx context.Context, blob ocispec.Descriptor, raw []byte) (bool, error) {
	return p.Push(ctx, blob, func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(raw)), nil
	}, func(int) {})
}

// Fetch gives take a reader of a blob, whose last byte comes once its digest is proven. After an error that may heal it
// begins again, so that take may be called several times. moved is called with the bytes that came.
func (p *Place) Fetch(ctx context.Context, blob ocispec.Descriptor, take func(io.Reader) error, moved func(int)) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		watched, read, end := p.watch(ctx, blob.Size, moved)
		defer end()
		body, err := p.target.Fetch(watched, blob)
		if err != nil {
			return p.newFault("fetch "+blob.Digest.String(), causeOf(watched, err))
		}
		defer func() { _ = body.Close() }()
		in := NewChecked(blob, body, read)
		err = take(in)
		switch {
		case in.wrong != nil:
			return fault.SegmentDamage.At("fetch", p.Name).Because(in.wrong).
				Advise("push the image again; if the registry or a proxy changes content, ask its operator")
		case in.failed != nil:
			return p.newFault("fetch "+blob.Digest.String(), causeOf(watched, in.failed))
		}
		return err
	})
}

// FetchBytes returns a blob of at most so many bytes.
func (p *Place) FetchBytes(ctx context.Context, blob ocispec.Descriptor, most int64) (raw []byte, err error) {
	if blob.Size < 0 || blob.Size > most {
		return nil, fault.TooLarge.At("fetch "+blob.Digest.String(), p.Name).
			Because(fmt.Sprintf("it has %d bytes, and at most %d are read of its kind", blob.Size, most))
	}
	err = p.Fetch(ctx, blob, func(in io.Reader) error {
		raw, err = io.ReadAll(in)
		return err
	}, func(int) {})
	return raw, err
}

// watch ends the context that it gives where fewer than Least bytes of a blob move within the patience of the place.
func (p *Place) watch(ctx context.Context, size int64, moved func(int)) (context.Context, func(int), func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var bytes atomic.Int64
	before := int64(0)
	ticker := time.NewTicker(p.patience)
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-ticker.C:
				now := bytes.Load()
				if now >= size { // what is left is an answer, or a store
					return
				}
				got := now - before
				if before = now; got < Least {
					cancel(fmt.Errorf("only %d bytes moved within %s", got, p.patience))
				}
			}
		}
	}()
	return watched, func(n int) { bytes.Add(int64(n)); moved(n) }, func() { cancel(context.Canceled) }
}

// causeOf returns why a context ended, where that is what an error is about.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// Checked is a reader of a blob that gives its last bytes only once the digest is proven: who stores what it reads
// stores the whole blob, or sees an error.
type Checked struct {
	name   string
	from   io.Reader
	sum    hash.Hash
	left   int64
	moved  func(int)
	wrong  error // the bytes are not the blob
	failed error // the source failed
	proven bool
}

// NewChecked returns a reader that compares a blob with its descriptor.
func NewChecked(blob ocispec.Descriptor, from io.Reader, moved func(int)) *Checked {
	return &Checked{name: blob.Digest.String(), from: from, sum: sha256.New(), left: blob.Size, moved: moved}
}

// Read implements io.Reader.
func (c *Checked) Read(out []byte) (n int, err error) {
	if c.wrong == nil && c.left > 0 && len(out) > 0 {
		n, err = c.from.Read(out[:min(int64(len(out)), c.left)])
		_, _ = c.sum.Write(out[:n]) // never fails
		c.left -= int64(n)
		c.moved(n)
	}
	switch {
	case c.wrong != nil:
		return 0, c.wrong
	case c.left == 0 && !c.proven && "sha256:"+hex.EncodeToString(c.sum.Sum(nil)) != c.name:
		c.wrong = fault.SegmentDamage.At("read", c.name).Because("the content does not match this digest")
		return 0, c.wrong
	case c.left == 0 && n == 0:
		return 0, io.EOF
	case c.left == 0:
		c.proven = true
		return n, nil
	case errors.Is(err, io.EOF):
		c.wrong = fault.SegmentDamage.At("read", c.name).Because(fmt.Sprintf("it ends %d bytes early", c.left))
		return 0, c.wrong
	case err != nil:
		c.failed = err
	}
	return n, err
}

// newFault returns the fault of an error of the place, without the address that it was asked by: that may hold a token.
func (p *Place) newFault(op string, err error) error {
	var refused *errcode.ErrorResponse
	var asked *url.Error
	switch {
	case err == nil || fault.As(err) != nil || errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &refused):
		return p.newRefusal(op, refused)
	case errors.As(err, &asked):
		err = asked.Err
	}
	code, advice := fault.StoreDown, "check that it runs and that this machine reaches it; the same command continues"
	switch {
	case errors.Is(err, errdef.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		code, advice = fault.NotFound, "check the name and the tag"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrExist):
		code, advice = fault.StoreDenied, p.advice
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		code, advice = fault.StoreFull, "free space, then run the same command: it continues"
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrInvalidDescriptorSize),
		strings.Contains(err.Error(), "mismatch"): // of sizes and digests, which have no error of their own
		code, advice = fault.SegmentDamage, "push the image again"
	}
	return code.At(op, p.Name).Because(err).Advise(advice)
}

// newRefusal returns the fault of an answer that is no success.
func (p *Place) newRefusal(op string, answer *errcode.ErrorResponse) error {
	why := fmt.Sprintf("%d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	if len(answer.Errors) > 0 {
		why += ": " + answer.Errors.Error()
	}
	code, advice := fault.StoreDenied, "the registry says why"
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		advice = p.advice
	case http.StatusNotFound:
		code, advice = fault.NotFound, "check the name and the tag"
	case http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		code, advice = fault.StoreFull, "raise the quota or the largest blob of the registry; the same command continues"
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		code, advice = fault.StoreDown, "the same command continues"
	default:
		if answer.StatusCode >= http.StatusInternalServerError {
			code, advice = fault.StoreDown, "ask the operator of the registry; the same command continues"
		}
	}
	return code.At(op, p.Name).Because(why).Advise(advice)
}
