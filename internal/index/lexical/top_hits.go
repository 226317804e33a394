package lexical

import (
	"container/heap"
	"math"
	"sync/atomic"
)

// best keeps the n best hits: a heap with the worst of them on top.
type best struct {
	hits []Hit
	n    int
	rank func(row uint32) uint32 // the order of rows whose scores are equal
	bar  *bar
}

// isWorse says which of two goes first when there are too many.
func (b *best) isWorse(one, than Hit) bool {
	return one.Score < than.Score || (one.Score == than.Score && b.rank(than.Doc) < b.rank(one.Doc))
}

// Len, Less, Swap, Push and Pop implement heap.Interface. Nothing is pushed or popped: Fix takes hits in and out.
func (b *best) Len() int           { return len(b.hits) }
func (b *best) Less(i, j int) bool { return b.isWorse(b.hits[i], b.hits[j]) }
func (b *best) Swap(i, j int)      { b.hits[i], b.hits[j] = b.hits[j], b.hits[i] }
func (b *best) Push(any)           {}
func (b *best) Pop() any           { return nil }

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
		heap.Fix(b, len(b.hits)-1)
	} else if b.isWorse(b.hits[0], hit) {
		b.hits[0] = hit
		heap.Fix(b, 0)
	} else {
		return
	}
	if len(b.hits) == b.n {
		b.bar.raiseBar(b.hits[0].Score)
	}
}
