package retrieve

import (
	"github.com/unweaver/unweaver/internal/format/liveset"
	"github.com/unweaver/unweaver/internal/retrieve/lexical"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

var _ Table = (*liveset.Set)(nil)

// linksOfSet views what is live in many segments. The table closes the files.
func linksOfSet(set *liveset.Set) *Links {
	return &Links{
		Graph: &set.Graph, Rank: set.Rank, Place: set.Place, Document: set.Filtered, close: func() {},
	}
}

// setLive lets the generation answer from many segments. The words are over their rows together: those of the first
// segment, then of the second, and so on, dead ones among them, which they never give.
func (g *Generation) setLive(set *liveset.Set, chunks, classes Words) {
	g.Live, g.Search = set, linksOfSet(set)
	g.chunkWords = renumbered{words: chunks, number: set.AllNumbers(), row: set.ChunkRow}
	g.classWords = renumbered{words: classes, number: set.AllPlaces(), row: set.ClassRow}
	g.graph = &walk.Graph{Adjacency: set.Graph}
}

// renumbered are words over rows of many segments, asked and answered by number: equal scores stand in the order of
// numbers, wherever the rows lie.
type renumbered struct {
	words  Words
	number []uint32 // of each row; liveset.None of a dead one
	row    func(number uint32) uint32
}

// Search implements Words.
func (r renumbered) Search(
	terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32,
) []lexical.Hit {
	var allowRow func(uint32) bool
	if allow != nil {
		allowRow = func(row uint32) bool {
			number := r.number[row]
			return number != liveset.None && allow(number)
		}
	}
	hits := r.words.Search(terms, n, allowRow, func(row uint32) uint32 {
		number := r.number[row]
		if number == liveset.None || rank == nil {
			return number
		}
		return rank(number)
	})
	for i := range hits {
		hits[i].Doc = r.number[hits[i].Doc]
	}
	return hits
}

// Known implements Words.
func (r renumbered) Known(terms []string) bool { return r.words.Known(terms) }

// Weight implements Words.
func (r renumbered) Weight(term string) float64 { return r.words.Weight(term) }

// Unknown implements Words.
func (r renumbered) Unknown() float64 { return r.words.Unknown() }

// Holds implements Words.
func (r renumbered) Holds(terms []string, docs []uint32) [][]bool {
	rows := make([]uint32, len(docs))
	for i, number := range docs {
		rows[i] = r.row(number)
	}
	return r.words.Holds(terms, rows)
}
