// Package oci is the adapter over places that hold images by the OCI specifications: repositories of registries,
// folders and tar files. It moves blobs and names them; what an image contains is for pipeline/image.
package oci

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
	Name       string // for people, without the tag
	Repository string // what a signature names
	Tag        string
	Local      bool // it is a path

	target oras.ReadOnlyTarget
	close  func() error
	advice string // where the place refuses
}

// Open opens a place.
func Open(ctx context.Context, o Options) (*Place, error) {
	place := &Place{Tag: o.Tag, close: func() error { return nil }}
	if strings.HasPrefix(o.Where, Scheme) {
		return place, place.openRegistry(o)
	}
	if place.Tag == "" {
		place.Tag = Latest
	}
	place.Name, place.Repository, place.Local = o.Where, filepath.Base(o.Where), true
	place.advice = "check the owner and mode of the path"
	if o.Create {
		return place, place.createFile(ctx, o.Where)
	}
	info, err := os.Stat(o.Where)
	if err != nil {
		return place, place.newFault("open image", err)
	}
	if info.IsDir() {
		place.target, err = oci.NewFromFS(ctx, os.DirFS(o.Where))
	} else {
		place.target, err = oci.NewFromTar(ctx, o.Where)
	}
	if err != nil {
		return place, fault.InvalidParam.At("open image", o.Where).
			Because(err).
			Advise("give a folder or tar file in OCI layout, such as one that unweaver export wrote")
	}
	return place, nil
}

// createFile opens a folder that is empty or holds images already, or begins a tar file.
func (p *Place) createFile(ctx context.Context, path string) error {
	if strings.HasSuffix(path, ".tar") {
		return p.createTar(ctx, path)
	}
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p.newFault("write image", err)
	}
	if _, err := os.Stat(filepath.Join(path, ocispec.ImageLayoutFile)); err != nil && len(entries) > 0 {
		return fault.InvalidParam.At("write image", path).
			Because("the folder has files and is no OCI layout").
			Advise("name an empty folder, a new one, or a file that ends in .tar")
	}
	p.target, err = oci.NewWithContext(ctx, path)
	return p.newFault("write image", err)
}

// openRegistry prepares a client of a repository. It asks the registry for nothing.
func (p *Place) openRegistry(o Options) error {
	name := strings.TrimPrefix(o.Where, Scheme)
	if user, _, _ := strings.Cut(name, "@sha256:"); strings.Contains(user, "@") || strings.Contains(user, "%") {
		return fault.Usage.At("read the address", Scheme+"...").
			Because("it holds a user or a password").
			Advise("write it as oci://HOST/NAME:TAG, and log in by: docker login HOST")
	}
	ref, err := registry.ParseReference(name)
	if err == nil && ref.Reference == "" {
		err = errors.New("it names no tag")
	}
	if err != nil {
		return fault.Usage.At("read the address", fault.QuoteName(o.Where)).
			Because(err).
			Advise("write it as oci://HOST/NAME:TAG")
	}
	if o.PlainHTTP && !isLoopback(ref.Host()) {
		return fault.Usage.At("ask", ref.Host()).
			Because("--plain-http is for a registry on this machine, and sends passwords readable for all").
			Advise("use HTTPS")
	}
	known, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return fault.BadConfig.At("read", "the configuration of docker").
			Because(err).
			Advise("correct config.json in ~/.docker, or in the folder that DOCKER_CONFIG names")
	}
	ask := credentials.Credential(known)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = dialPatiently(cmp.Or(o.Patience, 2*time.Minute))
	p.Name, p.Repository = Scheme+ref.Registry+"/"+ref.Repository, ref.Registry+"/"+ref.Repository
	p.Tag = ref.Reference
	p.advice = "log in with an account that may do this: docker login " + ref.Registry
	p.target = &remote.Repository{
		Reference: ref, PlainHTTP: o.PlainHTTP, SkipReferrersGC: true,
		Client: &auth.Client{
			Client: &http.Client{Transport: transport}, Cache: auth.NewCache(),
			Credential: func(ctx context.Context, host string) (auth.Credential, error) {
				found, err := ask(ctx, host)
				redact.Register(found.Password, found.RefreshToken, found.AccessToken)
				return found, err
			},
		},
	}
	return nil
}

// patientConn is a connection that fails once no byte moves for a while.
type patientConn struct {
	net.Conn
	patience time.Duration
}

// Read implements net.Conn.
func (c patientConn) Read(out []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.patience)) // what fails is seen by Read
	return c.Conn.Read(out)
}

// Write implements net.Conn. It gives the answer more time too.
func (c patientConn) Write(raw []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.patience)) // what fails is seen by Write
	return c.Conn.Write(raw)
}

// dialPatiently returns a dialer of such connections.
func dialPatiently(patience time.Duration) func(context.Context, string, string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: patience}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return patientConn{connection, patience}, nil
	}
}

// isLoopback reports whether a host is this machine by its name.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return hostinfo.IsLoopback(host)
}

// Address returns the place with the tag of its image.
func (p *Place) Address() string { return p.Name + ":" + p.Tag }

// Close ends what was written.
func (p *Place) Close() error { return p.newFault("write image", p.close()) }
