// Package oci is the adapter over places that hold images by the OCI specifications: repositories of registries,
// folders and tar files. What an image contains is for pipeline/image.
package oci

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/stall"
)

// Scheme begins the address of an image in a registry: oci://HOST/NAME:TAG.
const Scheme = "oci://"

// Latest is the tag of the image in a folder or tar file.
const Latest = "latest"

// Options say how a place is opened.
type Options struct {
	Where    string        // oci://HOST/NAME:TAG, or a path
	Create   bool          // write a folder or tar file that does not exist yet
	Patience time.Duration // after which a registry that moves no byte counts as down; 0: two minutes
}

// Place holds images. Close it.
type Place struct {
	Target     oras.ReadOnlyTarget // an oras.Target where it was opened with Create, or is a registry
	Address    string              // that it was opened by
	Name       string              // for people, without the tag
	Repository string              // what a signature names
	Tag        string
	Local      bool // it is a path

	close  func() error
	advice string // where the place refuses
}

// scheme is what an address begins with that is no path.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:/`)

// ParseAddress returns the reference of an image in a registry; local: the address is a path. No part of an address
// that is refused is repeated, as it may hold a password.
func ParseAddress(where string) (ref registry.Reference, local bool, err error) {
	refused := fault.Usage.At("read the address", Scheme+"...")
	advice := "write it as oci://HOST/NAME:TAG, and log in by docker login HOST; or give a path"
	name, found := strings.CutPrefix(where, Scheme)
	if !found {
		if scheme.MatchString(where) {
			return ref, false, refused.Because("it begins with a scheme that is not oci://").Advise(advice)
		}
		return ref, true, nil
	}
	if user, _, _ := strings.Cut(name, "@sha256:"); strings.ContainsAny(user, "@%") {
		return ref, false, refused.Because("it holds a user or a password").Advise(advice)
	}
	ref, err = registry.ParseReference(name)
	if err != nil || ref.Reference == "" {
		return ref, false, refused.Because("it has no valid host, name or tag").Advise(advice)
	}
	return ref, false, nil
}

// Open opens a place.
func Open(ctx context.Context, o Options) (*Place, error) {
	ref, local, err := ParseAddress(o.Where)
	if err != nil {
		return nil, err
	}
	if !local {
		return openRegistry(ref, o)
	}
	place := &Place{
		Address: o.Where, Name: o.Where, Repository: filepath.Base(o.Where), Tag: Latest, Local: true,
		close: func() error { return nil }, advice: "check the owner and mode of the path",
	}
	if o.Create {
		return place, place.newFault("write image", place.create(ctx, o.Where))
	}
	info, err := os.Stat(o.Where)
	if err != nil {
		return place, place.newFault("open image", err)
	}
	if info.IsDir() {
		place.Target, err = oci.NewFromFS(ctx, os.DirFS(o.Where))
	} else {
		place.Target, err = oci.NewFromTar(ctx, o.Where)
	}
	if err != nil {
		return place, fault.InvalidParam.At("open image", o.Where).
			Because(err).
			Advise("give a folder or tar file in OCI layout, such as one that unweaver export wrote")
	}
	return place, nil
}

// create opens a folder that is empty or holds images already. Of a tar file it is a new folder beside it: Close makes
// the file of it where the image is named, and removes the folder.
func (p *Place) create(ctx context.Context, path string) error {
	entries, err := os.ReadDir(path)
	packed := strings.HasSuffix(path, ".tar")
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !packed {
		return err
	}
	if packed {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fault.Usage.At("write image", path).Because("the file exists").Advise("remove it, or choose another name")
		}
		if path, err = os.MkdirTemp(filepath.Dir(path), ".unweaver-*"); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(path, ocispec.ImageLayoutFile)); err != nil && len(entries) > 0 {
		return fault.InvalidParam.At("write image", path).
			Because("the folder has files and is no OCI layout").
			Advise("name an empty folder, a new one, or a file that ends in .tar")
	}
	store, err := oci.NewWithContext(ctx, path)
	p.Target = store
	if packed {
		p.close = func() (err error) {
			if _, unnamed := store.Resolve(ctx, p.Tag); unnamed == nil {
				err = writeTar(path, p.Name)
			}
			return errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// writeTar writes the images of a folder as a tar file, which has its name once it is whole.
func writeTar(folder, path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".unweaver-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // it is gone where it was renamed
	out := tar.NewWriter(file)
	err = errors.Join(out.AddFS(os.DirFS(folder)), out.Close(), file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// openRegistry prepares a client of a repository, by HTTP where it is on this machine. It sends no request.
func openRegistry(ref registry.Reference, o Options) (*Place, error) {
	known, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fault.BadConfig.At("read", "the configuration of docker").
			Because(err).
			Advise("correct config.json in ~/.docker, or in the folder that DOCKER_CONFIG names")
	}
	ask := credentials.Credential(known)
	client := &auth.Client{
		Client: &http.Client{Transport: stall.Guard{
			Send: http.DefaultTransport.RoundTrip, Limit: cmp.Or(o.Patience, 2*time.Minute),
		}},
		Cache: auth.NewCache(),
		Credential: func(ctx context.Context, host string) (auth.Credential, error) {
			found, err := ask(ctx, host)
			redact.Register(found.Password, found.RefreshToken, found.AccessToken)
			return found, err
		},
	}
	return &Place{
		Target: &remote.Repository{
			Reference: ref, SkipReferrersGC: true, Client: client,
			PlainHTTP: hostinfo.IsLoopback((&url.URL{Host: ref.Host()}).Hostname()),
		},
		Address: o.Where, Name: Scheme + ref.Registry + "/" + ref.Repository, Repository: ref.Registry + "/" + ref.Repository,
		Tag: ref.Reference, close: func() error { return nil },
		advice: "log in with an account that may do this: docker login " + ref.Registry,
	}, nil
}

// Close ends what was written.
func (p *Place) Close() error { return p.newFault("write image", p.close()) }

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
	if err := blob.Digest.Validate(); err != nil {
		return fault.SegmentDamage.At("fetch from", p.Name).Because(err).Advise("push the image again")
	}
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
	case status == http.StatusBadRequest && len(refused.Errors) == 0:
		code, advice = fault.StoreDenied,
			"one on this machine is asked by HTTP: use one without TLS, or another name of its host"
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
