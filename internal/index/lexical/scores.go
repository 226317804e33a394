package lexical

import (
	"math/bits"

	"github.com/unweaver/unweaver/internal/index/postings"
)

// Scores are the scores of all rows that hold a term of a question, for who asks row by row and cannot tell before
// which rows those will be. They take a bit a row of the index, and eight bytes a row that holds a term.
type Scores struct {
	held   []uint64 // bits of the rows that hold a term
	before []uint32 // how many bits lie before each word of held
	sum    []float64
}

// ScoreAll sums the scores of all rows that hold a term, dead ones among them: those are not read. A score has every
// bit of what Search and Score give.
func (x *Index) ScoreAll(terms []string) *Scores {
	asked := x.openQuestion(terms)
	if asked.postings == 0 {
		return &Scores{}
	}
	words := (x.starts[len(x.parts)] + 63) / 64
	out := &Scores{held: make([]uint64, words), before: make([]uint32, words)}
	var cursor postings.Cursor
	for i := range x.parts {
		start := uint32(x.starts[i])
		for _, word := range asked.words {
			list := word.lists[i]
			cursor.Reset(list)
			for block := range list.Blocks() {
				cursor.Load(block)
				for _, doc := range cursor.Docs {
					row := start + doc
					out.held[row/64] |= 1 << (row % 64)
				}
			}
		}
	}
	rows := uint32(0)
	for i, word := range out.held {
		out.before[i] = rows
		rows += uint32(bits.OnesCount64(word))
	}
	out.sum = make([]float64, rows)
	for i := range x.parts {
		start, lengths := uint32(x.starts[i]), x.parts[i].Side.ShortLengths()
		for j, word := range asked.words { // in the order of the question's terms, as every sum of them
			list := word.lists[i]
			cursor.Reset(list)
			for block := range list.Blocks() {
				cursor.Load(block)
				for at, doc := range cursor.Docs {
					place, _ := out.placeOf(start + doc)
					out.sum[place] += float64(asked.idf[j] * x.weighTerm(cursor.Count(at), lengths.LengthOf(doc)))
				}
			}
		}
	}
	return out
}

// placeOf returns the place of a row among the sums; false where it holds no term.
func (s *Scores) placeOf(row uint32) (uint32, bool) {
	if int64(row/64) >= int64(len(s.held)) {
		return 0, false
	}
	word, bit := s.held[row/64], uint64(1)<<(row%64)
	if word&bit == 0 {
		return 0, false
	}
	return s.before[row/64] + uint32(bits.OnesCount64(word&(bit-1))), true
}

// ScoreOf returns the score of a row: 0 where it holds no term.
func (s *Scores) ScoreOf(row uint32) float64 {
	if place, ok := s.placeOf(row); ok {
		return s.sum[place]
	}
	return 0
}
