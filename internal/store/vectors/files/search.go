package files

import (
	"container/heap"
	"context"
	"path/filepath"
	"runtime"
	"sort"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// cand is a candidate of the int8 scan.
type cand struct {
	part, row int
	score     float32
}

type candHeap []cand

func (h candHeap) Len() int           { return len(h) }
func (h candHeap) Less(i, j int) bool { return h[i].score < h[j].score }
func (h candHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *candHeap) Push(x any)        { *h = append(*h, x.(cand)) }
func (h *candHeap) Pop() any {
	o := *h
	x := o[len(o)-1]
	*h = o[:len(o)-1]
	return x
}

// oversample is how many candidates of the int8 scan are rescored for each result: 50 of 10 gave
// recall 1 on 100,000 rows.
const oversample = 4

// Search implements vectors.Store; a damaged row among the best is fault.SegmentDamage.
func (s *Store) Search(ctx context.Context, name string, question []float32, n int) ([]vectors.Hit, error) {
	c, err := s.get(name)
	if err != nil {
		return nil, err
	}
	if err := vectors.Check(question, c.dim, "question"); err != nil {
		return nil, err
	}
	hits, err := c.search(ctx, question, n)
	if err != nil {
		return nil, c.doubt(err)
	}
	return hits, ctx.Err()
}

func (c *collection) search(ctx context.Context, question []float32, n int) ([]vectors.Hit, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.loaded {
		return nil, fault.StoreDown.At("search", filepath.Base(c.dir)).Because("the collection is not loaded")
	}
	keep := oversample*n + 40
	q := make([]int8, c.dim)
	scale := quantise(question, q)
	cands, err := c.scanAll(ctx, q, scale, keep)
	if err != nil {
		return nil, err
	}
	hits := make([]vectors.Hit, 0, len(cands))
	for _, k := range cands {
		p := c.parts[k.part]
		if !p.whole(k.row) {
			if _, _, elsewhere := c.find(p.key(k.row)); elsewhere { // it was written again, and is a candidate itself
				continue
			}
			return nil, p.damagedRow("search vectors", k.row)
		}
		hits = append(hits, vectors.Hit{Key: p.key(k.row), Score: dot32(question, p.vec(k.row))})
	}
	sort.Slice(hits, func(i, j int) bool {
		if hits[i].Score != hits[j].Score {
			return hits[i].Score > hits[j].Score
		}
		return hits[i].Key < hits[j].Key
	})
	out := hits[:0]
	for _, h := range hits { // a crash during a merge may have left a row twice
		if len(out) == 0 || out[len(out)-1].Key != h.Key {
			out = append(out, h)
		}
	}
	return out[:min(n, len(out))], nil
}

// scanAll scans all parts, large ones in slices on all cores.
func (c *collection) scanAll(ctx context.Context, q []int8, scale float32, keep int) ([]cand, error) {
	type job struct{ part, lo, hi int }
	var jobs []job
	const slice = 16384
	for pi, p := range c.parts {
		for lo := 0; lo < p.n; lo += slice {
			jobs = append(jobs, job{pi, lo, min(lo+slice, p.n)})
		}
	}
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	found := make([]candHeap, workers)
	err := par.Each(ctx, workers, workers, func(_ context.Context, w int) error {
		h := make(candHeap, 0, keep+1)
		for j := w; j < len(jobs); j += workers {
			h = c.parts[jobs[j].part].scan(jobs[j].part, jobs[j].lo, jobs[j].hi, q, scale, keep, h)
		}
		found[w] = h
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all candHeap
	for _, h := range found {
		all = append(all, h...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].score > all[j].score })
	return all[:min(keep, len(all))], nil
}

func (p *part) scan(id, lo, hi int, q []int8, scale float32, keep int, h candHeap) candHeap {
	for i := lo; i < hi; i++ {
		if p.dead.has(i) {
			continue
		}
		sc := float32(dot8(q, p.q[i*p.dim:(i+1)*p.dim])) * scale * p.scales[i]
		if len(h) < keep {
			heap.Push(&h, cand{id, i, sc})
		} else if sc > h[0].score {
			h[0] = cand{id, i, sc}
			heap.Fix(&h, 0)
		}
	}
	return h
}
