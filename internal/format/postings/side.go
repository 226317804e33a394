package postings

import (
	"iter"
	"math"

	"github.com/unweaver/unweaver/internal/format/mapped"
)

// Side is one side of an open search segment. Its slices are mapped files: they are valid until the file is closed.
type Side struct {
	terms   mapped.Strings
	bytes   []byte   // of terms
	ends    []uint64 // of terms
	post    []uint64
	block   []uint64
	doc     []uint32
	tf      []uint8
	largest []float32
	stats   Stats

	Lengths []uint32 // terms of each document
	Average float64  // length of a document
}

// Open views a side of a file that holds what Builder.Write wrote under the prefix.
func Open(file *mapped.File, prefix string, stats Stats) *Side {
	return &Side{
		terms:   mapped.StringsOf(file, prefix+"terms", prefix+"term_end"),
		bytes:   file.Bytes(prefix + "terms"),
		ends:    mapped.Slice[uint64](file, prefix+"term_end"),
		post:    mapped.Slice[uint64](file, prefix+"post"),
		block:   mapped.Slice[uint64](file, prefix+"block"),
		doc:     mapped.Slice[uint32](file, prefix+"doc"),
		tf:      mapped.Slice[uint8](file, prefix+"tf"),
		largest: mapped.Slice[float32](file, prefix+"max"),
		stats:   stats,
		Lengths: mapped.Slice[uint32](file, prefix+"len"),
		Average: Average(stats),
	}
}

// Stats of the side, as Open was given them.
func (s *Side) Stats() Stats { return s.stats }

// Documents is how many there are.
func (s *Side) Documents() int { return int(s.stats.Documents) }

// Fits tells whether the sections have the lengths that the statistics and each other ask for, and whether every list
// lies within them, rises, and names documents of the side; a reader that goes on with a side that does not fit would
// reach behind its ends.
func (s *Side) Fits() bool {
	terms := s.terms.Len()
	if len(s.Lengths) != s.Documents() || len(s.post) != terms+1 || len(s.block) != terms+1 || len(s.tf) != len(s.doc) {
		return false
	}
	if !s.terms.Fits() || !mapped.Starts(s.post, len(s.doc)) || !mapped.Starts(s.block, len(s.largest)) {
		return false
	}
	for term := range terms {
		postings := s.post[term+1] - s.post[term]
		if s.block[term+1]-s.block[term] != (postings+BlockSize-1)/BlockSize {
			return false
		}
	}
	return mapped.Below(s.doc, s.Documents()) && mapped.Rising(s.doc, s.post)
}

// List is the postings of one term.
type List struct {
	Docs    []uint32  // increasing
	Counts  []uint8   // of the term in each document; 255 = at least
	Largest []float32 // weight without idf, of each block of BlockSize postings
}

// Find gives the postings of a term; false when no document holds it.
func (s *Side) Find(term string) (List, bool) {
	i := s.Place(term)
	if i < 0 {
		return List{}, false
	}
	return s.List(i), true
}

// Place is where a term stands in the order of the side's terms; -1 when no document holds it. A question asks every
// side for every term, so terms are compared where they lie.
func (s *Side) Place(term string) int {
	lo, hi := 0, len(s.ends)
	for lo < hi {
		middle := int(uint(lo+hi) >> 1)
		if string(s.term(middle)) < term {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	if lo < len(s.ends) && string(s.term(lo)) == term {
		return lo
	}
	return -1
}

func (s *Side) term(i int) []byte {
	start := uint64(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	return s.bytes[start:s.ends[i]]
}

// List is the postings of the term at a place.
func (s *Side) List(i int) List {
	lo, hi := s.post[i], s.post[i+1]
	return List{Docs: s.doc[lo:hi], Counts: s.tf[lo:hi], Largest: s.largest[s.block[i]:s.block[i+1]]}
}

// Frequency is how many documents hold the term at a place.
func (s *Side) Frequency(i int) int { return int(s.post[i+1] - s.post[i]) }

// Has tells whether a document holds the term.
func (s *Side) Has(term string) bool { return s.Place(term) >= 0 }

// Lists goes through the terms in order, each with its postings.
func (s *Side) Lists() iter.Seq2[string, List] {
	return func(yield func(string, List) bool) {
		for i := range s.terms.Len() {
			if !yield(s.terms.At(i), s.List(i)) {
				return
			}
		}
	}
}

// Raise is what a block's maximum is multiplied with so that no posting of the block weighs more where documents are
// of another average length than those of this side, for which the maxima were computed.
//
// With an average that is not greater nothing weighs more: each step of Weight is rounded monotonically. With one that
// is c times as great a weight is less than c times what it was; the stored maximum and the weight are both rounded to
// 24 bits, which the last factor is twice as much as.
func (s *Side) Raise(average float64) float64 {
	if average <= s.Average {
		return 1
	}
	return average / s.Average * (1 + 0x1p-22)
}

// Totals are what weights of terms depend on: sums over sides, less what is dead in them. They are integers, so that
// they do not depend on how documents are spread over sides.
type Totals struct {
	Documents uint64
	Terms     uint64 // of all documents together
}

// Totals of a side.
func (s Stats) Totals() Totals { return Totals{uint64(s.Documents), s.Terms} }

// IDF of a term that so many documents hold: ln(1 + (N - df + 0.5)/(df + 0.5)).
func (t Totals) IDF(df uint64) float64 {
	holding := float64(df)
	return math.Log(1 + (float64(t.Documents)-holding+0.5)/(holding+0.5))
}

// Average length of the documents.
func (t Totals) Average() float64 {
	if t.Documents == 0 || t.Terms == 0 {
		return 1
	}
	return float64(t.Terms) / float64(t.Documents)
}

// Average length of a side's documents.
func Average(stats Stats) float64 { return stats.Totals().Average() }

// Weight is BM25's factor of a term that a document of a length holds tf times, without its idf. Products are rounded
// before they are added, so that it has the same bits on machines that could do both at once.
func Weight(tf uint8, length uint32, average float64) float32 {
	count := float64(tf)
	norm := float64(K1 * (1 - B + float64(B*float64(length))/average))
	return float32(float64(count*(K1+1)) / (count + norm))
}
