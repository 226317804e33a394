// Package blobcache keeps small objects that never change in the memory of a process, so that the units of work of a
// build do not ask a distant store for them again and again. Two kinds of objects never change: those whose name states
// their content (segments, files of units), which are believed only where their bytes have the digest that the name
// says; and what this process wrote into a folder of a run under the condition that nothing was there.
//
// Everything else passes through: that an object is there is always the store's to say (Stat, List), and who has to see
// the bytes that the store has asks Stored.
package blobcache

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/store/blob"
)

const (
	// largest is the size of the largest object that is kept. Reading one whole takes no longer than reading a part.
	largest = 128 << 10
	// room is how many bytes are kept in all.
	room = 32 << 20
)

// Memory is what a process keeps. The zero value is empty and ready; it is safe for concurrent use.
type Memory struct {
	mu     sync.Mutex
	held   map[string]*list.Element // of *object
	recent list.List                // the front was asked for last
	bytes  int
}

type object struct {
	info blob.Info
	raw  []byte
}

// WithMemory gives the store with a memory before it.
func WithMemory(store blob.Store, memory *Memory) blob.Store { return &near{store, memory, false} }

// WithWriteMemory gives the store with a memory that keeps what is written, for others, and answers nothing: for who
// doubts what the store has.
func WithWriteMemory(store blob.Store, memory *Memory) blob.Store { return &near{store, memory, true} }

// UnwrapMemory gives the store without the memory before it, for those who compare what it holds.
func UnwrapMemory(store blob.Store) blob.Store {
	if covered, ok := store.(*near); ok {
		return covered.Store
	}
	return store
}

type near struct {
	blob.Store
	memory *Memory
	doubts bool
}

// Unwrap implements what blob.Beneath asks for.
func (s *near) Unwrap() blob.Store { return s.Store }

// IsVersioned implements blob.Versioned.
func (s *near) IsVersioned() bool { return blob.IsVersioned(s.Store) }

// Get implements blob.Store.
func (s *near) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if part.Match != "" || s.doubts {
		return s.Store.Get(ctx, key, part)
	}
	if held := s.memory.findObject(key); held != nil {
		return held.readPart(part)
	}
	body, info, err := s.Store.Get(ctx, key, part)
	whole := part.Offset == 0 && (part.Length < 0 || part.Length >= info.Size)
	if err != nil || !whole || info.Size > largest || digestOf(key) == "" {
		return body, info, err
	}
	raw, err := io.ReadAll(io.LimitReader(body, largest+1))
	if cerr := body.Close(); err == nil {
		err = cerr
	}
	if err != nil { // as it would have ended for who reads it
		return io.NopCloser(io.MultiReader(bytes.NewReader(raw), failing{err})), info, nil
	}
	if int64(len(raw)) == info.Size {
		s.memory.keepObject(key, info, raw)
	}
	return io.NopCloser(bytes.NewReader(raw)), info, nil
}

// Put implements blob.Store.
func (s *near) Put(ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond) (blob.Info, error) {
	stays := digestOf(key) != "" || (cond.Absent && ofRun(key))
	if !stays || size < 0 || size > largest {
		s.memory.forgetObject(key)
		return s.Store.Put(ctx, key, body, size, cond)
	}
	raw, err := io.ReadAll(io.LimitReader(body, size+1))
	if err != nil || int64(len(raw)) != size { // which the store has words for
		rest := io.MultiReader(bytes.NewReader(raw), body)
		if err != nil {
			rest = io.MultiReader(bytes.NewReader(raw), failing{err})
		}
		return s.Store.Put(ctx, key, rest, size, cond)
	}
	info, err := s.Store.Put(ctx, key, bytes.NewReader(raw), size, cond)
	if err != nil {
		s.memory.forgetObject(key)
		return info, err
	}
	s.memory.keepObject(key, blob.Info{Key: key, Size: size, ETag: info.ETag, Modified: info.Modified}, raw)
	return info, nil
}

// Delete implements blob.Store.
func (s *near) Delete(ctx context.Context, key string) error {
	s.memory.forgetObject(key)
	return s.Store.Delete(ctx, key)
}

// DeleteAll implements blob.Store.
func (s *near) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		s.memory.forgetObject(key)
	}
	return s.Store.DeleteAll(ctx, keys)
}

// readPart gives a range as a store does: what lies behind the end is not there.
func (o *object) readPart(part blob.Range) (io.ReadCloser, blob.Info, error) {
	from := min(max(part.Offset, 0), int64(len(o.raw)))
	raw := o.raw[from:]
	if part.Length >= 0 && part.Length < int64(len(raw)) {
		raw = raw[:part.Length]
	}
	return io.NopCloser(bytes.NewReader(raw)), o.info, nil
}

// Forget empties the memory.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.bytes = nil, 0
	m.recent.Init()
}

func (m *Memory) findObject(key string) *object {
	m.mu.Lock()
	defer m.mu.Unlock()
	element, ok := m.held[key]
	if !ok {
		return nil
	}
	m.recent.MoveToFront(element)
	return element.Value.(*object) //nolint:forcetypeassert // nothing else is in the list
}

// keepObject keeps an object. Bytes that are not what the name says are not kept.
func (m *Memory) keepObject(key string, info blob.Info, raw []byte) {
	if want := digestOf(key); want != "" {
		sum := sha256.Sum256(raw)
		if !strings.HasPrefix(hex.EncodeToString(sum[:]), want) {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropObject(key)
	if m.held == nil {
		m.held = map[string]*list.Element{}
	}
	info.Key = key
	m.held[key] = m.recent.PushFront(&object{info, raw})
	for m.bytes += len(raw); m.bytes > room; {
		m.dropObject(m.recent.Back().Value.(*object).info.Key) //nolint:forcetypeassert // nothing else is in the list
	}
}

func (m *Memory) forgetObject(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropObject(key)
}

func (m *Memory) dropObject(key string) {
	if element, ok := m.held[key]; ok {
		m.bytes -= len(element.Value.(*object).raw) //nolint:forcetypeassert // nothing else is in the list
		m.recent.Remove(element)
		delete(m.held, key)
	}
}

// digestOf returns what a name says of the content: a sha256 in hexadecimal, or the first half of one behind a hyphen,
// as artifact.File names segments and the files of units. Empty: nothing.
func digestOf(key string) string {
	name := path.Base(key)
	name = strings.TrimSuffix(name, path.Ext(name))
	if folder := path.Base(path.Dir(key)); folder == "segments" && len(name) == 2*sha256.Size && isHex(name) {
		return name
	}
	if dash := strings.LastIndexByte(name, '-'); dash >= 0 && ofRun(key) {
		if half := name[dash+1:]; len(half) == sha256.Size && isHex(half) {
			return half
		}
	}
	return ""
}

func ofRun(key string) bool {
	parts := strings.SplitN(key, "/", 3)
	return len(parts) == 3 && parts[1] == "runs"
}

func isHex(name string) bool {
	for _, sign := range []byte(name) {
		if (sign < '0' || sign > '9') && (sign < 'a' || sign > 'f') {
			return false
		}
	}
	return true
}

// failing is a body that ends with an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
