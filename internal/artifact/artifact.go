// Package artifact lays out what the artifact store holds (docs/reference/formats.md, Artifacts): paths, segments named
// by content, scratch files of runs, manifests and the pointer. It knows no technology; blob.Store does.
package artifact

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/blobcache"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// Index is the part of the store that belongs to one index.
type Index struct {
	Store blob.Store
	Name  string
	// Doubt has PutSegment read what lies under a content's name already, and write it again where it is damaged. Else
	// its size is trusted.
	Doubt bool
}

// SegmentKey returns the key of a segment by its content address.
func (x Index) SegmentKey(sha string) string { return x.joinKey("segments", refuseSlash(sha)) }

// CurrentKey returns the key of the pointer: the authority on what is served.
func (x Index) CurrentKey() string { return x.joinKey("current.json") }

// LeaseKey says who builds.
func (x Index) LeaseKey() string { return x.joinKey("lease.json") }

// PulledKey returns the key of where what an index serves was pulled from.
func (x Index) PulledKey() string { return x.joinKey("pulled.json") }

// ScheduleKey returns the key of what the nights of the index build.
func (x Index) ScheduleKey() string { return x.joinKey("schedule.json") }

// BatchesKey returns the key under which the rounds of batches at model servers are recorded.
func (x Index) BatchesKey() string { return x.joinKey("batches") }

// NightsKey returns the key of what the last builds came to, for trends.
func (x Index) NightsKey() string { return x.joinKey("nights.json") }

// HintsKey returns the key of a file of what is kept of hints of changed objects; without a name, what the keys of a
// folder of it start with.
func (x Index) HintsKey(folder, name string) string {
	return x.joinKey("hints", folder, refuseSlash(name))
}

// BackfillKey returns the key of a file of a backfill; without one, what the keys of all files of it, or of all
// backfills, start with.
func (x Index) BackfillKey(name, file string) string {
	return x.joinKey("backfills", refuseSlash(name), file)
}

// GenerationKey returns the key of a file of a generation.
func (x Index) GenerationKey(gen, file string) string {
	return x.joinKey("generations", refuseSlash(gen), file)
}

// SpecKey returns the key of a stored configuration.
func (x Index) SpecKey(d core.Digest) string { return x.joinKey("specs", d.String()+".json") }

// SpecsPrefix returns what the keys of all stored configurations start with.
func (x Index) SpecsPrefix() string { return x.joinKey("specs") + "/" }

// RunKey returns the key of a scratch file of a run; scratch is deleted after publication.
func (x Index) RunKey(gen string, parts ...string) string {
	return x.joinKey(append([]string{"runs", refuseSlash(gen)}, parts...)...)
}

// ReadPointer reads the pointer. An index that was never published has the zero pointer and no error.
func (x Index) ReadPointer(ctx context.Context) (core.Pointer, string, error) {
	var pointer core.Pointer
	if err := x.Check(); err != nil {
		return pointer, "", err
	}
	in, err := blob.ReadJSON(ctx, x.Store, x.CurrentKey(), &pointer)
	if fault.Is(err, fault.NotFound) {
		return core.Pointer{}, "", nil
	}
	if err == nil && (pointer.Manifest == "" || pointer.Generation == "" || pointer.Epoch < 0) {
		err = fault.SegmentDamage.At("read", x.CurrentKey()).Because("it names no generation")
	}
	if fault.Is(err, fault.SegmentDamage) {
		err = x.damagedPointer(err)
	}
	return pointer, in.ETag, err
}

// Manifest reads a manifest by content address and checks it. One that is missing is fault.SegmentDamage like one that
// differs: something names it.
func (x Index) Manifest(ctx context.Context, sha string) (*core.Manifest, error) {
	raw, _, err := blob.Read(ctx, x.Store, x.SegmentKey(sha))
	if fault.Is(err, fault.NotFound) {
		return nil, fault.SegmentDamage.At("read manifest", x.Store.Location(x.SegmentKey(sha))).
			Because("it is missing").
			Advise(x.AdviseRebuild())
	}
	if err != nil {
		return nil, err
	}
	if s := sha256.Sum256(raw); hex.EncodeToString(s[:]) != sha {
		return nil, fault.SegmentDamage.At("read manifest", x.Store.Location(x.SegmentKey(sha))).
			Because("content differs from its name").
			Advise(x.AdviseRebuild())
	}
	manifest := new(core.Manifest)
	if err := json.Unmarshal(raw, manifest); err != nil {
		return nil, fault.SegmentDamage.At("read manifest", sha).Because(err).Advise(x.AdviseRebuild())
	}
	if manifest.Format != core.ManifestFormat {
		return nil, fault.SegmentDamage.At("read manifest", manifest.Generation).
			Because(fmt.Sprintf("it has format %d, and this program reads format %d", manifest.Format, core.ManifestFormat)).
			Advise("use the program version that wrote it, or " + x.AdviseRebuild())
	}
	counts := manifest.Counts
	if len(manifest.Segments.Splits) == 0 && (counts.Documents > 0 || counts.Chunks > 0) {
		return nil, fault.SegmentDamage.At("read manifest", manifest.Generation).
			Because(fmt.Sprintf("it counts %d documents and %d chunks and names no split", counts.Documents, counts.Chunks)).
			Advise(x.AdviseRebuild())
	}
	return manifest, nil
}

// ManifestOf reads the manifest that a pointer names, which must be of the generation that the pointer names. A pointer
// that names two is fault.SegmentDamage: a damaged one must not have one generation served under another's name.
func (x Index) ManifestOf(ctx context.Context, pointer core.Pointer) (*core.Manifest, error) {
	manifest, err := x.Manifest(ctx, pointer.Manifest)
	if err != nil {
		return nil, err
	}
	return manifest, x.CheckPointer(pointer, manifest)
}

// CheckPointer returns fault.SegmentDamage where a pointer and the manifest that it names are not of the same
// generation.
func (x Index) CheckPointer(pointer core.Pointer, manifest *core.Manifest) error {
	if pointer.Generation == manifest.Generation && pointer.Seq == manifest.Seq {
		return nil
	}
	return x.damagedPointer(fmt.Sprintf(
		"it says generation %.80q, number %d; the manifest that it names is of %q, number %d",
		pointer.Generation, pointer.Seq, manifest.Generation, manifest.Seq))
}

func (x Index) damagedPointer(why any) error {
	return fault.SegmentDamage.At("read", x.Store.Location(x.CurrentKey())).
		Because(why).
		Advise("rewrite it from the last published generation: unweaver restore " + x.Name)
}

// AdviseRebuild advises to make everything of the index again.
func (x Index) AdviseRebuild() string {
	return "rebuild it from paid results: unweaver index --rebuild --index " + x.Name
}

// IsIntact reports whether the bytes under a content's name are that content. An absent object is not. alive is called
// as bytes come in; nil is allowed.
func (x Index) IsIntact(ctx context.Context, sha string, alive func()) (bool, error) {
	body, _, err := blobcache.UnwrapMemory(x.Store).Get(ctx, x.SegmentKey(sha), blob.All)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, &signal{body, alive})
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	if err != nil && fault.As(err) == nil && ctx.Err() == nil {
		err = fault.StoreDown.At("read", x.Store.Location(x.SegmentKey(sha))).Because(err)
	}
	return err == nil && hex.EncodeToString(sum.Sum(nil)) == sha, err
}

// signal is a reader that reports that bytes come in.
type signal struct {
	io.Reader
	alive func()
}

func (t *signal) Read(raw []byte) (int, error) {
	if t.alive != nil {
		t.alive()
	}
	return t.Reader.Read(raw)
}

// GenerationRef reads generations/<gen>/manifest.json.
func (x Index) GenerationRef(ctx context.Context, gen string) (core.GenerationRef, error) {
	var ref core.GenerationRef
	_, err := blob.ReadJSON(ctx, x.Store, x.GenerationKey(gen, "manifest.json"), &ref)
	if fault.Is(err, fault.NotFound) {
		return ref, fault.UnknownGen.At("open generation", gen).
			Because("index " + x.Name + " has no generation with this name").
			Advise("list the generations with: unweaver generations " + x.Name)
	}
	return ref, err
}

// PutManifest stores a manifest under its content address.
func (x Index) PutManifest(ctx context.Context, m *core.Manifest) (string, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return "", fault.Internal.At("encode manifest", m.Generation).Because(err)
	}
	s := sha256.Sum256(raw)
	sha := hex.EncodeToString(s[:])
	return sha, putOnce(ctx, x.Store, x.SegmentKey(sha), bytes.NewReader(raw), int64(len(raw)))
}

func putOnce(ctx context.Context, s blob.Store, key string, r io.Reader, n int64) error {
	_, err := s.Put(ctx, key, r, n, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return nil // equal names are equal bytes
	}
	return err
}

const (
	// deleteBatch is how many objects one request deletes, which is what S3 takes.
	deleteBatch = 1000
	// deleteWidth is how many such requests are in flight.
	deleteWidth = 4
	// DeleteAtOnce is how many objects are worth gathering for one DeleteAll.
	DeleteAtOnce = deleteWidth * deleteBatch
)

// DeleteAll removes objects, 1,000 to a request, some requests at once and in no order. Absent ones are no error, so it
// may be repeated. Nothing is asked for any more once ctx has ended, even by its deadline alone: who may delete for a
// while only (the index's lease) says so by it, and what is in flight then ends with it.
func DeleteAll(ctx context.Context, store blob.Store, keys []string) error {
	batches := slices.Collect(slices.Chunk(keys, deleteBatch))
	if len(batches) == 0 {
		return nil
	}
	if err := blob.CheckContext(ctx); err != nil {
		return err
	}
	return parallel.Each(ctx, len(batches), deleteWidth, func(ctx context.Context, i int) error {
		if err := blob.CheckContext(ctx); err != nil {
			return err
		}
		return store.DeleteAll(ctx, batches[i])
	})
}

// Spec reads a stored configuration and checks that it is whole, and this index's.
func (x Index) Spec(ctx context.Context, d core.Digest) (core.Spec, error) {
	var spec core.Spec
	raw, _, err := blob.Read(ctx, x.Store, x.SpecKey(d))
	if err != nil {
		return spec, err
	}
	if sha256.Sum256(raw) != d {
		return spec, fault.SegmentDamage.At("read configuration", x.Store.Location(x.SpecKey(d))).
			Because("content differs from its name").
			Advise(x.AdviseRebuild())
	}
	if err := json.Unmarshal(raw, &spec); err != nil {
		return spec, fault.SegmentDamage.At("read configuration", x.Store.Location(x.SpecKey(d))).Because(err)
	}
	if spec.Index != x.Name {
		related, err := x.sharesSegments(ctx, spec.Index)
		if err != nil || related {
			return spec, err
		}
		return core.Spec{}, fault.InvalidParam.At("read configuration", x.SpecKey(d)).
			Because("it is one of index " + fault.QuoteName(spec.Index) + ", not of " + x.Name)
	}
	return spec, nil
}

// PutSpec stores a configuration under its digest.
func (x Index) PutSpec(ctx context.Context, s core.Spec) (core.Digest, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return core.Digest{}, fault.Internal.At("encode spec", s.Index).Because(err)
	}
	d := core.Digest(sha256.Sum256(raw))
	_, err = blob.Write(ctx, x.Store, x.SpecKey(d), raw, blob.Cond{Absent: true})
	if !fault.Is(err, fault.Precondition) {
		return d, err
	}
	if _, err = x.Spec(ctx, d); fault.Is(err, fault.SegmentDamage) { // it was damaged, and is mended here
		_, err = blob.Write(ctx, x.Store, x.SpecKey(d), raw, blob.Cond{})
	}
	return d, err
}

// The files with the id of an artifact store: all that the stores beside it hold is bound to that id, and nothing else
// gives it, so it is kept twice.
const (
	storeFile = "store.json"
	storeCopy = "store.json.copy"
)

// identity is what both files hold.
type identity struct {
	ID  string `json:"id"`
	Sum string `json:"sum,omitempty"` // of the id; one that was written by hand has none
}

func sumOf(id string) string {
	sum := sha256.Sum256([]byte("store " + id))
	return hex.EncodeToString(sum[:4])
}

// StoreID returns the random identity of an artifact store, and writes nothing: it takes one request, to ask whether
// the store answers. A store without an identity is fault.StoreDown: it was moved away or emptied, or never opened.
func StoreID(ctx context.Context, store blob.Store) (string, error) {
	id, err := readID(ctx, store, storeFile)
	if !isNoID(err) {
		return id, err
	}
	known, copyErr := readID(ctx, store, storeCopy)
	if fault.Is(err, fault.NotFound) && fault.Is(copyErr, fault.NotFound) {
		return "", fault.StoreDown.At("open store", store.Location("")).
			Because("it has no " + storeFile + ": it was moved or emptied").
			Advise("mount it or put it back; to begin with an empty store, restart")
	}
	return chooseID(store, known, copyErr)
}

// OpenStoreID returns the identity of a store for the start of a process: a new store gets one, with If-None-Match, and
// of the two files the one that is lost or damaged is written again from the other.
func OpenStoreID(ctx context.Context, store blob.Store) (string, error) {
	id, err := readID(ctx, store, storeFile)
	known, copyErr := readID(ctx, store, storeCopy)
	switch {
	case fault.Is(err, fault.NotFound) && fault.Is(copyErr, fault.NotFound):
		raw := make([]byte, 16)
		_, _ = rand.Read(raw) // never fails
		known, copyErr = putID(ctx, store, storeCopy, hex.EncodeToString(raw), blob.Cond{Absent: true})
	case err == nil && (isNoID(copyErr) || copyErr == nil && known != id):
		_, _ = putID(ctx, store, storeCopy, id, blob.Cond{Absent: fault.Is(copyErr, fault.NotFound)})
	}
	if !isNoID(err) {
		return id, err
	}
	if known, copyErr = chooseID(store, known, copyErr); copyErr != nil {
		return "", copyErr
	}
	return putID(ctx, store, storeFile, known, blob.Cond{Absent: fault.Is(err, fault.NotFound)})
}

// isNoID reports whether a file of the identity is lost or damaged, rather than that the store does not answer.
func isNoID(err error) bool {
	return fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage)
}

// chooseID returns the identity of the copy, where the first file has none.
func chooseID(store blob.Store, known string, err error) (string, error) {
	if isNoID(err) {
		return "", fault.SegmentDamage.At("read", store.Location(storeFile)).
			Because("the file and its copy contain no store id").
			Advise("put " + store.Location(storeFile) + " back from a backup; or remove both and start again: a file of " +
				"stores.classes then names the id to write into it; with Redis run: unweaver restore --all")
	}
	return known, err
}

func readID(ctx context.Context, store blob.Store, key string) (string, error) {
	var found identity
	if _, err := blob.ReadJSON(ctx, store, key, &found); err != nil {
		return "", err
	}
	if len(found.ID) != 32 || found.Sum != "" && found.Sum != sumOf(found.ID) {
		return "", fault.SegmentDamage.At("read", store.Location(key)).Because("it contains no store id")
	}
	return found.ID, nil
}

// putID writes an id, and returns the one that is there then: another process may have been first.
func putID(ctx context.Context, store blob.Store, key, id string, cond blob.Cond) (string, error) {
	_, err := blob.WriteJSON(ctx, store, key, identity{ID: id, Sum: sumOf(id)}, cond)
	if err != nil && !fault.Is(err, fault.Precondition) {
		return "", err
	}
	return readID(ctx, store, key)
}

// File collects bytes in a temporary file, hashing as they come, until their name is known.
type File struct {
	f *os.File
	h hash.Hash
	n int64
}

// NewFile starts a temporary file.
func NewFile() (*File, error) {
	file, err := scratch.CreateFile()
	if err != nil {
		return nil, err
	}
	return &File{f: file, h: sha256.New()}, nil
}

// Write implements io.Writer.
func (t *File) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)
	t.h.Write(b[:n])
	t.n += int64(n)
	if err != nil {
		return n, scratch.FullError("write", err)
	}
	return n, nil
}

// Discard removes the file; call it always.
func (t *File) Discard() { _ = t.f.Close() }

// PutSegment stores the file under its content address and reports whether it was new.
func (t *File) PutSegment(ctx context.Context, index Index) (seg core.Segment, fresh bool, err error) {
	sha := hex.EncodeToString(t.h.Sum(nil))
	seg = core.Segment{SHA256: sha, Bytes: t.n}
	key := index.SegmentKey(sha)
	if t.n <= smallFile { // written as soon as it is asked for, and a night's are new
		if _, err = t.f.Seek(0, io.SeekStart); err != nil {
			return seg, false, err
		}
		_, err = index.Store.Put(ctx, key, t.f, t.n, blob.Cond{Absent: true})
		if !fault.Is(err, fault.Precondition) {
			return seg, err == nil, err
		}
	}
	there, err := index.Store.Stat(ctx, key)
	if err == nil && there.Size == t.n {
		intact := true
		if index.Doubt {
			intact, err = index.IsIntact(ctx, sha, nil)
		}
		if intact || err != nil {
			return seg, false, err
		}
	}
	if err == nil { // bytes of another length are not this content: it was damaged, and is mended here
		return seg, true, t.Put(ctx, index.Store, key)
	}
	if !fault.Is(err, fault.NotFound) {
		return seg, false, err
	}
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return seg, false, err
	}
	err = putOnce(ctx, index.Store, key, t.f, t.n)
	return seg, err == nil, err
}

// Put stores the file under a key.
func (t *File) Put(ctx context.Context, store blob.Store, key string) error {
	if _, err := t.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := store.Put(ctx, key, t.f, t.n, blob.Cond{})
	return err
}

// Rows writes a row file through a temporary file.
type Rows struct {
	*rowfile.Writer
	file *File
}

// NewRows starts one.
func NewRows() (*Rows, error) {
	file, err := NewFile()
	if err != nil {
		return nil, err
	}
	return &Rows{rowfile.NewWriter(file), file}, nil
}

// Discard removes the temporary file; call it always.
func (r *Rows) Discard() { r.file.Discard() }

// StoreSegment ends the file and stores it by content.
func (r *Rows) StoreSegment(ctx context.Context, index Index, part int) (core.Segment, bool, error) {
	if err := r.Close(); err != nil {
		return core.Segment{}, false, err
	}
	seg, fresh, err := r.file.PutSegment(ctx, index)
	seg.Rows, seg.Part = r.Rows(), part
	return seg, fresh, err
}

// StoreScratch ends the file and stores it under a key.
func (r *Rows) StoreScratch(ctx context.Context, store blob.Store, key string) error {
	if err := r.Close(); err != nil {
		return err
	}
	return r.file.Put(ctx, store, key)
}
