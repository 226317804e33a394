// Package recordsmemory is the records adapter of one process: nothing outlives it.
package recordsmemory

import (
	"bytes"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/records"
)

// Store implements records.Store. Values are copied on their way in and out.
type Store struct {
	mu       sync.RWMutex
	values   map[string][]byte
	owner    string
	identity string
}

var _ records.Store = (*Store)(nil)

// New makes an empty store with an identity of its own.
func New() *Store { return &Store{values: map[string][]byte{}, identity: rand.Text()} }

// Clone makes a store of its own that holds the same, under the same identity.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Store{values: maps.Clone(s.values), owner: s.owner, identity: s.identity}
}

// PutRecords implements records.Store.
func (s *Store) PutRecords(_ context.Context, rs []records.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, record := range rs {
		s.values[record.Key] = append([]byte{}, record.Value...)
	}
	return nil
}

// GetRecords implements records.Store.
func (s *Store) GetRecords(_ context.Context, keys []string) ([][]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([][]byte, len(keys))
	for i, key := range keys {
		out[i] = bytes.Clone(s.values[key])
	}
	return out, nil
}

// DeleteRecords implements records.Store.
func (s *Store) DeleteRecords(_ context.Context, keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		delete(s.values, key)
	}
	return nil
}

// scanned is how many keys go to one call.
const scanned = 1000

// ScanRecords implements records.Store, over the keys of the moment; f may write.
func (s *Store) ScanRecords(ctx context.Context, prefix string, f func(keys []string) error) error {
	s.mu.RLock()
	keys := slices.Sorted(maps.Keys(s.values))
	s.mu.RUnlock()
	keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
	for part := range slices.Chunk(keys, scanned) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// Identity implements records.Store.
func (s *Store) Identity(context.Context) (string, error) { return s.identity, nil }

// RecordOwner implements records.Store.
func (s *Store) RecordOwner(_ context.Context, storeID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != "" && s.owner != storeID {
		return fault.StoreOwned.At("open", "the records in memory").Because("they belong to another artifact store")
	}
	s.owner = storeID
	return nil
}

// Ping implements records.Store.
func (s *Store) Ping(context.Context) error { return nil }

// Close implements records.Store.
func (s *Store) Close() error { return nil }
