package lexical

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/parallel"
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
// of rank (nil = the row's number). It is exact. allow is asked by one goroutine; rank by several, and of rows of equal
// scores alone.
//
//  1. The rows of all sides, one side after another, are gone through in windows, each worker through its own share of
//     them. A window has rows of as many sides as it holds. All workers know one bar: the n-th best score so far.
//  2. A window whose lists together, by the maxima of their blocks, cannot reach the bar is left out. Maxima are raised
//     from the average length of their own side to that of all (postings.Side.Raise).
//  3. Of the other windows, the lists that add least and together cannot reach it are not summed where they are longer
//     than the others; what these give a row is. Those lists are then looked into, the one that can add most first,
//     for the rows that can still reach the bar with what is left: the others are no candidates.
//  4. A candidate that lives has its score summed in the order of the question's terms, so that it is the same on every
//     path and in every side.
func (x *Index) Search(terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32) []Hit {
	if rank == nil {
		rank = func(row uint32) uint32 { return row }
	}
	if n <= 0 {
		return nil
	}
	asked := x.openQuestion(terms)
	if asked.postings == 0 {
		return nil
	}
	workers := 1
	if allow == nil {
		workers = max(1, min(runtime.GOMAXPROCS(0), asked.postings/postingsPerWorker))
	}
	var shared bar
	scans := make([]scan, workers)
	rows, chains := x.starts[len(x.parts)], x.chainsOf(asked)
	run := func(i int) {
		found := best{n: n, rank: rank, bar: &shared}
		scans[i] = scan{index: x, allow: allow, best: found}
		scans[i].scanRows(chains, rows*uint64(i)/uint64(workers), rows*uint64(i+1)/uint64(workers))
	}
	var beside sync.WaitGroup
	fell := make([]error, workers)
	for i := 1; i < workers; i++ {
		beside.Go(func() {
			defer parallel.CatchPanic(&fell[i])
			run(i)
		})
	}
	run(0)
	beside.Wait()
	if err := errors.Join(fell...); err != nil {
		panic(err) // where who asked expects it
	}
	var all []Hit
	for i := range scans {
		all = append(all, scans[i].best.hits...)
	}
	slices.SortFunc(all, func(a, b Hit) int {
		if a.Score == b.Score {
			return cmp.Compare(rank(a.Doc), rank(b.Doc))
		}
		return cmp.Compare(b.Score, a.Score)
	})
	return all[:min(n, len(all))]
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
	size  int  // postings of its blocks
	from  spot // first block of the window
	to    spot // its last
	probe spot // first block that does not end before the candidate at hand
}

// scanRows scans the rows [lo, hi) of all sides.
func (s *scan) scanRows(chains []chain, lo, hi uint64) {
	s.room = rooms.Get().(*room)
	s.lists = make([]list, len(chains))
	for i := range chains {
		s.lists[i] = list{chain: &chains[i], cursor: &s.room.cursors[i], open: -1}
	}
	for base := lo; ; {
		next := uint64(math.MaxUint64)
		for i := range s.lists {
			s.lists[i].seekRow(base)
			next = min(next, s.lists[i].next)
		}
		if next >= hi {
			break
		}
		base = min(next+windowDocs, hi)
		s.scanWindow(next, base)
	}
	rooms.Put(s.room) // not where it falls: what it leaves would be added to another question's
}

// searchDoc returns the first place whose document is not less. It takes as many steps wherever that is, without a jump
// that depends on what it finds.
func searchDoc(docs []uint32, doc uint32) int {
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
	allow func(uint32) bool
	best  best
	room  *room
	lists []list
	side  int // that the last candidate lies in

	// Of the window at hand:
	parts []part
	order []int     // of parts, by increasing upper
	rests []float64 // what the first of them can add together
}

// scanWindow goes through the documents [base, end).
func (s *scan) scanWindow(base, end uint64) {
	s.parts, s.order = s.parts[:0], s.order[:0]
	sum := 0.0
	for i := range s.lists {
		one := &s.lists[i]
		if one.next >= end {
			continue
		}
		upper, to, size := s.boundScore(one, end)
		at := spot{one.piece, one.at}
		s.order = append(s.order, len(s.parts))
		s.parts = append(s.parts, part{list: i, upper: upper, from: at, to: to, probe: at, size: size})
		sum += upper
	}
	height := s.best.bar.readHeight()
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
	left = s.worthLooking(left)
	summed := s.order[left:]
	if left > 0 {
		slices.Sort(summed)
		for _, i := range summed {
			s.addScores(&s.parts[i], base, end)
		}
	} else {
		for i := range s.parts {
			s.addScores(&s.parts[i], base, end)
		}
	}
	words := s.room.found[:(end-base+63)/64]
	for i := left - 1; i >= 0; i-- {
		s.lookUpRows(&s.parts[s.order[i]], words, base, s.rests[i+1])
	}
	s.offerCandidates(words, base, left == 0)
}

// worthLooking returns how many of the lists that could be left out are: to find a row in a list costs more than to sum
// a posting, so that a list that is no longer than those that are summed is summed with them. What is left can then add
// less, too.
func (s *scan) worthLooking(left int) int {
	held := 0
	for _, i := range s.order[left:] {
		held += s.parts[i].size
	}
	for left > 0 {
		size := s.parts[s.order[left-1]].size
		if size > held {
			break
		}
		held += size
		left--
	}
	return left
}

// boundScore returns what a list can add to a row before end, its last block that may hold one, and how many postings
// the blocks up to there have.
func (s *scan) boundScore(one *list, end uint64) (most float64, to spot, size int) {
	to = spot{one.piece, one.at}
	for at := to; ; {
		piece := &one.pieces[at.piece]
		size += min(postings.BlockSize, piece.Len()-at.block*postings.BlockSize)
		largest, raise := piece.MaxWeight(at.block), piece.raise
		if largest == 0 {
			largest, raise = s.maxWeight(one.loadBlock(at), piece.lengths), 1
		}
		most, to = max(most, one.idf*(float64(largest)*raise)), at
		if at = one.nextSpot(at); at.piece == len(one.pieces) || one.pieces[at.piece].firstRow(at.block) >= end {
			return most, to, size
		}
	}
}

// maxWeight returns the largest weight of a block.
func (s *scan) maxWeight(block *postings.Cursor, lengths postings.Lengths) (most float32) {
	for i, doc := range block.Docs {
		most = max(most, float32(s.index.weighTerm(block.Count(i), lengths.LengthOf(doc))))
	}
	return most
}

// addScores sums what a list gives to its rows of the window.
func (s *scan) addScores(part *part, base, end uint64) {
	one := &s.lists[part.list]
	for at := part.from; !part.to.isBefore(at); at = one.nextSpot(at) {
		piece, cursor := &one.pieces[at.piece], one.loadBlock(at)
		docs, counts := cursor.Docs, cursor.Counts()
		if at == part.from && base > piece.start {
			skipped := searchDoc(docs, uint32(base-piece.start))
			if docs = docs[skipped:]; counts != nil {
				counts = counts[skipped:]
			}
		}
		if piece.lastRow(at.block) >= end {
			docs = docs[:searchDoc(docs, uint32(end-piece.start))]
		}
		shift := uint32(piece.start - base) // wraps where the side begins before the window, and back
		if counts == nil {
			s.addOnce(one.idf, docs, piece.lengths, shift)
		} else {
			s.addMany(one.idf, docs, counts[:len(docs)], piece.lengths, shift)
		}
	}
}

// addOnce sums what a term gives to documents that hold it once.
func (s *scan) addOnce(idf float64, docs []uint32, lengths postings.Lengths, shift uint32) {
	of, found := &s.room.of, &s.room.found
	weights := (*[tabledLengths]float32)(s.index.weights[:])
	for _, doc := range docs {
		at, length := (doc+shift)%windowDocs, lengths.LengthOf(doc)
		if length < tabledLengths {
			of[at] += float64(idf * float64(weights[length]))
		} else {
			of[at] += float64(idf * s.index.weighTerm(1, length))
		}
		found[at/64] |= 1 << (at % 64)
	}
}

// addMany does the same for documents that hold it so many times.
func (s *scan) addMany(idf float64, docs []uint32, counts []uint8, lengths postings.Lengths, shift uint32) {
	of, found := &s.room.of, &s.room.found
	for i, doc := range docs {
		at := (doc + shift) % windowDocs
		of[at] += float64(idf * s.index.weighTerm(counts[i], lengths.LengthOf(doc)))
		found[at/64] |= 1 << (at % 64)
	}
}

// lookUpRows adds what a list that was not summed gives to the rows that can reach the bar with it and the rest of such
// lists, and drops the others.
func (s *scan) lookUpRows(part *part, words []uint64, base uint64, rest float64) {
	height := s.best.bar.readHeight()
	one := &s.lists[part.list]
	at := part.from
	piece := &one.pieces[at.piece]
	least, last := piece.firstRow(at.block), piece.lastRow(at.block) // of the block; above all rows behind the last one
	var docs []uint32                                                // of it, from the row at hand on; nil = not decoded
	for word := range words {
		for set := words[word]; set != 0; set &= set - 1 {
			place := word*64 + bits.TrailingZeros64(set)
			if (s.room.of[place]+rest)*slack < height {
				s.room.of[place] = 0
				words[word] &^= set & -set
				continue
			}
			row := base + uint64(place)
			for last < row {
				docs = nil
				if at == part.to {
					least, last = math.MaxUint64, math.MaxUint64
					break
				}
				at = one.nextSpot(at)
				piece = &one.pieces[at.piece]
				least, last = piece.firstRow(at.block), piece.lastRow(at.block)
			}
			if row < least {
				continue
			}
			if docs == nil {
				docs = one.loadBlock(at).Docs
			}
			doc := uint32(row - piece.start)
			if docs = docs[searchDoc(docs, doc):]; len(docs) == 0 { // nothing more is in the block
				least = last + 1
				continue
			}
			if docs[0] == doc {
				count := one.cursor.Count(len(one.cursor.Docs) - len(docs))
				s.room.of[place] += float64(one.idf * s.index.weighTerm(count, piece.lengths.LengthOf(doc)))
			}
		}
	}
}

// offerCandidates takes the sums of a window up; exact says that they are those of all lists, in their order. Others
// differ by less than slack.
func (s *scan) offerCandidates(words []uint64, base uint64, exact bool) {
	height := s.best.bar.readHeight()
	for word := range words {
		for set := words[word]; set != 0; set &= set - 1 {
			at := word*64 + bits.TrailingZeros64(set)
			score := s.room.of[at]
			s.room.of[at] = 0
			if (exact && score < height) || (!exact && score*slack < height) {
				continue
			}
			row := base + uint64(at)
			if s.isDead(row) { // it must not lift the bar
				continue
			}
			if !exact {
				if score = s.scoreRow(row); score < height {
					continue
				}
			}
			if s.allow == nil || s.allow(uint32(row)) {
				s.best.offerDoc(uint32(row), score)
				height = s.best.bar.readHeight()
			}
		}
		words[word] = 0
	}
}

// isDead reports whether a row is dead. Rows are asked for in their order.
func (s *scan) isDead(row uint64) bool {
	for s.index.starts[s.side+1] <= row {
		s.side++
	}
	dead := s.index.parts[s.side].Dead
	return dead != nil && dead.IsDead(int(row-s.index.starts[s.side]))
}

// scoreRow sums what all lists give to a row, in their order. Rows are asked for in theirs.
func (s *scan) scoreRow(row uint64) float64 {
	sum := 0.0
	for i := range s.parts {
		part := &s.parts[i]
		one := &s.lists[part.list]
		for part.probe != part.to && one.pieces[part.probe.piece].lastRow(part.probe.block) < row {
			part.probe = one.nextSpot(part.probe)
		}
		piece := &one.pieces[part.probe.piece]
		if row < piece.firstRow(part.probe.block) || piece.lastRow(part.probe.block) < row {
			continue
		}
		docs, doc := one.loadBlock(part.probe).Docs, uint32(row-piece.start)
		if at := searchDoc(docs, doc); at < len(docs) && docs[at] == doc {
			sum += float64(one.idf * s.index.weighTerm(one.cursor.Count(at), piece.lengths.LengthOf(doc)))
		}
	}
	return sum
}
