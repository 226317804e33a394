package localfile

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// shared is a mapping and how many use it. A content may be opened as more than one kind of file.
type shared struct {
	kind   reflect.Type
	handle any
	close  func()
	pin    *os.File // keeps the copy from eviction
	id     copyID   // of the copy as it was checked
	users  int
}

// hasChanged reports whether the copy was written to since it was checked: what is read of a page behind the end of a
// file that was cut may be zeros, and no error.
func (m *shared) hasChanged() bool {
	id, err := idOf(m.pin, m.id.sha)
	return err != nil || id != m.id
}

// Acquire gives the mapping of a content, one for all who use it in this process; open is called for the first, and the
// handle is closed when the last has released it. release may be called more than once. A copy that turns out damaged
// is brought once more.
func Acquire[T interface{ Close() }](
	ctx context.Context, cache *Cache, store blob.Store, key, sha string, open func(path string) (T, error),
) (handle T, release func(), err error) {
	kind := reflect.TypeFor[T]()
	if found := cache.joinMapping(sha, kind); found != nil {
		return found.handle.(T), cache.newReleaser(found), nil
	}
	done, err := cache.takeTurn(ctx, sha)
	if err != nil {
		return handle, nil, err
	}
	defer done()
	if found := cache.joinMapping(sha, kind); found != nil { // another opened it while this one waited
		return found.handle.(T), cache.newReleaser(found), nil
	}
	handle, pin, err := openContent(ctx, cache, store, key, sha, open)
	if err != nil {
		return handle, nil, err
	}
	id, err := idOf(pin, sha)
	if err != nil {
		handle.Close()
		return handle, nil, errors.Join(localFault("open cache", cache.pathOf(sha), err), pin.Close())
	}
	mine := &shared{kind: kind, handle: handle, close: handle.Close, pin: pin, id: id, users: 1}
	cache.mu.Lock()
	cache.mapped[sha] = append(cache.mapped[sha], mine)
	delete(cache.stale, sha)
	cache.mu.Unlock()
	return handle, cache.newReleaser(mine), nil
}

// HasChanged reports whether a mapped copy of a content was written to, by another program, since it was checked. An
// Acquire from then on brings a new copy.
func (c *Cache) HasChanged(sha string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.mapped[sha], (*shared).hasChanged)
}

// joinMapping takes part in a mapping; nil when there is none that is as it was checked.
func (c *Cache) joinMapping(sha string, kind reflect.Type) *shared {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, found := range c.mapped[sha] {
		if found.kind == kind && !found.hasChanged() {
			found.users++
			delete(c.stale, sha) // it was asked for again
			return found
		}
	}
	return nil
}

func (c *Cache) newReleaser(mapping *shared) func() {
	sha := mapping.id.sha
	return sync.OnceFunc(func() {
		c.mu.Lock()
		mapping.users--
		last := mapping.users == 0
		stale := false
		if last {
			left := slices.DeleteFunc(c.mapped[sha], func(other *shared) bool { return other == mapping })
			if c.mapped[sha] = left; len(left) == 0 {
				delete(c.mapped, sha)
				stale = c.stale[sha]
				delete(c.stale, sha)
			}
		}
		c.mu.Unlock()
		if !last {
			return
		}
		mapping.close()
		_ = mapping.pin.Close()
		if stale {
			c.Forget(sha)
		}
	})
}

// Open brings a content and opens it; a copy that turns out damaged is brought once more. The caller closes what open
// gave, and does not share it: see Acquire.
func Open[T any](
	ctx context.Context, cache *Cache, store blob.Store, key, sha string, open func(path string) (T, error),
) (T, error) {
	var none T
	done, err := cache.takeTurn(ctx, sha)
	if err != nil {
		return none, err
	}
	defer done()
	handle, pin, err := openContent(ctx, cache, store, key, sha, open)
	if err != nil {
		return handle, err
	}
	return handle, pin.Close()
}

// openContent brings a content and opens it, twice where the first copy is damaged. The caller has the turn.
func openContent[T any](
	ctx context.Context, cache *Cache, store blob.Store, key, sha string, open func(path string) (T, error),
) (T, *os.File, error) {
	for again := false; ; again = true {
		pin, err := cache.pinContent(ctx, store, key, sha)
		if err != nil {
			var none T
			return none, nil, err
		}
		handle, err := open(cache.pathOf(sha))
		if err == nil {
			return handle, pin, nil
		}
		_ = pin.Close()
		if again || !fault.Is(err, fault.SegmentDamage) {
			return handle, nil, err
		}
		cache.Drop(sha)
	}
}
