package lexical

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
)

// kept is a hit with its place among equals.
type kept struct {
	Hit
	rank uint32
}

// worse tells which of two goes first when there are too many.
func (k kept) worse(than kept) bool {
	return k.Score < than.Score || (k.Score == than.Score && k.rank > than.rank)
}

// best keeps the n best hits: a heap with the worst of them on top.
type best struct {
	hits []kept
	n    int
	rank func(uint32) uint32
	bar  *bar
}

// bar is the score that a document needs, as far as all who search beside each other know. The zero value is ready:
// no score is below 0.
type bar struct{ bits atomic.Uint64 }

func (b *bar) height() float64 { return math.Float64frombits(b.bits.Load()) }

// raise lifts the bar. Floats that are not negative are in the order of their bits.
func (b *bar) raise(score float64) {
	to := math.Float64bits(score)
	for {
		old := b.bits.Load()
		if to <= old || b.bits.CompareAndSwap(old, to) {
			return
		}
	}
}

// offer takes a document whose score reaches the bar.
func (b *best) offer(doc uint32, score float64) {
	hit := kept{Hit{doc, score}, b.rank(doc)}
	if len(b.hits) < b.n {
		b.hits = append(b.hits, hit)
		b.rise(len(b.hits) - 1)
	} else if b.hits[0].worse(hit) {
		b.hits[0] = hit
		b.sink(0)
	} else {
		return
	}
	if len(b.hits) == b.n {
		b.bar.raise(b.hits[0].Score)
	}
}

func (b *best) rise(at int) {
	for at > 0 {
		above := (at - 1) / 2
		if !b.hits[at].worse(b.hits[above]) {
			return
		}
		b.hits[at], b.hits[above] = b.hits[above], b.hits[at]
		at = above
	}
}

func (b *best) sink(at int) {
	for {
		worst := at
		for below := 2*at + 1; below <= 2*at+2 && below < len(b.hits); below++ {
			if b.hits[below].worse(b.hits[worst]) {
				worst = below
			}
		}
		if worst == at {
			return
		}
		b.hits[at], b.hits[worst] = b.hits[worst], b.hits[at]
		at = worst
	}
}

// ranking gives the n best of all, by decreasing score and then rank.
func ranking(all []kept, n int) []Hit {
	slices.SortFunc(all, func(a, b kept) int {
		if a.Score != b.Score {
			return cmp.Compare(b.Score, a.Score)
		}
		return cmp.Compare(a.rank, b.rank)
	})
	var out []Hit
	for _, hit := range all[:min(n, len(all))] {
		out = append(out, hit.Hit)
	}
	return out
}
