package files

import (
	"context"
	"slices"
)

// Fetch implements vectors.Store; a damaged row is fault.SegmentDamage.
func (s *Store) Fetch(_ context.Context, name string, keys []string) (out [][]float32, err error) {
	err = s.on(name, func(c *collection) (err error) {
		out, err = c.fetch(keys)
		return c.doubt(err)
	})
	return out, err
}

func (c *collection) fetch(keys []string) ([][]float32, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([][]float32, len(keys))
	for i, key := range keys {
		p, row, whole := c.find(key)
		switch {
		case p == nil:
		case !whole:
			return nil, p.damagedRow("fetch vectors", row)
		default:
			out[i] = slices.Clone(p.vec(row)) // the part may be unmapped later
		}
	}
	return out, nil
}

// find is where a row lies, and whether it is whole there. Of several, which a merge or a repair that was cut off may
// leave, a whole one is found. The part is nil where there is none.
func (c *collection) find(key string) (found *part, row int, whole bool) {
	for _, p := range c.parts {
		at := p.find(key)
		if at < 0 {
			continue
		}
		if p.whole(at) {
			return p, at, true
		}
		found, row = p, at
	}
	return found, row, false
}
