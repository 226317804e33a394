package lexical

import "github.com/unweaver/unweaver/internal/index/postings"

// New searches one side, all of whose rows live.
func New(side *postings.Side) *Index {
	index, err := Compose([]Part{{Side: side}}, nil)
	if err != nil {
		panic(err)
	}
	return index
}

// FirstRow returns the number of the first row of a side.
func (x *Index) FirstRow(side int) uint32 { return uint32(x.starts[side]) }

// ScoreRows gives the scores of chosen rows, in their order; of a dead row 0.
func (x *Index) ScoreRows(terms []string, rows []uint32) []float64 {
	out := make([]float64, len(rows))
	asked, places := x.openQuestion(terms), x.placesOf(rows)
	cursor := new(postings.Cursor)
	for i, idf := range asked.idf { // of every row in this order
		for side := range x.parts {
			lengths := x.parts[side].Side.ShortLengths()
			cursor.Reset(asked.words[i].lists[side])
			for j, place := range places {
				if place.side != side {
					continue
				}
				if count, held := cursor.Seek(place.row); held {
					out[j] += float64(idf * x.weighTerm(count, lengths.LengthOf(place.row)))
				}
			}
		}
	}
	return out
}
