package retrieve

import (
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// setTable is what is live in many segments, with what lets go of their files.
type setTable struct {
	*liveset.Set
	release func()
}

var _ Table = setTable{}

// Close implements Table.
func (t setTable) Close() { t.release() }

// setLive lets the generation answer from many segments. What the dead rows of a side count may be nil where none is
// dead. Closing the table releases the files.
func (g *Generation) setLive(set *liveset.Set, chunks, classes lexical.Dead, release func()) error {
	var chunkParts, classParts []lexical.Part
	for i, one := range set.Splits() {
		chunkParts = append(chunkParts, lexical.Part{Side: one.File.Words, Dead: set.Chunks(i)})
	}
	for i, one := range set.Runs() {
		classParts = append(classParts, lexical.Part{Side: one.File.Words, Dead: set.Classes(i)})
	}
	chunkWords, err := lexical.Compose(chunkParts, chunks)
	if err != nil {
		return err
	}
	classWords, err := lexical.Compose(classParts, classes)
	if err != nil {
		return err
	}
	g.Live = setTable{set, release}
	g.Search = &Links{Graph: &set.Graph, Rank: set.Rank, Place: set.Place, Document: set.Filtered}
	g.Search.Mentions = set.Mentions
	if set.Titled() {
		g.Search.Title = set.Title
	}
	g.chunkWords = renumbered{words: chunkWords, number: set.AllNumbers(), row: set.ChunkRow}
	g.classWords = renumbered{words: classWords, number: set.AllPlaces(), row: set.ClassRow}
	g.graph = &walk.Graph{Adjacency: set.Graph}
	return nil
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

// Scores implements Words.
func (r renumbered) Scores(terms []string) *lexical.Scores { return r.words.Scores(terms) }

// Row implements Words.
func (r renumbered) Row(number uint32) uint32 { return r.row(number) }
