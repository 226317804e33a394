package answer

import (
	"container/list"
	"context"
	"sync"

	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// maxEmbeds questions are remembered in the process, never on disk.
const maxEmbeds = 10_000

// embedCache remembers question vectors by fingerprint and exact text; equal questions in flight are embedded once.
type embedCache struct {
	mu    sync.Mutex
	order *list.List // the newest in front
	byKey map[string]*list.Element
}

type embedEntry struct {
	key  string
	done chan struct{}
	vec  []float32
	used int64
	err  error
}

func newEmbedCache() *embedCache {
	return &embedCache{order: list.New(), byKey: map[string]*list.Element{}}
}

// get returns a vector, and asks f where none is cached; cached reports that this call paid nothing.
func (c *embedCache) get(
	ctx context.Context,
	key string,
	f func(context.Context) ([]float32, int64, error),
) (vec []float32, used int64, cached bool, err error) {
	c.mu.Lock()
	if el := c.byKey[key]; el != nil {
		c.order.MoveToFront(el)
		entry := el.Value.(*embedEntry)
		c.mu.Unlock()
		select {
		case <-entry.done:
		case <-ctx.Done():
			return nil, 0, false, ctx.Err()
		}
		if entry.err == nil {
			return entry.vec, entry.used, true, nil
		}
		vec, used, err = f(ctx) // the other call may have failed by the deadline of its caller
		return vec, used, false, err
	}
	e := &embedEntry{key: key, done: make(chan struct{})}
	c.byKey[key] = c.order.PushFront(e)
	if c.order.Len() > maxEmbeds {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(*embedEntry).key)
	}
	c.mu.Unlock()
	func() {
		defer parallel.CatchPanic(&e.err) // others wait for the end of this
		e.vec, e.used, e.err = f(ctx)
	}()
	close(e.done)
	if e.err != nil {
		c.mu.Lock()
		if el := c.byKey[key]; el != nil && el.Value == e {
			c.order.Remove(el)
			delete(c.byKey, key)
		}
		c.mu.Unlock()
	}
	return e.vec, e.used, false, e.err
}
