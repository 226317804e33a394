package lexical

import (
	"cmp"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/format/postings"
	"github.com/unweaver/unweaver/internal/stream/par"
)

const (
	// windowDocs are summed at once: their sums stay in the cache beside a core.
	windowDocs = 1 << 14
	// postingsPerWorker are worth another goroutine.
	postingsPerWorker = 1 << 17
	// slack is more than sums of MaxTerms numbers in different orders differ by.
	slack = 1 + 1e-12
)

// Search gives the n best documents that are allowed (nil = all), by decreasing score; equal scores stand in order of
// rank (nil = the document's number). It is exact. allow is asked by one goroutine, rank by several.
//
//  1. The documents are gone through in windows, each worker through its own share of them.
//  2. A window whose lists together, by the maxima of their blocks, cannot reach the n-th best so far is left out.
//  3. Of the other windows, the lists that add least and together cannot reach it are not summed; what the others
//     give a document is, and with what the rest can add at most it is a candidate or not.
//  4. A candidate's score is summed in the order of the question's terms, so that it is the same on every path.
func (x *Index) Search(terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32) []Hit {
	if rank == nil {
		rank = func(d uint32) uint32 { return d }
	}
	lists := x.lists(terms)
	total := 0
	for i := range lists {
		total += len(lists[i].Docs)
	}
	if n <= 0 || total == 0 {
		return nil
	}
	workers := 1
	if allow == nil {
		workers = max(1, min(runtime.GOMAXPROCS(0), total/postingsPerWorker))
	}
	var shared bar
	scans := make([]scan, workers)
	docs := uint64(x.side.Documents())
	run := func(i int) {
		found := best{n: n, rank: rank, bar: &shared}
		scans[i] = scan{index: x, lists: slices.Clone(lists), allow: allow, best: found}
		scans[i].run(docs*uint64(i)/uint64(workers), docs*uint64(i+1)/uint64(workers))
	}
	var beside sync.WaitGroup
	fell := make([]error, workers)
	for i := 1; i < workers; i++ {
		beside.Go(func() {
			defer par.Caught(&fell[i])
			run(i)
		})
	}
	run(0)
	beside.Wait()
	if err := errors.Join(fell...); err != nil {
		panic(err) // where who asked expects it
	}
	all := scans[0].best.hits
	for i := range scans[1:] {
		all = append(all, scans[1+i].best.hits...)
	}
	return ranking(all, n)
}

// sums of one window. They are pooled, and empty outside of a window.
type sums struct {
	of    [windowDocs]float64
	found [windowDocs / 64]uint64 // bits of the documents that have one
}

var sumsPool = sync.Pool{New: func() any { return new(sums) }}

// part is what a list has in a window.
type part struct {
	list  int
	upper float64
	at    int // first posting of the window
	probe int // first posting that is not before the candidate at hand
	end   int // first posting behind the window
}

// scan goes through a share of the documents.
type scan struct {
	index *Index
	lists []list
	allow func(uint32) bool
	best  best

	at    []int // of each list, its first posting that was not gone through
	parts []part
	order []int // of parts, by increasing upper
	sums  *sums
}

// run scans the documents [lo, hi).
func (s *scan) run(lo, hi uint64) {
	s.sums = sumsPool.Get().(*sums)
	s.at = make([]int, len(s.lists))
	for i := range s.lists {
		s.at[i] = seek(s.lists[i].Docs, 0, lo)
	}
	for {
		base := hi
		for i := range s.lists {
			if at := s.at[i]; at < len(s.lists[i].Docs) {
				base = min(base, uint64(s.lists[i].Docs[at]))
			}
		}
		if base >= hi {
			sumsPool.Put(s.sums) // not where it falls: what it leaves would be added to another question's
			return
		}
		s.window(base, min(base+windowDocs, hi))
	}
}

// seek gives the first place from at on whose document is >= doc: by blocks, then inside one.
func seek(docs []uint32, at int, doc uint64) int {
	for at+postings.BlockSize <= len(docs) && uint64(docs[at+postings.BlockSize-1]) < doc {
		at += postings.BlockSize
	}
	lo, hi := at, min(at+postings.BlockSize, len(docs))
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); uint64(docs[m]) < doc {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// window goes through the documents [base, end).
func (s *scan) window(base, end uint64) {
	s.parts, s.order = s.parts[:0], s.order[:0]
	sum := 0.0
	for i := range s.lists {
		one, at := &s.lists[i], s.at[i]
		if at == len(one.Docs) || uint64(one.Docs[at]) >= end {
			continue
		}
		stop := seek(one.Docs, at, end)
		var largest float32
		for _, m := range one.Largest[at/postings.BlockSize : (stop-1)/postings.BlockSize+1] {
			largest = max(largest, m)
		}
		s.at[i] = stop
		s.order = append(s.order, len(s.parts))
		upper := one.idf * float64(largest)
		s.parts = append(s.parts, part{list: i, upper: upper, at: at, probe: at, end: stop})
		sum += upper
	}
	height := s.best.bar.height()
	if sum*slack < height {
		return
	}
	slices.SortFunc(s.order, func(i, j int) int { return cmp.Compare(s.parts[i].upper, s.parts[j].upper) })
	rest, left := 0.0, 0 // what the lists that are left out can add
	for left < len(s.order) && (rest+s.parts[s.order[left]].upper)*slack < height {
		rest += s.parts[s.order[left]].upper
		left++
	}
	summed := s.order[left:]
	if left > 0 {
		slices.Sort(summed)
		for _, i := range summed {
			s.add(&s.parts[i], uint32(base))
		}
	} else {
		for i := range s.parts {
			s.add(&s.parts[i], uint32(base))
		}
	}
	s.candidates(uint32(base), int(end-base), rest, left == 0)
}

// add sums what a list gives to its documents of the window.
func (s *scan) add(part *part, base uint32) {
	one := &s.lists[part.list]
	docs, counts, idf := one.Docs[part.at:part.end], one.Counts[part.at:part.end], one.idf
	of, found := &s.sums.of, &s.sums.found
	for i, doc := range docs {
		at := (doc - base) % windowDocs
		of[at] += idf * s.index.weight(counts[i], doc)
		found[at/64] |= 1 << (at % 64)
	}
}

// candidates takes the sums of a window up. rest is what lists that are not summed can add; exact says that there are
// none.
func (s *scan) candidates(base uint32, docs int, rest float64, exact bool) {
	height := s.best.bar.height()
	for word := range s.sums.found[:(docs+63)/64] {
		for set := s.sums.found[word]; set != 0; set &= set - 1 {
			at := word*64 + bits.TrailingZeros64(set)
			score := s.sums.of[at]
			s.sums.of[at] = 0
			doc := base + uint32(at)
			if exact {
				if score < height {
					continue
				}
			} else if (score+rest)*slack < height {
				continue
			} else if score = s.score(doc); score < height {
				continue
			}
			if s.allow == nil || s.allow(doc) {
				s.best.offer(doc, score)
				height = s.best.bar.height()
			}
		}
		s.sums.found[word] = 0
	}
}

// score sums what all lists give to a document, in their order. Documents are asked for in theirs.
func (s *scan) score(doc uint32) float64 {
	sum := 0.0
	for i := range s.parts {
		part := &s.parts[i]
		one := &s.lists[part.list]
		part.probe = seek(one.Docs[:part.end], part.probe, uint64(doc))
		if part.probe < part.end && one.Docs[part.probe] == doc {
			sum += one.idf * s.index.weight(one.Counts[part.probe], doc)
		}
	}
	return sum
}
