package postings

import (
	"iter"
	"math"
	"strconv"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Side is one side of an open segment. Its slices are mapped files: they are valid until the file is closed.
type Side struct {
	stats  Stats
	dict   []byte
	groups []group
	lists  []byte
	blocks []block

	Lengths []uint32 // terms of each document
	Average float64  // length of a document

	shortOnce sync.Once
	short     []uint8 // see Lengths

	headsOnce sync.Once
	heads     []uint64 // of the terms that groups begin with
}

// Open views a side of a file that holds what Builder.Write wrote under the prefix.
func Open(file *mapped.File, prefix string, stats Stats) *Side {
	return &Side{
		stats: stats, Lengths: mapped.ViewSection[uint32](file, prefix+"len"), Average: stats.Totals().Average(),
		dict: file.Bytes(prefix + "dict"), groups: mapped.ViewSection[group](file, prefix+"dict_at"),
		lists: file.Bytes(prefix + "lists"), blocks: mapped.ViewSection[block](file, prefix+"blocks"),
	}
}

// CheckAnalyser returns fault.FormatUnknown where the words of a file, of a kind, were cut by another analyser than
// questions are; asked is empty for who looks up no word.
func CheckAnalyser(kind, path, cut, asked string) error {
	if asked == "" || cut == asked {
		return nil
	}
	return fault.FormatUnknown.At("open "+kind, path).
		Because("its words were cut by analyser " + strconv.Quote(cut) + ", questions are cut by " + asked).
		Advise("build the index again with: unweaver index, or use the program version that built it")
}

// Stats returns the statistics of the side, as Open was given them.
func (s *Side) Stats() Stats { return s.stats }

// Documents returns how many there are.
func (s *Side) Documents() int { return int(s.stats.Documents) }

// Lists yields the terms in order, each with its postings.
func (s *Side) Lists() iter.Seq2[string, List] {
	return func(yield func(string, List) bool) {
		all := entries{side: s}
		var term []byte
		for all.at < len(s.dict) && all.next() {
			term = append(term[:all.shared], all.suffix...)
			if !yield(string(term), all.list) {
				return
			}
		}
	}
}

// RaiseFactor returns what a block's maximum is multiplied with so that no posting of the block weighs more where
// documents are of another average length than those of this side, for which the maxima were computed.
//
// With an average that is not greater nothing weighs more: each step of Weight is rounded monotonically. With one that
// is c times as great a weight is less than c times what it was; the stored maximum and the weight are both rounded to
// 24 bits, which the last factor is twice as much as.
func (s *Side) RaiseFactor(average float64) float64 {
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

// Totals returns the totals of a side.
func (s Stats) Totals() Totals { return Totals{uint64(s.Documents), s.Terms} }

// IDF returns the inverse document frequency of a term that so many documents hold: ln(1 + (N - df + 0.5)/(df + 0.5)).
func (t Totals) IDF(df uint64) float64 {
	holding := float64(df)
	return math.Log(1 + (float64(t.Documents)-holding+0.5)/(holding+0.5))
}

// Average returns the average length of the documents, 1 where there are none or they are empty.
func (t Totals) Average() float64 {
	if t.Documents == 0 || t.Terms == 0 {
		return 1
	}
	return float64(t.Terms) / float64(t.Documents)
}

// longest is how many times the average length a document counts as at most. Beside hundreds of rows of a table a page
// of a log is a hundred times the average, and no word in it would count.
const longest = 3

// Weight returns BM25's factor of a term that a document of a length holds tf times, without its idf. Products are
// rounded before they are added, so that it has the same bits on machines that could do both at once.
func Weight(tf uint8, length uint32, average float64) float32 {
	count := float64(tf)
	norm := float64(K1 * (1 - B + min(float64(B*float64(length))/average, B*longest)))
	return float32(float64(count*(K1+1)) / (count + norm))
}
