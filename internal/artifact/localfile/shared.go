package localfile

import (
	"context"
	"os"
	"reflect"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// mapKey names a mapping: a content may be opened as more than one kind of file.
type mapKey struct {
	sha  string
	kind reflect.Type
}

// shared is a mapping and how many use it.
type shared struct {
	handle any
	close  func()
	pin    *os.File // keeps the copy from eviction
	users  int
}

// Acquire gives the mapping of a content, one for all who use it in this process; open is called for the first, and the
// handle is closed when the last has released it. release may be called more than once. A copy that turns out damaged
// is brought once more.
func Acquire[T interface{ Close() }](
	ctx context.Context, cache *Cache, store blob.Store, key, sha string, open func(path string) (T, error),
) (handle T, release func(), err error) {
	id := mapKey{sha, reflect.TypeFor[T]()}
	if found := cache.join(id); found != nil {
		return found.handle.(T), cache.releaser(id, found), nil
	}
	done, err := cache.take(ctx, sha)
	if err != nil {
		return handle, nil, err
	}
	defer done()
	if found := cache.join(id); found != nil { // another opened it while this one waited
		return found.handle.(T), cache.releaser(id, found), nil
	}
	handle, pin, err := opened(ctx, cache, store, key, sha, open)
	if err != nil {
		return handle, nil, err
	}
	mine := &shared{handle: handle, close: handle.Close, pin: pin, users: 1}
	cache.mu.Lock()
	cache.mapped[id] = mine
	delete(cache.stale, sha)
	cache.mu.Unlock()
	return handle, cache.releaser(id, mine), nil
}

// join takes part in a mapping; nil when there is none.
func (c *Cache) join(id mapKey) *shared {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.mapped[id]
	if found != nil {
		found.users++
		delete(c.stale, id.sha) // it was asked for again
	}
	return found
}

func (c *Cache) releaser(id mapKey, mapping *shared) func() {
	return sync.OnceFunc(func() {
		c.mu.Lock()
		mapping.users--
		last := mapping.users == 0
		stale := false
		if last {
			delete(c.mapped, id)
			stale = c.stale[id.sha]
			delete(c.stale, id.sha)
		}
		c.mu.Unlock()
		if !last {
			return
		}
		mapping.close()
		_ = mapping.pin.Close()
		if stale {
			c.Forget(id.sha) // marks it again where it is mapped as another kind of file
		}
	})
}

// Open brings a content and opens it; a copy that turns out damaged is brought once more. The caller closes what open
// gave, and shares it with nobody: see Acquire.
func Open[T any](
	ctx context.Context, cache *Cache, store blob.Store, key, sha string, open func(path string) (T, error),
) (T, error) {
	var none T
	done, err := cache.take(ctx, sha)
	if err != nil {
		return none, err
	}
	defer done()
	handle, pin, err := opened(ctx, cache, store, key, sha, open)
	if err != nil {
		return handle, err
	}
	return handle, pin.Close()
}

// opened brings a content and opens it, twice where the first copy is damaged. The caller has the turn.
func opened[T any](
	ctx context.Context, cache *Cache, store blob.Store, key, sha string, open func(path string) (T, error),
) (T, *os.File, error) {
	for again := false; ; again = true {
		pin, err := cache.pinned(ctx, store, key, sha)
		if err != nil {
			var none T
			return none, nil, err
		}
		handle, err := open(cache.path(sha))
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
