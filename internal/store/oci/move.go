package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
)

// Do does something with the target of the place. After an error that may heal it does it again.
func (p *Place) Do(ctx context.Context, op string, do func(context.Context) error) error {
	return retry.Do(ctx, func(ctx context.Context) error { return p.newFault(op, do(ctx)) })
}

// Resolve returns the descriptor of what a tag or digest names.
func (p *Place) Resolve(ctx context.Context, reference string) (out ocispec.Descriptor, err error) {
	err = p.Do(ctx, "find "+reference, func(ctx context.Context) error {
		out, err = p.Target.Resolve(ctx, reference)
		return err
	})
	return out, err
}

// Fetch gives take a reader of a blob, whose last byte comes once its digest is proven. After an error that may heal it
// begins again, so that take may be called several times.
func (p *Place) Fetch(ctx context.Context, blob ocispec.Descriptor, take func(io.Reader) error) error {
	return p.Do(ctx, "fetch "+blob.Digest.String(), func(ctx context.Context) error {
		body, err := p.Target.Fetch(ctx, blob)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		in := NewProven(body, blob, func(err error) error { return err })
		if err = take(in); in.err != nil {
			return in.err
		}
		return err
	})
}

// FetchBytes returns a blob of at most so many bytes.
func (p *Place) FetchBytes(ctx context.Context, blob ocispec.Descriptor, most int64) (raw []byte, err error) {
	if blob.Size > most {
		return nil, fault.TooLarge.At("fetch "+blob.Digest.String(), p.Name).
			Because(fmt.Sprintf("it has %d bytes, and at most %d are read of its kind", blob.Size, most))
	}
	err = p.Fetch(ctx, blob, func(in io.Reader) error {
		raw, err = io.ReadAll(in)
		return err
	})
	return raw, err
}

// Proven is a reader of a blob that gives its last bytes only once the digest is proven: who stores what it reads
// stores the whole blob, or sees an error.
type Proven struct {
	from    io.Reader
	sum     digest.Verifier
	left    int64
	explain func(error) error
	err     error // but io.EOF
}

// NewProven returns a reader that compares a blob with its descriptor. explain makes a fault of what goes wrong, which
// is content.ErrMismatchedDigest where the content is not that of the blob.
func NewProven(from io.Reader, blob ocispec.Descriptor, explain func(error) error) *Proven {
	sum := blob.Digest.Verifier()
	return &Proven{from: io.TeeReader(io.LimitReader(from, blob.Size), sum), sum: sum, left: blob.Size, explain: explain}
}

// Read implements io.Reader.
func (r *Proven) Read(out []byte) (int, error) {
	n, err := r.from.Read(out)
	r.left -= int64(n)
	if errors.Is(err, io.EOF) && r.left > 0 || r.left == 0 && !r.sum.Verified() {
		err = content.ErrMismatchedDigest
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = r.explain(err)
		return 0, r.err
	}
	return n, err
}

// newFault returns the fault of an error of the place, without the address that it was asked by: that may hold a token.
func (p *Place) newFault(op string, err error) error {
	if err == nil || fault.As(err) != nil || errors.Is(err, context.Canceled) {
		return err
	}
	var why any = err
	var refused *errcode.ErrorResponse
	var asked *url.Error
	status := 0
	if errors.As(err, &refused) {
		status = refused.StatusCode
		text := fmt.Sprintf("%d %s", status, http.StatusText(status))
		if len(refused.Errors) > 0 {
			text += ": " + refused.Errors.Error()
		}
		why = text
	} else if errors.As(err, &asked) {
		why = asked.Err
	}
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	code, advice := fault.StoreDown, "check that it runs and that this machine reaches it; the same command continues"
	switch {
	case status == http.StatusNotFound, is(errdef.ErrNotFound, fs.ErrNotExist):
		code, advice = fault.NotFound, "check the name and the tag"
	case status == http.StatusUnauthorized, status == http.StatusForbidden, is(fs.ErrPermission, fs.ErrExist):
		code, advice = fault.StoreDenied, p.advice
	case status == http.StatusRequestEntityTooLarge, status == http.StatusInsufficientStorage,
		is(syscall.ENOSPC, syscall.EDQUOT):
		code, advice = fault.StoreFull, "free space, or raise quota or largest blob; the same command continues"
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests,
		status >= http.StatusInternalServerError:
	case status != 0:
		code, advice = fault.StoreDenied, "the registry says why"
	case strings.Contains(err.Error(), "mismatch"): // of sizes and digests
		code, advice = fault.SegmentDamage,
			"push the image again; if the registry or a proxy changes content, ask its operator"
		if p.Local {
			advice = "delete the file that has the digest as name, then push the image again"
		}
	}
	return code.At(op, p.Name).Because(why).Advise(advice)
}
