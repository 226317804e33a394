// Package artifacttest gives tests an artifact store in memory whose calls can be counted and made to fail, and whose
// clock they set.
package artifacttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Op is a kind of call to the store.
type Op string

// The calls that Fail is asked about.
const (
	Put    Op = "put"
	Get    Op = "get"
	Stat   Op = "stat"
	List   Op = "list"
	Delete Op = "delete"
)

type object struct {
	raw  []byte
	info blob.Info
}

// Memory is a blob.Store in memory.
type Memory struct {
	// Fail is asked before every call and may be nil; its error is the call's, and the call then does nothing. Key is
	// the first of a batch of deletes. Calls come side by side: what Fail counts needs a lock or is atomic, and which of
	// several calls is the n-th is not known.
	Fail func(op Op, key string) error
	// Now is the clock of modification times; nil is the wall clock.
	Now func() time.Time

	mu      sync.Mutex
	objects map[string]object
	calls   map[Op]int
}

var _ blob.Store = (*Memory)(nil)

// New makes an empty store.
func New() *Memory { return &Memory{objects: map[string]object{}, calls: map[Op]int{}} }

// Calls returns how often an operation was asked for since the last Reset.
func (m *Memory) Calls(op Op) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[op]
}

// Reset sets the counts back to zero.
func (m *Memory) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = map[Op]int{}
}

// Keys lists the keys that start with prefix.
func (m *Memory) Keys(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}

// Change edits the bytes of a stored object behind the store's back, as damage does.
func (m *Memory) Change(key string, edit func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	o.raw = edit(bytes.Clone(o.raw))
	o.info.Size = int64(len(o.raw))
	m.objects[key] = o
}

func (m *Memory) call(ctx context.Context, op Op, key string) error {
	m.mu.Lock()
	m.calls[op]++
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := blob.CheckKey(key); err != nil && op != List {
		return err
	}
	if m.Fail != nil {
		return m.Fail(op, key)
	}
	return nil
}

// Put implements blob.Store.
func (m *Memory) Put(ctx context.Context, key string, body io.Reader, _ int64, cond blob.Cond) (blob.Info, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return blob.Info{}, fault.StoreDown.At("write", key).Because(err)
	}
	if err := m.call(ctx, Put, key); err != nil {
		return blob.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.objects[key]
	if (cond.Absent && ok) || (cond.Match != "" && (!ok || old.info.ETag != cond.Match)) {
		return blob.Info{}, fault.Precondition.At("write", key)
	}
	sum := sha256.Sum256(raw)
	now := time.Now()
	if m.Now != nil {
		now = m.Now()
	}
	info := blob.Info{Key: key, Size: int64(len(raw)), ETag: hex.EncodeToString(sum[:8]), Modified: now}
	m.objects[key] = object{raw, info}
	return info, nil
}

// Get implements blob.Store.
func (m *Memory) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := m.call(ctx, Get, key); err != nil {
		return nil, blob.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return nil, blob.Info{}, fault.NotFound.At("read", key)
	}
	if part.Match != "" && part.Match != o.info.ETag {
		return nil, blob.Info{}, fault.Precondition.At("read", key)
	}
	from := min(part.Offset, o.info.Size)
	to := o.info.Size
	if part.Length >= 0 {
		to = min(to, from+part.Length)
	}
	return io.NopCloser(bytes.NewReader(o.raw[from:to])), o.info, nil
}

// Stat implements blob.Store.
func (m *Memory) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := m.call(ctx, Stat, key); err != nil {
		return blob.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return blob.Info{}, fault.NotFound.At("stat", key)
	}
	return o.info, nil
}

// List implements blob.Store.
func (m *Memory) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return m.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store.
func (m *Memory) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		if err := m.call(ctx, List, prefix); err != nil {
			yield(blob.Info{}, err)
			return
		}
		for _, key := range m.Keys(prefix) {
			m.mu.Lock()
			o, ok := m.objects[key]
			m.mu.Unlock()
			if ok && key > after && (until == "" || key <= until) && !yield(o.info, nil) {
				return
			}
		}
	}
}

// ListFolders implements blob.Store.
func (m *Memory) ListFolders(ctx context.Context) ([]string, error) {
	return blob.FoldersOf(ctx, m.List)
}

// Delete implements blob.Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.DeleteAll(ctx, []string{key})
}

// DeleteAll removes objects in one request.
func (m *Memory) DeleteAll(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	if err := m.call(ctx, Delete, keys[0]); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.objects, key)
	}
	return nil
}

// Location implements blob.Store.
func (m *Memory) Location(key string) string { return "memory/" + key }
