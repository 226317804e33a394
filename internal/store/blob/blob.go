// Package blob defines the port to an object store. A store holds the corpus, and the artifacts: manifests, ledger,
// segments, reports, the build lease and the generation pointer. Every adapter must pass the tests of blobtest.
package blob

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Info describes an object. ETag changes whenever the content may have changed. It is a hint about content, but an
// exact name for conditional writes.
type Info struct {
	Key      string
	Size     int64
	ETag     string
	Modified time.Time

	// Encoding says how the bytes are compressed: Gzip, or empty. Get sets it.
	Encoding string
	// Archived is the storage class of an object that must be restored before it can be read. List sets it.
	Archived string
}

// Gzip is an Info.Encoding.
const Gzip = "gzip"

// ArchivedObject returns the error of reading an object that must be restored first. class may be empty.
func ArchivedObject(object, class string) *fault.Error {
	why := "it is archived"
	if class != "" {
		why += " (storage class " + class + ")"
	}
	return fault.StoreDenied.At("read", object).Because(why).
		Advise("restore it from the archive, then run again; or exclude it")
}

// Cond makes a write conditional: Absent (If-None-Match: *) or Match (If-Match: etag). Where the condition does not
// hold, the write returns fault.Precondition and changes nothing. Of several writers with the same condition exactly
// one wins.
type Cond struct {
	Absent bool
	Match  string
}

// All is the range of a whole object.
var All = Range{Length: -1}

// Range is a part of an object; Length -1 means to the end. Where Match is set, reading another version of the object
// returns fault.Precondition. This error comes at the end where the object is overwritten while it is read.
type Range struct {
	Offset int64
	Length int64
	Match  string
}

// Store is the port. All methods may be called concurrently, and may be repeated: to Put the same bytes without a
// condition, or to Delete an absent key, does no harm. Errors are fault.NotFound, Precondition, StoreDenied, StoreFull
// or StoreDown (transient). Keys are relative, with '/' between their parts. Where a key exists, none begins with
// "key/".
type Store interface {
	// Put stores body under key. When it returns, the object is durable and whole, or unchanged. size is the number of
	// bytes, or -1 where it is not known.
	Put(ctx context.Context, key string, body io.Reader, size int64, c Cond) (Info, error)
	// Get returns a reader of a range, which the caller closes.
	Get(ctx context.Context, key string, r Range) (io.ReadCloser, Info, error)
	// Stat returns what is known of an object, without reading it.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose keys start with prefix and are greater than after, in byte order of the keys.
	List(ctx context.Context, prefix, after string) iter.Seq2[Info, error]
	// ListRange yields what List yields, up to and including the key until; an empty until means the end. A caller may
	// cut a listing into ranges and list them at the same time: each range starts after the until of the range before.
	// Together they yield what List yields, including its errors. The keys to cut at need not exist.
	ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[Info, error]
	// ListFolders returns what stands before the first '/' of the keys that have one, each once, in byte order. An object
	// store needs one request for each thousand of them.
	ListFolders(ctx context.Context) ([]string, error)
	// Delete removes an object. To delete an absent one is no error.
	Delete(ctx context.Context, key string) error
	// DeleteAll removes many objects in few requests; absent ones are no error. After an error some of them are gone, and
	// the call may be repeated. The error says how many were not deleted, and names the first of them.
	DeleteAll(ctx context.Context, keys []string) error
	// Location returns where a key lies, for people and error texts.
	Location(key string) string
}

// Versioned is a store that never returns bytes of two versions under one ETag, even while the object is written to. A
// folder is not versioned: a file can be overwritten in place within one tick of its clock.
type Versioned interface{ IsVersioned() bool }

// IsVersioned reports whether the bytes that an ETag names are always the same, so that one reading of them is enough.
func IsVersioned(store Store) bool {
	versioned, ok := store.(Versioned)
	return ok && versioned.IsVersioned()
}

// Tagged is a store whose objects may have tags: names with values that stand beside the content. A change of tags
// changes no ETag.
type Tagged interface {
	ReadTags(ctx context.Context, key string) (map[string]string, error)
}

// ErrTagsRefused is in the chain of an error of ReadTags where the store refuses tags alone: it knows none, or does not
// give them to these credentials.
var ErrTagsRefused = errors.New("the store refuses tags")

// TagProbes are the first objects whose tags are asked for before a store counts as one that refuses all.
const TagProbes = 8

// ReadTags returns the tags of an object. In a store that knows no tags it has none.
func ReadTags(ctx context.Context, store Store, key string) (map[string]string, error) {
	if tagged, ok := store.(Tagged); ok {
		return tagged.ReadTags(ctx, key)
	}
	return nil, nil //nolint:nilnil // none is an answer
}

// Linked is a store that may hold symbolic links. It follows them only in the store that Following returns.
type Linked interface{ FollowLinks() Store }

// FollowLinks returns a store that follows links, where the store may hold any; otherwise the store itself.
func FollowLinks(store Store) Store {
	if linked, ok := store.(Linked); ok {
		return linked.FollowLinks()
	}
	return store
}

// Read returns a whole object in memory. It is for small objects.
func Read(ctx context.Context, store Store, key string) ([]byte, Info, error) {
	body, info, err := store.Get(ctx, key, All)
	if err != nil {
		return nil, info, err
	}
	defer func() { _ = body.Close() }()
	ahead := min(max(info.Size, 0), mostAhead)
	buffer := bytes.NewBuffer(make([]byte, 0, ahead+bytes.MinRead)) // ReadFrom finds the end without growing it
	if _, err := buffer.ReadFrom(body); err != nil {
		return nil, info, fault.StoreDown.At("read", store.Location(key)).Because(err)
	}
	return buffer.Bytes(), info, nil
}

// mostAhead limits the memory that is allocated by the size that a store reports, before any byte has arrived.
const mostAhead = 64 << 20

// Write stores b under key.
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
			Advise("restore or rebuild the index: the artifact is damaged")
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

// changeTries is how often a change is tried that others overtake.
const changeTries = 10

// ErrSame is the error of a change that changes nothing: ChangeJSON then writes nothing, and returns no error.
var ErrSame = errors.New("nothing changes")

// ChangeJSON writes what change makes of an object, until no other process has written it meanwhile. read returns what
// is stored, and its ETag: empty where nothing is.
func ChangeJSON[T any](
	ctx context.Context, store Store, key string, read func(context.Context) (T, string, error), change func(*T) error,
) error {
	for try := 1; ; try++ {
		v, etag, err := read(ctx)
		if err != nil {
			return err
		}
		err = change(&v)
		if errors.Is(err, ErrSame) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = WriteJSON(ctx, store, key, v, Cond{Absent: etag == "", Match: etag})
		if !fault.Is(err, fault.Precondition) || try == changeTries {
			return err
		}
	}
}

// CheckKey returns an error for a key that is empty or absolute, has a part "." or "..", or holds a NUL byte. Keys come
// from documents, from stored files and from clients of the engine: none of them may lead out of the store.
func CheckKey(key string) error {
	inside := key != "" && key[0] != '/' && strings.IndexByte(key, 0) < 0
	for part := range strings.SplitSeq(key, "/") {
		inside = inside && part != ".." && part != "."
	}
	if inside {
		return nil
	}
	return fault.InvalidParam.At("use key", fault.QuoteName(key)).Because("it points outside its store")
}
