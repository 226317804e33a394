// Package blobmemory is the blob adapter of one process: nothing outlives it.
package blobmemory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Store implements blob.Store.
type Store struct {
	// Now is the clock of modification times; nil: the wall clock, by which no two writes have one time, so that the
	// newest is known.
	Now func() time.Time

	mu      sync.RWMutex
	objects map[string]object
	version int64     // of the last write: an ETag is never used twice
	written time.Time // of the last write
}

type object struct {
	raw  []byte // never changed
	info blob.Info
}

var _ blob.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return &Store{objects: map[string]object{}} }

// Clone makes a store of its own that holds the same.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Store{Now: s.Now, objects: maps.Clone(s.objects), version: s.version, written: s.written}
}

// Keys lists the keys that begin with prefix.
func (s *Store) Keys(prefix string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := slices.Sorted(maps.Keys(s.objects))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
}

// Change edits the bytes of an object behind the store's back, as damage does.
func (s *Store) Change(key string, edit func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.objects[key]
	changed.raw = edit(bytes.Clone(changed.raw))
	changed.info.Size = int64(len(changed.raw))
	s.objects[key] = changed
}

// Location implements blob.Store.
func (s *Store) Location(key string) string { return "memory:" + key }

func (s *Store) precondition(op, key string) error {
	return fault.Precondition.At(op, s.Location(key)).Because("it exists, or has changed")
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	raw, err := io.ReadAll(body)
	if err == nil && size >= 0 && int64(len(raw)) != size {
		err = fmt.Errorf("got %d of %d bytes", len(raw), size)
	}
	if err != nil {
		return blob.Info{}, fault.StoreDown.At("read the body of", s.Location(key)).Because(err)
	}
	if err := ctx.Err(); err != nil {
		return blob.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := s.objects[key]
	if (cond.Absent && exists) || (cond.Match != "" && old.info.ETag != cond.Match) {
		return blob.Info{}, s.precondition("write", key)
	}
	s.version++
	switch now := time.Now(); {
	case s.Now != nil:
		s.written = s.Now()
	case now.After(s.written):
		s.written = now
	default:
		s.written = s.written.Add(1)
	}
	info := blob.Info{Key: key, Size: int64(len(raw)), ETag: fmt.Sprintf("%x", s.version), Modified: s.written}
	s.objects[key] = object{raw, info}
	return info, nil
}

func (s *Store) find(op, key string) (object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, ok := s.objects[key]
	if !ok {
		return object{}, fault.NotFound.At(op, s.Location(key)).Because("it does not exist")
	}
	return found, nil
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := errors.Join(ctx.Err(), blob.CheckKey(key)); err != nil {
		return nil, blob.Info{}, err
	}
	found, err := s.find("read", key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	if part.Match != "" && part.Match != found.info.ETag {
		return nil, blob.Info{}, s.precondition("read", key)
	}
	raw := found.raw[min(part.Offset, int64(len(found.raw))):]
	if part.Length >= 0 {
		raw = raw[:min(part.Length, int64(len(raw)))]
	}
	return io.NopCloser(bytes.NewReader(raw)), found.info, nil
}

// Stat implements blob.Store.
func (s *Store) Stat(_ context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	found, err := s.find("stat", key)
	return found.info, err
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store, over the objects of the moment: the caller may write meanwhile.
func (s *Store) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		s.mu.RLock()
		var infos []blob.Info
		for key, found := range s.objects {
			if strings.HasPrefix(key, prefix) && key > after && (until == "" || key <= until) {
				infos = append(infos, found.info)
			}
		}
		s.mu.RUnlock()
		slices.SortFunc(infos, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
		for _, info := range infos {
			if err := ctx.Err(); err != nil {
				yield(blob.Info{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// ListFolders implements blob.Store.
func (s *Store) ListFolders(ctx context.Context) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := map[string]bool{}
	for key := range s.objects {
		if folder, _, inside := strings.Cut(key, "/"); inside {
			found[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), ctx.Err()
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error { return s.DeleteAll(ctx, []string{key}) }

// DeleteAll implements blob.Store.
func (s *Store) DeleteAll(_ context.Context, keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if err := blob.CheckKey(key); err != nil {
			return err
		}
		delete(s.objects, key)
	}
	return nil
}
