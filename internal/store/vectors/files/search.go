package files

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Search implements vectors.Store; a damaged row among the best is fault.SegmentDamage.
func (s *Store) Search(
	ctx context.Context, name string, question []float32, n int,
) (hits []vectors.Hit, err error) {
	err = s.withCollection(name, func(c *collection) (err error) {
		if err := vectors.Check(question, c.dim, "question"); err != nil {
			return err
		}
		if hits, err = c.searchRows(ctx, question, n); err != nil {
			return c.dropIdentity(err)
		}
		return ctx.Err()
	})
	return hits, err
}

func (c *collection) searchRows(ctx context.Context, question []float32, n int) ([]vectors.Hit, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.loaded {
		return nil, fault.StoreDown.At("search", filepath.Base(c.dir)).Because("the collection is not loaded")
	}
	if n <= 0 {
		return nil, nil
	}
	for extra := 0; ; {
		found, err := c.findCandidates(ctx, question, n+extra)
		if err != nil {
			return nil, err
		}
		hits, twice, err := c.scoreAll(question, found, n+extra)
		if err != nil {
			return nil, err
		}
		if twice <= extra {
			return hits[:min(n, len(hits))], nil
		}
		extra = twice // they took the places of others
	}
}

// scoreAll gives the hits of those candidates that may be among the n best, each key once, and how many rows it left
// out because the key is there twice: a crash during a merge or a repair may have left them so.
func (c *collection) scoreAll(question []float32, found []candidate, n int) (hits []vectors.Hit, twice int, err error) {
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(b.high, a.high) })
	best := newSmallest(n)
	hits = make([]vectors.Hit, 0, min(n, len(found)))
	const ahead = 2 // rows that lie anywhere: each waits for memory
	for i, k := range found {
		if i+ahead < len(found) {
			prefetchRow(c.parts[found[i+ahead].part].vectorAt(found[i+ahead].row))
		}
		if best.isFull() && float64(float32(k.high)) < best.leastValue() {
			break // and so are all that follow
		}
		p := c.parts[k.part]
		if !p.isWhole(k.row) {
			if _, _, elsewhere := c.findRow(p.keyAt(k.row)); elsewhere { // it was written again, and is a candidate itself
				twice++
				continue
			}
			return nil, 0, p.damagedRow("search vectors", k.row)
		}
		hit := vectors.Hit{Key: p.keyAt(k.row), Score: dot32(question, p.vectorAt(k.row))}
		best.add(float64(hit.Score))
		hits = append(hits, hit)
	}
	slices.SortFunc(hits, func(a, b vectors.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Key, b.Key))
	})
	once := slices.CompactFunc(hits, func(a, b vectors.Hit) bool { return a.Key == b.Key })
	return once, twice + len(hits) - len(once), nil
}
