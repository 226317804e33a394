// Package vectorsmemory is the vectors adapter of one process: exact search over rows that do not outlive it.
package vectorsmemory

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Store implements vectors.Store.
type Store struct {
	mu          sync.RWMutex
	collections map[string]*collection
}

type collection struct {
	dim      int
	identity string
	rows     map[string][]float32 // never changed once there
	loaded   bool
}

var _ vectors.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store { return &Store{collections: map[string]*collection{}} }

// Clone makes a store of its own that holds the same collections, under the same identities.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := New()
	for name, c := range s.collections {
		out.collections[name] = &collection{dim: c.dim, identity: c.identity, rows: maps.Clone(c.rows), loaded: c.loaded}
	}
	return out
}

// Create implements vectors.Store.
func (s *Store) Create(_ context.Context, name string, dim int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.collections[name]; have != nil && have.dim == dim {
		return nil
	}
	s.collections[name] = &collection{dim: dim, identity: rand.Text(), rows: map[string][]float32{}}
	return nil
}

// read calls f for a collection, which other readers may read at once.
func (s *Store) read(name string, f func(c *collection) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.find(name, f)
}

// write calls f for a collection that no other call looks at.
func (s *Store) write(name string, f func(c *collection) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(name, f)
}

func (s *Store) find(name string, f func(c *collection) error) error {
	if c := s.collections[name]; c != nil {
		return f(c)
	}
	return fault.NotFound.At("open collection", name).Because("it does not exist")
}

// Upsert implements vectors.Store.
func (s *Store) Upsert(ctx context.Context, name string, rows []vectors.Row) error {
	return s.write(name, func(c *collection) error {
		for _, row := range rows {
			if err := vectors.Check(row.Vector, c.dim, row.Key); err != nil {
				return err
			}
		}
		for _, row := range rows {
			c.rows[row.Key] = slices.Clone(row.Vector)
		}
		return ctx.Err()
	})
}

// Has implements vectors.Store.
func (s *Store) Has(_ context.Context, name string, keys []string) ([]bool, error) {
	out := make([]bool, len(keys))
	return out, s.read(name, func(c *collection) error {
		for i, key := range keys {
			_, out[i] = c.rows[key]
		}
		return nil
	})
}

// Fetch implements vectors.Store.
func (s *Store) Fetch(_ context.Context, name string, keys []string) ([][]float32, error) {
	out := make([][]float32, len(keys))
	return out, s.read(name, func(c *collection) error {
		for i, key := range keys {
			out[i] = slices.Clone(c.rows[key])
		}
		return nil
	})
}

// Count implements vectors.Store.
func (s *Store) Count(_ context.Context, name string) (n int64, err error) {
	err = s.read(name, func(c *collection) error {
		n = int64(len(c.rows))
		return nil
	})
	return n, err
}

// Identity implements vectors.Store.
func (s *Store) Identity(_ context.Context, name string) (id string, err error) {
	err = s.read(name, func(c *collection) error {
		id = c.identity
		return nil
	})
	return id, err
}

// Load implements vectors.Store.
func (s *Store) Load(_ context.Context, name string) error {
	return s.write(name, func(c *collection) error {
		c.loaded = true
		return nil
	})
}

// Search implements vectors.Store.
func (s *Store) Search(ctx context.Context, name string, question []float32, n int) (hits []vectors.Hit, err error) {
	err = s.read(name, func(c *collection) error {
		if err := vectors.Check(question, c.dim, "question"); err != nil {
			return err
		}
		if !c.loaded {
			return fault.StoreDown.At("search", name).Because("the collection is not loaded")
		}
		for key, vector := range c.rows {
			var score float64
			for i, x := range vector {
				score += float64(x) * float64(question[i])
			}
			hits = append(hits, vectors.Hit{Key: key, Score: float32(score)})
		}
		return ctx.Err()
	})
	slices.SortFunc(hits, func(a, b vectors.Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return strings.Compare(a.Key, b.Key)
	})
	return hits[:min(n, len(hits))], err
}

// Delete implements vectors.Store.
func (s *Store) Delete(_ context.Context, name string, keys []string) error {
	return s.write(name, func(c *collection) error {
		for _, key := range keys {
			delete(c.rows, key)
		}
		return nil
	})
}

// Keys lists the keys of a collection's rows.
func (s *Store) Keys(name string) (keys []string) {
	_ = s.read(name, func(c *collection) error { // one that does not exist has none
		keys = slices.Sorted(maps.Keys(c.rows))
		return nil
	})
	return keys
}

// List implements vectors.Store.
func (s *Store) List(_ context.Context, prefix string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := slices.Sorted(maps.Keys(s.collections))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), nil
}

// Drop implements vectors.Store.
func (s *Store) Drop(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.collections, name)
	return nil
}

// Ping implements vectors.Store.
func (s *Store) Ping(context.Context) error { return nil }

// Close implements vectors.Store.
func (s *Store) Close() error { return nil }
