// Package oci is the adapter over places that hold images by the OCI specifications: repositories of registries,
// folders and tar files. What an image contains is for pipeline/image.
package oci

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/store/stall"
)

// Scheme begins the address of an image in a registry: oci://HOST/NAME:TAG.
const Scheme = "oci://"

// Latest is the tag of an image in a folder or tar file where none is named.
const Latest = "latest"

// Options say how a place is opened.
type Options struct {
	Where     string        // oci://HOST/NAME:TAG, or a path
	Tag       string        // of a path; empty: Latest
	Create    bool          // write a folder or tar file that does not exist yet
	PlainHTTP bool          // ask a registry on this machine by HTTP
	Patience  time.Duration // after which a registry that moves no byte counts as down; 0: two minutes
}

// Place holds images. Close it.
type Place struct {
	Target     oras.ReadOnlyTarget // an oras.Target where it was opened with Create, or is a registry
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
		Name: o.Where, Repository: filepath.Base(o.Where), Tag: cmp.Or(o.Tag, Latest), Local: true,
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
	if packed {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fault.Usage.At("write image", path).Because("the file exists").Advise("remove it, or choose another name")
		}
		path, err = os.MkdirTemp(filepath.Dir(path), ".unweaver-*")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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

// openRegistry prepares a client of a repository. It asks the registry for nothing.
func openRegistry(ref registry.Reference, o Options) (*Place, error) {
	if o.PlainHTTP && !hostinfo.IsLoopback((&url.URL{Host: ref.Host()}).Hostname()) {
		return nil, fault.Usage.At("ask", ref.Host()).
			Because("--plain-http is for a registry on this machine, and sends passwords readable for all").
			Advise("use HTTPS")
	}
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
		Target: &remote.Repository{Reference: ref, PlainHTTP: o.PlainHTTP, SkipReferrersGC: true, Client: client},
		Name:   Scheme + ref.Registry + "/" + ref.Repository, Repository: ref.Registry + "/" + ref.Repository,
		Tag: ref.Reference, close: func() error { return nil },
		advice: "log in with an account that may do this: docker login " + ref.Registry,
	}, nil
}

// Address returns what the place was opened by.
func (p *Place) Address() string {
	if p.Local {
		return p.Name
	}
	return p.Name + ":" + p.Tag
}

// Close ends what was written.
func (p *Place) Close() error { return p.newFault("write image", p.close()) }
