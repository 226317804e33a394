// Package artifact lays out what the artifact store holds (DESIGN §7): paths, segments named by content, scratch files of
// runs, manifests and the pointer. It knows no technology; blob.Store does.
package artifact

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"os"
	"path"

	"github.com/unweaver/unweaver/internal/blob"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/wire"
)

// Index is the part of the store that belongs to one index.
type Index struct {
	Store blob.Store
	Name  string
}

func (x Index) key(parts ...string) string { return path.Join(append([]string{x.Name}, parts...)...) }

// SegmentKey of a content address.
func (x Index) SegmentKey(sha string) string { return x.key("segments", sha) }

// CurrentKey is the pointer: the authority on what is served.
func (x Index) CurrentKey() string { return x.key("current.json") }

// LeaseKey says who builds.
func (x Index) LeaseKey() string { return x.key("lease.json") }

// GenerationKey is a file of a generation.
func (x Index) GenerationKey(gen, file string) string { return x.key("generations", gen, file) }

// SpecKey is a stored configuration.
func (x Index) SpecKey(d corpus.Digest) string { return x.key("specs", d.String()+".json") }

// RunKey is a scratch file of a run; scratch is deleted after publication.
func (x Index) RunKey(gen string, parts ...string) string {
	return x.key(append([]string{"runs", gen}, parts...)...)
}

// Current reads the pointer. An index that was never published has the zero pointer and no error.
func (x Index) Current(ctx context.Context) (corpus.Pointer, string, error) {
	var p corpus.Pointer
	in, err := blob.ReadJSON(ctx, x.Store, x.CurrentKey(), &p)
	if fault.Is(err, fault.NotFound) {
		return corpus.Pointer{}, "", nil
	}
	return p, in.ETag, err
}

// Manifest reads a manifest by content address and checks it.
func (x Index) Manifest(ctx context.Context, sha string) (*corpus.Manifest, error) {
	b, _, err := blob.Read(ctx, x.Store, x.SegmentKey(sha))
	if err != nil {
		return nil, err
	}
	if s := sha256.Sum256(b); hex.EncodeToString(s[:]) != sha {
		return nil, fault.New(fault.SegmentDamage, fault.Fatal, "read manifest", x.Store.Location(x.SegmentKey(sha)), "content differs from its name", "publish another generation")
	}
	m := new(corpus.Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fault.New(fault.SegmentDamage, fault.Fatal, "read manifest", sha, err, "publish another generation")
	}
	if m.Format > corpus.ManifestFormat {
		return nil, fault.New(fault.SegmentDamage, fault.Fatal, "read manifest", m.Generation, "it is of a newer format", "update this program")
	}
	return m, nil
}

// GenerationRef reads generations/<gen>/manifest.json.
func (x Index) GenerationRef(ctx context.Context, gen string) (corpus.GenerationRef, error) {
	var r corpus.GenerationRef
	_, err := blob.ReadJSON(ctx, x.Store, x.GenerationKey(gen, "manifest.json"), &r)
	if fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.UnknownGen, fault.Bad, "open generation", gen, "index "+x.Name+" has none of that name", "list them with: unweaver generations --index "+x.Name)
	}
	return r, err
}

// PutManifest stores a manifest under its content address.
func (x Index) PutManifest(ctx context.Context, m *corpus.Manifest) (string, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return "", fault.New(fault.Internal, fault.Fatal, "encode manifest", m.Generation, err, "")
	}
	s := sha256.Sum256(b)
	sha := hex.EncodeToString(s[:])
	return sha, putOnce(ctx, x.Store, x.SegmentKey(sha), bytes.NewReader(b), int64(len(b)))
}

func putOnce(ctx context.Context, s blob.Store, key string, r io.Reader, n int64) error {
	_, err := s.Put(ctx, key, r, n, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return nil // equal names are equal bytes
	}
	return err
}

// Spec reads a stored configuration.
func (x Index) Spec(ctx context.Context, d corpus.Digest) (corpus.Spec, error) {
	var s corpus.Spec
	_, err := blob.ReadJSON(ctx, x.Store, x.SpecKey(d), &s)
	return s, err
}

// PutSpec stores a configuration under its digest.
func (x Index) PutSpec(ctx context.Context, s corpus.Spec) (corpus.Digest, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return corpus.Digest{}, fault.New(fault.Internal, fault.Fatal, "encode spec", s.Index, err, "")
	}
	d := corpus.Digest(sha256.Sum256(b))
	return d, putOnce(ctx, x.Store, x.SpecKey(d), bytes.NewReader(b), int64(len(b)))
}

// StoreID is the random identity of an artifact store: made once, with If-None-Match.
func StoreID(ctx context.Context, s blob.Store) (string, error) {
	type doc struct {
		ID string `json:"id"`
	}
	var d doc
	_, err := blob.ReadJSON(ctx, s, "store.json", &d)
	if fault.Is(err, fault.NotFound) {
		raw := make([]byte, 16)
		_, _ = rand.Read(raw) // never fails
		_, err = blob.WriteJSON(ctx, s, "store.json", doc{hex.EncodeToString(raw)}, blob.Cond{Absent: true})
		if err == nil || fault.Is(err, fault.Precondition) {
			_, err = blob.ReadJSON(ctx, s, "store.json", &d)
		}
	}
	if err != nil {
		return "", err
	}
	if len(d.ID) != 32 {
		return "", fault.New(fault.SegmentDamage, fault.Fatal, "read", s.Location("store.json"), "it holds no store id", "restore the file from a backup")
	}
	return d.ID, nil
}

// File collects bytes in a temporary file, hashing as they come, until their name is known.
type File struct {
	f *os.File
	h hash.Hash
	n int64
}

// NewFile starts a temporary file.
func NewFile() (*File, error) {
	f, err := os.CreateTemp("", "unweaver-*")
	if err != nil {
		return nil, fault.New(fault.StoreFull, fault.Fatal, "make temporary file in", os.TempDir(), err, "free space or set TMPDIR")
	}
	return &File{f: f, h: sha256.New()}, nil
}

// Write implements io.Writer.
func (t *File) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)
	t.h.Write(b[:n])
	t.n += int64(n)
	if err != nil {
		return n, fault.New(fault.StoreFull, fault.Fatal, "write temporary file", t.f.Name(), err, "free space or set TMPDIR")
	}
	return n, nil
}

// Discard removes the file; call it always.
func (t *File) Discard() { _ = t.f.Close(); _ = os.Remove(t.f.Name()) }

// PutSegment stores the file under its content address and tells whether it was new.
func (t *File) PutSegment(ctx context.Context, x Index) (seg corpus.Segment, fresh bool, err error) {
	sha := hex.EncodeToString(t.h.Sum(nil))
	seg = corpus.Segment{SHA256: sha, Bytes: t.n}
	key := x.SegmentKey(sha)
	if in, err := x.Store.Stat(ctx, key); err == nil && in.Size == t.n {
		return seg, false, nil
	}
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return seg, false, err
	}
	err = putOnce(ctx, x.Store, key, t.f, t.n)
	return seg, err == nil, err
}

// Put stores the file under a key of its own.
func (t *File) Put(ctx context.Context, s blob.Store, key string) error {
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := s.Put(ctx, key, t.f, t.n, blob.Cond{})
	return err
}

// Rows writes a row file through a temporary file.
type Rows struct {
	*wire.Writer
	file *File
}

// NewRows starts one.
func NewRows() (*Rows, error) {
	f, err := NewFile()
	if err != nil {
		return nil, err
	}
	return &Rows{wire.NewWriter(f), f}, nil
}

// Discard removes the temporary file; call it always.
func (r *Rows) Discard() { r.file.Discard() }

// Segment ends the file and stores it by content.
func (r *Rows) Segment(ctx context.Context, x Index, part int) (corpus.Segment, bool, error) {
	if err := r.Close(); err != nil {
		return corpus.Segment{}, false, err
	}
	seg, fresh, err := r.file.PutSegment(ctx, x)
	seg.Rows, seg.Part = r.Rows(), part
	return seg, fresh, err
}

// Scratch ends the file and stores it under a key.
func (r *Rows) Scratch(ctx context.Context, s blob.Store, key string) error {
	if err := r.Close(); err != nil {
		return err
	}
	return r.file.Put(ctx, s, key)
}
