package files

import (
	"context"
	"slices"
)

// Fetch implements vectors.Store; a damaged row is fault.SegmentDamage.
func (s *Store) Fetch(_ context.Context, name string, keys []string) (out [][]float32, err error) {
	err = s.withCollection(name, func(c *collection) (err error) {
		out, err = c.fetchVectors(keys)
		return c.dropIdentity(err)
	})
	return out, err
}

func (c *collection) fetchVectors(keys []string) ([][]float32, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([][]float32, len(keys))
	for i, key := range keys {
		p, row, whole := c.findRow(key)
		switch {
		case p == nil:
		case !whole:
			return nil, p.damagedRow("fetch vectors", row)
		default:
			out[i] = slices.Clone(p.vectorAt(row)) // the part may be unmapped later
		}
	}
	return out, nil
}

// findRow returns where a row lies, and whether it is whole there. Of several, which a merge or a repair that was cut
// off may leave, a whole one is found. The part is nil where there is none.
func (c *collection) findRow(key string) (found *part, row int, whole bool) {
	for _, p := range c.parts {
		at := p.findKey(key)
		if at < 0 {
			continue
		}
		if p.isWhole(at) {
			return p, at, true
		}
		found, row = p, at
	}
	return found, row, false
}
