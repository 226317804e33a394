// Package artifacttest gives tests an artifact store in memory whose calls can be counted and made to fail, and whose
// clock they set.
package artifacttest

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
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

// Memory is a blob.Store in memory.
type Memory struct {
	Around
	// Fail is asked before every call and may be nil; its error is the call's, and the call then does nothing. Key is
	// the first of a batch of deletes. Calls come side by side: what Fail counts needs a lock or is atomic, and which of
	// several calls is the n-th is not known.
	Fail func(op Op, key string) error
	// Now is the clock of modification times; nil is the wall clock.
	Now func() time.Time

	stored *blobmemory.Store
	mu     sync.Mutex
	calls  map[Op]int
}

// New makes an empty store.
func New() *Memory {
	m := &Memory{stored: blobmemory.New(), calls: map[Op]int{}}
	m.Around = Around{Store: m.stored, Do: m.do}
	m.stored.Now = func() time.Time {
		if m.Now != nil {
			return m.Now()
		}
		return time.Now()
	}
	return m
}

// do counts a call, and does it unless it is to fail.
func (m *Memory) do(ctx context.Context, op Op, key string, call func() error) error {
	m.mu.Lock()
	m.calls[op]++
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.Fail != nil {
		if err := m.Fail(op, key); err != nil {
			return err
		}
	}
	return call()
}

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

// Keys lists the keys that begin with prefix.
func (m *Memory) Keys(prefix string) []string { return m.stored.Keys(prefix) }

// Change edits the bytes of an object behind the store's back, as damage does.
func (m *Memory) Change(key string, edit func([]byte) []byte) { m.stored.Change(key, edit) }

// ListFolders implements blob.Store.
func (m *Memory) ListFolders(ctx context.Context) ([]string, error) {
	return blob.FoldersOf(ctx, m.List)
}

// DeleteAll implements blob.Store: without a key nothing is asked for.
func (m *Memory) DeleteAll(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	return m.Around.DeleteAll(ctx, keys)
}
