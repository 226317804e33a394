package lexical

import (
	"cmp"
	"errors"
	"math"
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
//     give a row is. Those lists are then looked into, the one that can add most first, for the rows that can still
//     reach the bar with what is left: the others are no candidates.
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

// room is what a scan works in. It is pooled; its sums are empty outside of a window.
type room struct {
	of      [windowDocs]float64
	found   [windowDocs / 64]uint64 // bits of the documents that have a sum
	cursors [MaxTerms]postings.Cursor
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// part is what a list has in a window.
type part struct {
	list  int
	upper float64
	from  int // first block of the window
	to    int // behind its last
	probe int // first block that does not end before the candidate at hand
}

// list is the postings that a side has of one term of a question.
type list struct {
	postings.List
	cursor *postings.Cursor
	idf    float64
	raise  float64 // of its maxima
	blocks int
	end    uint32  // its last document
	most   float32 // largest weight of a list that has no maximum

	at   int    // first block that was not gone through
	next uint64 // the next document is not before; math.MaxUint64 = there is none
}

// last document of a block.
func (l *list) last(block int) uint32 {
	if block == l.blocks-1 {
		return l.end
	}
	return l.Last(block)
}

// least is what a document of a block is not below.
func (l *list) least(block int) uint64 {
	if block == 0 {
		return 0
	}
	return uint64(l.Last(block-1)) + 1
}

// seek goes to the first block that has a document from doc on. Where the documents of a block lie far apart, the next
// one is looked up: windows between them are not gone through.
func (l *list) seek(doc uint64) {
	for l.at < l.blocks && uint64(l.last(l.at)) < doc {
		l.at++
	}
	if l.at == l.blocks {
		l.next = math.MaxUint64
		return
	}
	if l.next = max(doc, l.least(l.at)); uint64(l.last(l.at))-l.next > windowDocs/8 {
		l.cursor.Load(l.at)
		l.next = uint64(l.cursor.Docs[from(l.cursor.Docs, uint32(l.next))])
	}
}

// from is the first place whose document is not less. It takes as many steps wherever that is, without a jump that
// depends on what it finds.
func from(docs []uint32, doc uint32) int {
	at := 0
	for left := len(docs); left > 0; {
		half := (left + 1) / 2
		next := at + half
		if docs[next-1] < doc {
			at = next
		}
		left -= half
	}
	return at
}

// scan goes through a share of the rows.
type scan struct {
	index *Index
	asked question
	allow func(uint32) bool
	best  best
	room  *room

	// Of the side at hand:
	lengths []uint32
	dead    Rows   // nil = none
	start   uint32 // number of its first row
	lists   []list
	parts   []part
	order   []int     // of parts, by increasing upper
	rests   []float64 // what the first of them can add together
}

// share scans the rows [lo, hi) of all sides.
func (s *scan) share(lo, hi uint64) {
	s.room = rooms.Get().(*room)
	for i := range s.index.parts {
		start, end := s.index.starts[i], s.index.starts[i+1]
		if lo < end && start < hi && s.enter(i) {
			s.run(max(lo, start)-start, min(hi, end)-start)
		}
	}
	rooms.Put(s.room) // not where it falls: what it leaves would be added to another question's
}

// enter takes a side up; false where it holds none of the terms.
func (s *scan) enter(i int) bool {
	side := s.index.parts[i].Side
	s.lengths, s.dead, s.start = side.Lengths, s.index.parts[i].Dead, uint32(s.index.starts[i])
	raise := side.Raise(s.index.average)
	s.lists = s.lists[:0]
	for j, one := range s.asked.lists(i) {
		if one.Len() == 0 {
			continue
		}
		taken := list{List: one, cursor: &s.room.cursors[j], idf: s.asked.idf[j], raise: raise, blocks: one.Blocks()}
		taken.cursor.Reset(one)
		if one.Bounded() {
			taken.end = one.Last(taken.blocks - 1)
		} else {
			taken.cursor.Load(0)
			taken.end = taken.cursor.Docs[one.Len()-1]
			if one.Largest(0) == 0 {
				taken.most, taken.raise = s.heaviest(taken.cursor), 1
			}
		}
		s.lists = append(s.lists, taken)
	}
	return len(s.lists) > 0
}

// heaviest is the largest weight of the block at hand.
func (s *scan) heaviest(block *postings.Cursor) (most float32) {
	for i, doc := range block.Docs {
		most = max(most, float32(s.index.weight(block.Count(i), s.lengths[doc])))
	}
	return most
}

// run scans the rows [lo, hi) of the side at hand, by its own numbers.
func (s *scan) run(lo, hi uint64) {
	for base := lo; ; {
		next := uint64(math.MaxUint64)
		for i := range s.lists {
			s.lists[i].seek(base)
			next = min(next, s.lists[i].next)
		}
		if next >= hi {
			return
		}
		base = min(next+windowDocs, hi)
		s.window(next, base)
	}
}

// window goes through the documents [base, end).
func (s *scan) window(base, end uint64) {
	s.parts, s.order = s.parts[:0], s.order[:0]
	sum := 0.0
	for i := range s.lists {
		one := &s.lists[i]
		if one.next >= end {
			continue
		}
		largest, to := one.most, one.at
		for to == one.at || (to < one.blocks && one.least(to) < end) {
			largest = max(largest, one.Largest(to))
			to++
		}
		s.order = append(s.order, len(s.parts))
		upper := one.idf * (float64(largest) * one.raise)
		s.parts = append(s.parts, part{list: i, upper: upper, from: one.at, to: to, probe: one.at})
		sum += upper
	}
	height := s.best.bar.height()
	if sum*slack < height {
		return
	}
	slices.SortFunc(s.order, func(i, j int) int { return cmp.Compare(s.parts[i].upper, s.parts[j].upper) })
	rest, left := 0.0, 0 // what the lists that are left out can add
	s.rests = append(s.rests[:0], 0)
	for left < len(s.order) && (rest+s.parts[s.order[left]].upper)*slack < height {
		rest += s.parts[s.order[left]].upper
		s.rests = append(s.rests, rest)
		left++
	}
	summed := s.order[left:]
	if left > 0 {
		slices.Sort(summed)
		for _, i := range summed {
			s.add(&s.parts[i], base, end)
		}
	} else {
		for i := range s.parts {
			s.add(&s.parts[i], base, end)
		}
	}
	words := s.room.found[:(end-base+63)/64]
	for i := left - 1; i >= 0; i-- {
		s.look(&s.parts[s.order[i]], words, uint32(base), s.rests[i+1])
	}
	s.candidates(words, uint32(base), left == 0)
}

// add sums what a list gives to its documents of the window.
func (s *scan) add(part *part, base, end uint64) {
	one := &s.lists[part.list]
	for block := part.from; block < part.to; block++ {
		one.cursor.Load(block)
		docs, counts := one.cursor.Docs, one.cursor.Counts()
		if block == part.from {
			skipped := from(docs, uint32(base))
			if docs = docs[skipped:]; counts != nil {
				counts = counts[skipped:]
			}
		}
		if uint64(one.last(block)) >= end {
			docs = docs[:from(docs, uint32(end))]
		}
		if counts == nil {
			s.addOnce(one.idf, docs, uint32(base))
		} else {
			s.addMany(one.idf, docs, counts[:len(docs)], uint32(base))
		}
	}
}

// addOnce sums what a term gives to documents that hold it once.
func (s *scan) addOnce(idf float64, docs []uint32, base uint32) {
	of, found, lengths := &s.room.of, &s.room.found, s.lengths
	weights := (*[tabledLengths]float32)(s.index.weights[:])
	for _, doc := range docs {
		at, length := (doc-base)%windowDocs, lengths[doc]
		if length < tabledLengths {
			of[at] += float64(idf * float64(weights[length]))
		} else {
			of[at] += float64(idf * s.index.weight(1, length))
		}
		found[at/64] |= 1 << (at % 64)
	}
}

// addMany is the same for documents that hold it so many times.
func (s *scan) addMany(idf float64, docs []uint32, counts []uint8, base uint32) {
	of, found, lengths := &s.room.of, &s.room.found, s.lengths
	for i, doc := range docs {
		at := (doc - base) % windowDocs
		of[at] += float64(idf * s.index.weight(counts[i], lengths[doc]))
		found[at/64] |= 1 << (at % 64)
	}
}

// look adds what a list that was not summed gives to the documents that can reach the bar with it and the rest of such
// lists, and drops the others.
func (s *scan) look(part *part, words []uint64, base uint32, rest float64) {
	height := s.best.bar.height()
	one := &s.lists[part.list]
	cursor, block := one.cursor, part.from
	var docs []uint32
	for word := range words {
		for set := words[word]; set != 0; set &= set - 1 {
			at := word*64 + bits.TrailingZeros64(set)
			if (s.room.of[at]+rest)*slack < height {
				s.room.of[at] = 0
				words[word] &^= set & -set
				continue
			}
			doc := base + uint32(at)
			for block < part.to && one.last(block) < doc {
				block++
				docs = nil
			}
			if block == part.to || one.least(block) > uint64(doc) {
				continue
			}
			if docs == nil {
				cursor.Load(block)
				docs = cursor.Docs
			}
			docs = docs[from(docs, doc):]
			if docs[0] == doc {
				count := cursor.Count(len(cursor.Docs) - len(docs))
				s.room.of[at] += float64(one.idf * s.index.weight(count, s.lengths[doc]))
			}
		}
	}
}

// candidates takes the sums of a window up; exact says that they are those of all lists, in their order. Others differ
// by less than slack.
func (s *scan) candidates(words []uint64, base uint32, exact bool) {
	height := s.best.bar.height()
	for word := range words {
		for set := words[word]; set != 0; set &= set - 1 {
			at := word*64 + bits.TrailingZeros64(set)
			score := s.room.of[at]
			s.room.of[at] = 0
			doc := base + uint32(at)
			if (exact && score < height) || (!exact && score*slack < height) {
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
		words[word] = 0
	}
}

// score sums what all lists give to a document, in their order. Documents are asked for in theirs.
func (s *scan) score(doc uint32) float64 {
	sum := 0.0
	for i := range s.parts {
		part := &s.parts[i]
		one := &s.lists[part.list]
		for part.probe < part.to && one.last(part.probe) < doc {
			part.probe++
		}
		if part.probe == part.to || one.least(part.probe) > uint64(doc) {
			continue
		}
		one.cursor.Load(part.probe)
		docs := one.cursor.Docs
		if at := from(docs, doc); docs[at] == doc {
			sum += float64(one.idf * s.index.weight(one.cursor.Count(at), s.lengths[doc]))
		}
	}
	return sum
}
