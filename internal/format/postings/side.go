package postings

import (
	"math"

	"github.com/unweaver/unweaver/internal/format/mapped"
)

// Side is one side of an open search segment. Its slices are mapped files: they are valid until the file is closed.
type Side struct {
	terms   mapped.Strings
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
	i := s.terms.Find(term)
	if i < 0 {
		return List{}, false
	}
	lo, hi := s.post[i], s.post[i+1]
	return List{Docs: s.doc[lo:hi], Counts: s.tf[lo:hi], Largest: s.largest[s.block[i]:s.block[i+1]]}, true
}

// Has tells whether a document holds the term.
func (s *Side) Has(term string) bool { return s.terms.Find(term) >= 0 }

// IDF of a term that so many documents hold: ln(1 + (N - df + 0.5)/(df + 0.5)).
func (s *Side) IDF(df int) float64 {
	holding := float64(df)
	return math.Log(1 + (float64(s.stats.Documents)-holding+0.5)/(holding+0.5))
}

// Average length of a side's documents.
func Average(stats Stats) float64 {
	if stats.Documents == 0 || stats.Terms == 0 {
		return 1
	}
	return float64(stats.Terms) / float64(stats.Documents)
}

// Weight is BM25's factor of a term that a document of a length holds tf times, without its idf.
func Weight(tf uint8, length uint32, average float64) float32 {
	count := float64(tf)
	return float32(count * (K1 + 1) / (count + K1*(1-B+B*float64(length)/average)))
}
