package artifact

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// BaseLasts is how long a process believes whose branch a name is. Who makes a branch, or frees its name, waits for
// longer before anything else is written below the name, so that every process knows by then.
const BaseLasts = time.Second

// sharedFiles and sharedFolders are what a branch has in common with its base: immutable files, and what keeps two runs
// from building, and collectors from deleting, at the same time.
var (
	sharedFiles   = []string{"lease.json", "condemned.json", "clock.json"}
	sharedFolders = []string{"segments", "specs"}
)

// branched is a store in which what branches share with their base lies below the base's name.
type branched struct {
	blob.Store
	mu    sync.Mutex
	known map[string]known
}

type known struct {
	base string
	at   time.Time
}

// NewBranched gives the store with the files that a branch shares found, and written, below the name of its base. Every
// store of artifacts is one, so that whatever reads or writes an index works on a branch as well.
func NewBranched(store blob.Store) blob.Store {
	return &branched{Store: store, known: map[string]known{}}
}

// Unwrap implements what blob.Beneath asks for.
func (s *branched) Unwrap() blob.Store { return s.Store }

// IsVersioned implements blob.Versioned.
func (s *branched) IsVersioned() bool { return blob.IsVersioned(s.Store) }

// CopyFrom implements blob.Copier.
func (s *branched) CopyFrom(ctx context.Context, key string, from blob.Store, source string) (bool, error) {
	copier, ok := s.Store.(blob.Copier)
	if !ok {
		return false, nil
	}
	key, err := s.Resolve(ctx, key)
	if err != nil {
		return false, err
	}
	return copier.CopyFrom(ctx, key, from, source)
}

// sharedName returns the name of the index of a key, where branches share what lies under it; else empty.
func sharedName(key string) string {
	name, rest, _ := strings.Cut(key, "/")
	folder, _, below := strings.Cut(rest, "/")
	if slices.Contains(sharedFiles, rest) || below && slices.Contains(sharedFolders, folder) {
		return name
	}
	return ""
}

// Resolve implements blob.Resolver: it gives the key below which an object lies.
func (s *branched) Resolve(ctx context.Context, key string) (string, error) {
	name := sharedName(key)
	if name == "" || !core.ValidIndex(name) {
		return key, nil
	}
	base, err := s.findBase(ctx, name)
	return base + strings.TrimPrefix(key, name), err
}

func (s *branched) findBase(ctx context.Context, name string) (string, error) {
	s.mu.Lock()
	seen, ok := s.known[name]
	s.mu.Unlock()
	if ok && time.Since(seen.at) < BaseLasts {
		return seen.base, nil
	}
	at := time.Now() // what is found is as old as the question
	base, err := BaseOf(ctx, s.Store, name)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[name] = known{base, at}
	return base, nil
}

// Put implements blob.Store.
func (s *branched) Put(ctx context.Context, key string, body io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	resolved, err := s.Resolve(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	info, err := s.Store.Put(ctx, resolved, body, n, c)
	return replaceKey(info, resolved, key), err
}

// replaceKey gives what is known of an object the key that it was asked for by.
func replaceKey(info blob.Info, resolved, key string) blob.Info {
	if info.Key == resolved {
		info.Key = key
	}
	return info
}

// Get implements blob.Store.
func (s *branched) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	resolved, err := s.Resolve(ctx, key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	body, info, err := s.Store.Get(ctx, resolved, part)
	return body, replaceKey(info, resolved, key), err
}

// Stat implements blob.Store.
func (s *branched) Stat(ctx context.Context, key string) (blob.Info, error) {
	resolved, err := s.Resolve(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	info, err := s.Store.Stat(ctx, resolved)
	return replaceKey(info, resolved, key), err
}

// List implements blob.Store.
func (s *branched) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store.
func (s *branched) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		resolved, err := s.Resolve(ctx, prefix)
		if err != nil {
			yield(blob.Info{}, err)
			return
		}
		if resolved == prefix {
			s.Store.ListRange(ctx, prefix, after, until)(yield)
			return
		}
		name, base := sharedName(prefix), sharedName(resolved)
		move := func(key, from, to string) string {
			if rest, ok := strings.CutPrefix(key, from+"/"); ok {
				return to + "/" + rest
			}
			return key
		}
		for info, err := range s.Store.ListRange(ctx, resolved, move(after, name, base), move(until, name, base)) {
			info.Key = move(info.Key, base, name)
			if !yield(info, err) {
				return
			}
		}
	}
}

// Delete implements blob.Store.
func (s *branched) Delete(ctx context.Context, key string) error {
	resolved, err := s.Resolve(ctx, key)
	if err != nil {
		return err
	}
	return s.Store.Delete(ctx, resolved)
}

// DeleteAll implements blob.Store.
func (s *branched) DeleteAll(ctx context.Context, keys []string) error {
	resolved := make([]string, len(keys))
	for i, key := range keys {
		var err error
		if resolved[i], err = s.Resolve(ctx, key); err != nil {
			return err
		}
	}
	return s.Store.DeleteAll(ctx, resolved)
}

// Location implements blob.Store.
func (s *branched) Location(key string) string {
	name := sharedName(key)
	s.mu.Lock()
	seen, ok := s.known[name]
	s.mu.Unlock()
	if ok && name != "" {
		key = seen.base + strings.TrimPrefix(key, name)
	}
	return s.Store.Location(key)
}
