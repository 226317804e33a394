package lexical

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
)

// best keeps the n best hits: a heap with the worst of them on top.
type best struct {
	hits   []Hit
	n      int
	before func(a, b uint32) bool // of rows whose scores are equal
	bar    *bar
}

// isWorse says which of two goes first when there are too many.
func (b *best) isWorse(one, than Hit) bool {
	return one.Score < than.Score || (one.Score == than.Score && b.before(than.Doc, one.Doc))
}

// bar is the score that a document needs, as far as all who search beside each other know. The zero value is ready:
// no score is below 0.
type bar struct{ bits atomic.Uint64 }

func (b *bar) readHeight() float64 { return math.Float64frombits(b.bits.Load()) }

// raiseBar lifts the bar. Floats that are not negative are in the order of their bits.
func (b *bar) raiseBar(score float64) {
	to := math.Float64bits(score)
	for {
		old := b.bits.Load()
		if to <= old || b.bits.CompareAndSwap(old, to) {
			return
		}
	}
}

// offerDoc takes a document whose score reaches the bar.
func (b *best) offerDoc(doc uint32, score float64) {
	hit := Hit{doc, score}
	if len(b.hits) < b.n {
		b.hits = append(b.hits, hit)
		b.siftUp(len(b.hits) - 1)
	} else if b.isWorse(b.hits[0], hit) {
		b.hits[0] = hit
		b.siftDown(0)
	} else {
		return
	}
	if len(b.hits) == b.n {
		b.bar.raiseBar(b.hits[0].Score)
	}
}

func (b *best) siftUp(at int) {
	for at > 0 {
		above := (at - 1) / 2
		if !b.isWorse(b.hits[at], b.hits[above]) {
			return
		}
		b.hits[at], b.hits[above] = b.hits[above], b.hits[at]
		at = above
	}
}

func (b *best) siftDown(at int) {
	for {
		worst := at
		for below := 2*at + 1; below <= 2*at+2 && below < len(b.hits); below++ {
			if b.isWorse(b.hits[below], b.hits[worst]) {
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

// rankHits gives the n best of all, by decreasing score and then before.
func rankHits(all []Hit, n int, before func(a, b uint32) bool) []Hit {
	slices.SortFunc(all, func(a, b Hit) int {
		switch {
		case a.Score != b.Score:
			return cmp.Compare(b.Score, a.Score)
		case before(a.Doc, b.Doc):
			return -1
		case before(b.Doc, a.Doc):
			return 1
		default:
			return 0
		}
	})
	return all[:min(n, len(all))]
}
