package files

import (
	"context"
	"slices"
)

// Fetch implements vectors.Store.
func (s *Store) Fetch(_ context.Context, name string, keys []string) ([][]float32, error) {
	c, err := s.get(name)
	if err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([][]float32, len(keys))
	for i, k := range keys {
		for _, p := range c.parts {
			if at := p.find(k); at >= 0 {
				out[i] = slices.Clone(p.vec(at)) // the part may be unmapped later
				break
			}
		}
	}
	return out, nil
}
