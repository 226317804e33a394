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

// Search gives the n best rows that live and are allowed (nil = all), by decreasing score; equal scores stand in order
// of rank (nil = the row's number). It is exact. allow is asked by one goroutine, rank by several.
func (x *Index) Search(terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32) []Hit {
	if rank == nil {
		return x.SearchBy(terms, n, allow, nil)
	}
	return x.SearchBy(terms, n, allow, func(a, b uint32) bool { return rank(a) < rank(b) })
}

// SearchBy is Search with an order of rows that need have no numbers: before tells which of two rows stands first where
// their scores are equal (nil = the one of the lesser number). It is asked by several goroutines, and of rows of equal
// scores alone.
//
//  1. The rows of all sides, one side after another, are gone through in windows, each worker through its own share of
//     them. All workers and sides know one bar: the n-th best score so far.
//  2. A window whose lists together, by the maxima of their blocks, cannot reach the bar is left out. Maxima are raised
//     from the average length of their own side to that of all (postings.Side.Raise).
//  3. Of the other windows, the lists that add least and together cannot reach it are not summed; what the others
//     give a row is, and with what the rest can add at most it is a candidate or not.
//  4. A candidate that lives has its score summed in the order of the question's terms, so that it is the same on every
//     path and in every side.
func (x *Index) SearchBy(terms []string, n int, allow func(uint32) bool, before func(a, b uint32) bool) []Hit {
	if before == nil {
		before = func(a, b uint32) bool { return a < b }
	}
	if n <= 0 {
		return nil
	}
	asked := x.question(terms)
	if asked.postings == 0 {
		return nil
	}
	workers := 1
	if allow == nil {
		workers = max(1, min(runtime.GOMAXPROCS(0), asked.postings/postingsPerWorker))
	}
	var shared bar
	scans := make([]scan, workers)
	rows := x.starts[len(x.parts)]
	run := func(i int) {
		found := best{n: n, before: before, bar: &shared}
		scans[i] = scan{index: x, asked: asked, allow: allow, best: found}
		scans[i].share(rows*uint64(i)/uint64(workers), rows*uint64(i+1)/uint64(workers))
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
	return ranking(all, n, before)
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

// list is the postings that a side has of one term of a question.
type list struct {
	postings.List
	idf float64
}

// scan goes through a share of the rows.
type scan struct {
	index *Index
	asked question
	allow func(uint32) bool
	best  best
	sums  *sums

	// Of the side at hand:
	lengths []uint32
	dead    Rows    // nil = none
	start   uint32  // number of its first row
	raise   float64 // of its maxima
	lists   []list
	at      []int // of each list, its first posting that was not gone through
	parts   []part
	order   []int // of parts, by increasing upper
}

// share scans the rows [lo, hi) of all sides.
func (s *scan) share(lo, hi uint64) {
	s.sums = sumsPool.Get().(*sums)
	for i := range s.index.parts {
		start, end := s.index.starts[i], s.index.starts[i+1]
		if lo < end && start < hi && s.enter(i) {
			s.run(max(lo, start)-start, min(hi, end)-start)
		}
	}
	sumsPool.Put(s.sums) // not where it falls: what it leaves would be added to another question's
}

// enter takes a side up; false where it holds none of the terms.
func (s *scan) enter(i int) bool {
	side := s.index.parts[i].Side
	s.lists = s.lists[:0]
	for j, one := range s.asked.lists(i) {
		if len(one.Docs) > 0 {
			s.lists = append(s.lists, list{one, s.asked.idf[j]})
		}
	}
	s.lengths, s.dead, s.start = side.Lengths, s.index.parts[i].Dead, uint32(s.index.starts[i])
	s.raise = side.Raise(s.index.average)
	return len(s.lists) > 0
}

// run scans the rows [lo, hi) of the side at hand, by its own numbers.
func (s *scan) run(lo, hi uint64) {
	s.at = s.at[:0]
	for i := range s.lists {
		s.at = append(s.at, seek(s.lists[i].Docs, 0, lo))
	}
	for {
		base := hi
		for i := range s.lists {
			if at := s.at[i]; at < len(s.lists[i].Docs) {
				base = min(base, uint64(s.lists[i].Docs[at]))
			}
		}
		if base >= hi {
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
		upper := one.idf * (float64(largest) * s.raise)
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
	of, found, lengths := &s.sums.of, &s.sums.found, s.lengths
	for i, doc := range docs {
		at := (doc - base) % windowDocs
		of[at] += float64(idf * s.index.weight(counts[i], lengths[doc]))
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
			if (exact && score < height) || (!exact && (score+rest)*slack < height) {
				continue
			}
			if s.dead != nil && s.dead.Dead(int(doc)) { // it must not lift the bar
				continue
			}
			if !exact {
				if score = s.score(doc); score < height {
					continue
				}
			}
			if row := s.start + doc; s.allow == nil || s.allow(row) {
				s.best.offer(row, score)
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
			sum += float64(one.idf * s.index.weight(one.Counts[part.probe], s.lengths[doc]))
		}
	}
	return sum
}
