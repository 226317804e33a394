// Package lexical is BM25 over the postings of the search segment: exact top-n by block maxima.
package lexical

import (
	"container/heap"
	"math"
	"slices"
	"sort"

	"github.com/unweaver/unweaver/internal/format/postings"
)

// MaxTerms of a question are looked up; of more, the rarest.
const MaxTerms = 32

// Index searches one side of an open search segment. It is safe for concurrent use.
type Index struct{ side *postings.Side }

// New searches a side.
func New(side *postings.Side) *Index { return &Index{side} }

// Hit is a document with its score.
type Hit struct {
	Doc   uint32
	Score float64
}

// cursor walks the postings of one term.
type cursor struct {
	docs  []uint32
	tfs   []uint8
	max   []float32
	at    int
	cur   uint32 // docs[at], or ended
	idf   float64
	upper float64 // the largest weight of the term anywhere
	order int     // sums go by it, so that they do not depend on the path
}

const ended = math.MaxUint32

func (c *cursor) doc() uint32 { return c.cur }

// move sets the place.
func (c *cursor) move(at int) {
	c.at = at
	if c.cur = ended; at < len(c.docs) {
		c.cur = c.docs[at]
	}
}

// seek moves to the first document >= d: block by block, then inside one.
func (c *cursor) seek(d uint32) {
	if c.doc() >= d {
		return
	}
	b := c.at / postings.BlockSize
	for (b+1)*postings.BlockSize <= len(c.docs) && c.docs[(b+1)*postings.BlockSize-1] < d {
		b++
	}
	lo, hi := max(c.at, b*postings.BlockSize), min((b+1)*postings.BlockSize, len(c.docs))
	if lo < hi && c.docs[lo] >= d {
		c.move(lo)
		return
	}
	for lo < hi { // binary search, written out: it is the inner loop
		if m := int(uint(lo+hi) >> 1); c.docs[m] < d {
			lo = m + 1
		} else {
			hi = m
		}
	}
	c.move(lo)
}

// blockMax is the largest weight in the block of the first document >= d, and the block's last document.
func (c *cursor) blockMax(d uint32) (float64, uint32) {
	b := c.at / postings.BlockSize
	for (b+1)*postings.BlockSize <= len(c.docs) && c.docs[(b+1)*postings.BlockSize-1] < d {
		b++
	}
	if b >= len(c.max) {
		return 0, ended
	}
	last := uint32(ended - 1)
	if (b+1)*postings.BlockSize <= len(c.docs) {
		last = c.docs[(b+1)*postings.BlockSize-1]
	} else if n := len(c.docs); n > 0 {
		last = c.docs[n-1]
	}
	return c.idf * float64(c.max[b]), last
}

// worst is a heap with the worst kept hit on top.
type worst struct {
	hits []Hit
	rank func(uint32) uint32
}

func (h worst) Len() int { return len(h.hits) }
func (h worst) Less(i, j int) bool {
	a, b := h.hits[i], h.hits[j]
	return a.Score < b.Score || (a.Score == b.Score && h.rank(a.Doc) > h.rank(b.Doc))
}
func (h worst) Swap(i, j int) { h.hits[i], h.hits[j] = h.hits[j], h.hits[i] }
func (h *worst) Push(x any)   { h.hits = append(h.hits, x.(Hit)) }
func (h *worst) Pop() any     { n := len(h.hits) - 1; x := h.hits[n]; h.hits = h.hits[:n]; return x }

// cursors opens the terms of a question, each once.
func (x *Index) cursors(terms []string) []*cursor {
	seen := map[string]bool{}
	var cs []*cursor
	for _, t := range terms {
		if seen[t] {
			continue
		}
		seen[t] = true
		list, ok := x.side.Find(t)
		if !ok {
			continue
		}
		c := &cursor{
			docs:  list.Docs,
			tfs:   list.Counts,
			max:   list.Largest,
			idf:   x.side.IDF(len(list.Docs)),
			order: len(cs),
		}
		c.move(0)
		for _, m := range c.max {
			c.upper = max(c.upper, c.idf*float64(m))
		}
		cs = append(cs, c)
	}
	if len(cs) > MaxTerms {
		sort.SliceStable(cs, func(i, j int) bool { return cs[i].idf > cs[j].idf })
		cs = cs[:MaxTerms]
		sort.Slice(cs, func(i, j int) bool { return cs[i].order < cs[j].order })
	}
	for i, c := range cs {
		c.order = i
	}
	return cs
}

// Known tells whether any of the terms is indexed.
func (x *Index) Known(terms []string) bool {
	for _, t := range terms {
		if x.side.Has(t) {
			return true
		}
	}
	return false
}

// Weight is the idf of a term; 0 where it is not indexed.
func (x *Index) Weight(term string) float64 {
	list, ok := x.side.Find(term)
	if !ok {
		return 0
	}
	return x.side.IDF(len(list.Docs))
}

// Unknown is the idf of a term that is not indexed: it would be the rarest.
func (x *Index) Unknown() float64 { return x.side.IDF(0) }

// Holds tells of each term which of the documents have it. Documents are given in any order.
func (x *Index) Holds(terms []string, docs []uint32) [][]bool {
	out := make([][]bool, len(terms))
	for i, term := range terms {
		out[i] = make([]bool, len(docs))
		list, ok := x.side.Find(term)
		if !ok {
			continue
		}
		for j, doc := range docs {
			_, out[i][j] = slices.BinarySearch(list.Docs, doc)
		}
	}
	return out
}

// Search gives the n best documents that are allowed (nil = all), by decreasing score; equal scores stand in order of
// rank (nil = the document's number). It is exact: blocks are skipped only when they cannot hold one of the n
// (block-max WAND).
func (x *Index) Search(terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32) []Hit {
	if rank == nil {
		rank = func(d uint32) uint32 { return d }
	}
	h := &worst{rank: rank}
	cs := x.cursors(terms)
	parts := make([]float64, len(cs))
	threshold := func() float64 {
		if len(h.hits) < n {
			return -1
		}
		return h.hits[0].Score
	}
	for n > 0 && len(cs) > 0 {
		byDoc(cs)
		for len(cs) > 0 && cs[len(cs)-1].doc() == ended {
			cs = cs[:len(cs)-1]
		}
		bar := threshold()
		pivot, sum := -1, 0.0
		for i, c := range cs {
			if sum += c.upper; sum >= bar {
				pivot = i
				break
			}
		}
		if pivot < 0 {
			break
		}
		d := cs[pivot].doc()
		for pivot+1 < len(cs) && cs[pivot+1].doc() == d {
			pivot++
		}
		if next, ok := skip(cs, pivot, d, bar); ok {
			for _, c := range cs[:pivot+1] {
				c.seek(next)
			}
			continue
		}
		if cs[0].doc() != d {
			for _, c := range cs[:pivot] {
				if c.doc() < d {
					c.seek(d)
					break
				}
			}
			continue
		}
		if allow == nil || allow(d) {
			h.offer(x.score(cs[:pivot+1], d, parts), d, n)
		}
		for _, c := range cs[:pivot+1] {
			c.move(c.at + 1)
		}
	}
	sort.Slice(h.hits, func(i, j int) bool { return h.Less(j, i) })
	return h.hits
}

// byDoc sorts cursors that are nearly sorted.
func byDoc(cs []*cursor) {
	for i := 1; i < len(cs); i++ {
		c, d := cs[i], cs[i].doc()
		j := i
		for ; j > 0 && cs[j-1].doc() > d; j-- {
			cs[j] = cs[j-1]
		}
		cs[j] = c
	}
}

// skip tells whether no document from d to the end of the first block of cs[:pivot+1] can be good enough, and where
// to go on.
func skip(cs []*cursor, pivot int, d uint32, bar float64) (uint32, bool) {
	sum, end := 0.0, uint32(ended-1)
	for _, c := range cs[:pivot+1] {
		m, last := c.blockMax(d)
		sum += m
		end = min(end, last)
	}
	if sum >= bar {
		return 0, false
	}
	next := end + 1
	if pivot+1 < len(cs) {
		next = min(next, cs[pivot+1].doc())
	}
	return max(next, d+1), true
}

func (h *worst) offer(score float64, d uint32, n int) {
	if len(h.hits) < n {
		heap.Push(h, Hit{d, score})
		return
	}
	w := h.hits[0]
	if score > w.Score || (score == w.Score && h.rank(d) < h.rank(w.Doc)) {
		h.hits[0] = Hit{d, score}
		heap.Fix(h, 0)
	}
}

func (x *Index) score(cs []*cursor, d uint32, parts []float64) float64 {
	clear(parts)
	for _, c := range cs {
		parts[c.order] = c.idf * float64(postings.Weight(c.tfs[c.at], x.side.Lengths[d], x.side.Average))
	}
	s := 0.0
	for _, p := range parts {
		s += p
	}
	return s
}

// Score gives the scores of chosen documents, in their order.
func (x *Index) Score(terms []string, docs []uint32) []float64 {
	out := make([]float64, len(docs))
	order := make([]int, len(docs))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool { return docs[order[i]] < docs[order[j]] })
	for _, c := range x.cursors(terms) {
		for _, i := range order {
			if c.seek(docs[i]); c.doc() == docs[i] {
				out[i] += c.idf * float64(postings.Weight(c.tfs[c.at], x.side.Lengths[docs[i]], x.side.Average))
			}
		}
	}
	return out
}
