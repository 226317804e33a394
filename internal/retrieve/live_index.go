package retrieve

import (
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// setLive lets the generation answer from splits and class runs. What the dead rows of a side count may be nil where
// none is dead. Closing the generation releases the files.
func (g *Generation) setLive(set *liveset.Set, chunks, classes lexical.Dead, release func()) error {
	var chunkParts, classParts []lexical.Part
	for i, one := range set.Splits() {
		chunkParts = append(chunkParts, lexical.Part{Side: one.File.Words, Dead: set.ChunkRows(i)})
	}
	for i, one := range set.Runs() {
		classParts = append(classParts, lexical.Part{Side: one.File.Words, Dead: set.ClassRows(i)})
	}
	chunkWords, err := lexical.Compose(chunkParts, chunks)
	if err != nil {
		return err
	}
	classWords, err := lexical.Compose(classParts, classes)
	if err != nil {
		return err
	}
	g.Live, g.release, g.titlesNamed, g.versions = set, release, measureTitles(set), readVersions(set)
	g.chunkWords = sideWords{index: chunkWords, number: set.AllNumbers(), row: set.ChunkRow}
	g.classWords = sideWords{index: classWords, number: set.AllPlaces(), row: set.ClassRow}
	g.graph = &walk.Graph{Adjacency: set.Graph}
	return nil
}

// sideWords is a lexical index over one side of a generation, asked and answered by numbers of chunks or places of
// classes: equal scores stand in the order of numbers, wherever the rows lie.
type sideWords struct {
	index  *lexical.Index
	number []uint32 // of each row; liveset.None of a dead one
	row    func(number uint32) uint32
}

// Search calls lexical.Index.Search.
func (w sideWords) Search(
	terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32,
) []lexical.Hit {
	var allowRow func(uint32) bool
	if allow != nil {
		allowRow = func(row uint32) bool {
			number := w.number[row]
			return number != liveset.None && allow(number)
		}
	}
	hits := w.index.Search(terms, n, allowRow, func(row uint32) uint32 {
		number := w.number[row]
		if number == liveset.None || rank == nil {
			return number
		}
		return rank(number)
	})
	for i := range hits {
		hits[i].Doc = w.number[hits[i].Doc]
	}
	return hits
}

// Holds calls lexical.Index.Holds.
func (w sideWords) Holds(terms []string, docs []uint32) [][]bool {
	rows := make([]uint32, len(docs))
	for i, number := range docs {
		rows[i] = w.row(number)
	}
	return w.index.Holds(terms, rows)
}
