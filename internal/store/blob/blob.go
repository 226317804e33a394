// Package blob is the port to an object store: corpus objects, and the artifacts (manifests, ledger, segments, reports,
// the build lease, the generation pointer). Its contract is proven by blobtest, which every adapter must pass.
package blob

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Info describes an object. ETag changes whenever the content may have changed; it is a hint about content and an exact
// name for conditional writes.
type Info struct {
	Key      string
	Size     int64
	ETag     string
	Modified time.Time

	// Encoding is how the bytes of an object are packed though its key does not say so: gzip, or empty. Get gives it.
	Encoding string
	// Archived is the storage class of an object that must be restored before it can be read. List gives it.
	Archived string
}

// Gzip is an Info.Encoding.
const Gzip = "gzip"

// ArchivedObject is the fault of reading an object that must be restored before; class may be empty.
func ArchivedObject(object, class string) *fault.Error {
	why := "it is archived"
	if class != "" {
		why += " (storage class " + class + ")"
	}
	return fault.StoreDenied.At("read", object).Because(why + ": restore it").
		Advise("the next run reads it then; or exclude it")
}

// Cond makes a write conditional: Absent (If-None-Match: *) or Match (If-Match: etag). A condition that does not hold
// is fault.Precondition and leaves the store as it was; of writers that race with one condition exactly one wins.
type Cond struct {
	Absent bool
	Match  string
}

// All reads a whole object in Get.
var All = Range{Length: -1}

// Range is a part of an object; Length -1 means to the end. Match, where set, refuses another version of the object
// with fault.Precondition, at once or, where the object is written to while it is read, at the end.
type Range struct {
	Offset int64
	Length int64
	Match  string
}

// Store is the port. All methods may be called concurrently and may be repeated: a Put without condition of the same
// bytes and a Delete of an absent key are harmless. Errors are fault.NotFound, Precondition, StoreDenied, StoreFull or
// StoreDown (transient). Keys are '/'-separated and relative; a key is never also the prefix "key/" of another.
type Store interface {
	// Put stores body under key; when it returns the object is durable and whole, or unchanged. size is the number of
	// bytes, or -1 when unknown.
	Put(ctx context.Context, key string, body io.Reader, size int64, c Cond) (Info, error)
	// Get streams a range. The caller closes it.
	Get(ctx context.Context, key string, r Range) (io.ReadCloser, Info, error)
	// Stat describes an object without reading it.
	Stat(ctx context.Context, key string) (Info, error)
	// List gives objects whose key starts with prefix and is greater than after, in byte order of the key.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
	// ListRange is the part of List up to and with the key until; empty: to the end. Parts that follow one another, each
	// after the key that the one before it reaches to, give together what List gives, errors of objects too, whatever the
	// keys between them; they may be listed side by side. It is no interface of its own, which a decorator could hide.
	ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[Info, error]
	// Folders names what stands before the first '/' of the keys that have one, each once, in byte order. With an object
	// store it takes a request for each thousand.
	Folders(ctx context.Context) ([]string, error)
	// Delete removes an object; an absent one is no error.
	Delete(ctx context.Context, key string) error
	// DeleteAll removes many objects in few requests; absent ones are no error. After an error some may be gone, and it
	// may be repeated. The error names how many stayed, and the first of them.
	DeleteAll(ctx context.Context, keys []string) error
	// Location is where a key lies, for people and error texts.
	Location(key string) string
}

// Versioned is a store that never gives bytes of two versions under one ETag, whatever is written beside the reading. A
// folder is none: a file can be overwritten in place within one tick of its clock.
type Versioned interface{ Versioned() bool }

// IsVersioned reports whether the bytes that an ETag names are always the same, so that one reading of them is enough.
func IsVersioned(store Store) bool {
	versioned, ok := store.(Versioned)
	return ok && versioned.Versioned()
}

// Linked is a store that may hold links, which it follows only when asked.
type Linked interface{ Following() Store }

// Following gives the same store with its links followed, where it may hold any.
func Following(store Store) Store {
	if linked, ok := store.(Linked); ok {
		return linked.Following()
	}
	return store
}

// Read is a whole object in memory; for small ones.
func Read(ctx context.Context, store Store, key string) ([]byte, Info, error) {
	body, info, err := store.Get(ctx, key, All)
	if err != nil {
		return nil, info, err
	}
	defer func() { _ = body.Close() }()
	ahead := min(max(info.Size, 0), mostAhead)
	buffer := bytes.NewBuffer(make([]byte, 0, ahead+bytes.MinRead)) // which looks for the end without growing
	if _, err := buffer.ReadFrom(body); err != nil {
		return nil, info, fault.StoreDown.At("read", store.Location(key)).Because(err)
	}
	return buffer.Bytes(), info, nil
}

// mostAhead is how much memory is taken on a store's word, before the bytes are there.
const mostAhead = 64 << 20

// Write puts bytes.
func Write(ctx context.Context, s Store, key string, b []byte, c Cond) (Info, error) {
	return s.Put(ctx, key, bytes.NewReader(b), int64(len(b)), c)
}

// ReadJSON decodes an object into v.
func ReadJSON(ctx context.Context, store Store, key string, v any) (Info, error) {
	raw, info, err := Read(ctx, store, key)
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return info, fault.SegmentDamage.At("decode", store.Location(key)).
			Because(err).
			Advise("the artifact is damaged: restore it or rebuild the index")
	}
	return info, nil
}

// WriteJSON encodes v, indented, with a final newline.
func WriteJSON(ctx context.Context, store Store, key string, v any, cond Cond) (Info, error) {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return Info{}, fault.Internal.At("encode", key).Because(err)
	}
	return Write(ctx, store, key, append(raw, '\n'), cond)
}

// CheckKey refuses what can be no key: one that is absolute, that leads out of its store or to its root, or that holds
// a NUL. Names come from documents, from stored files and from any client of the engine.
func CheckKey(key string) error {
	inside := key != "" && key[0] != '/' && strings.IndexByte(key, 0) < 0
	for part := range strings.SplitSeq(key, "/") {
		inside = inside && part != ".." && part != "."
	}
	if inside {
		return nil
	}
	return fault.InvalidParam.At("use key", fault.Quoted(key)).Because("it leads out of its store")
}
