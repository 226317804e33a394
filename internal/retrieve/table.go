package retrieve

import (
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/index/search"
	"github.com/unweaver/unweaver/internal/index/title"
)

// Table is which documents, chunks and classes count in a generation: one live segment, or many segments that are
// numbered together. Documents go by their place in the order of keys, chunks by their number in chunk order (document
// key, ordinal), classes by their place in the order of ids, names by their place in the order of folded names and ids.
// So no number tells in which file a row lies. What it gives must not be written to, and is valid until Close.
type Table interface {
	Counts() (documents, chunks, classes int)

	Key(document int) string
	DocumentAt(document int) *live.Document
	Document(key string) int     // its place, or -1
	DocumentFrom(key string) int // place of the first whose key is >= key

	ByNumber(number int) *live.Chunk // nil: there is none
	Chunk(id core.ID) *live.Chunk    // nil: it does not count
	DocumentOf(number uint32) uint32

	ClassAt(place uint32) *live.Class
	ClassID(place uint32) core.ID
	Class(id core.ID) *live.Class // nil: it does not count
	ClassPlace(id core.ID) int    // -1: it does not count

	Names() int
	Name(place int) string
	NamedFrom(prefix string) int // place of the first folded name >= prefix
	ByName(place int) *live.Class

	Close()
}

// Words is a lexical index over one side of a Table: its documents are numbers of chunks or places of classes.
type Words interface {
	Search(terms []string, n int, allow func(uint32) bool, rank func(uint32) uint32) []lexical.Hit
	Known(terms []string) bool
	Weight(term string) float64
	Unknown() float64
	Holds(terms []string, docs []uint32) [][]bool

	// Scores sums what every document has of the terms, all of them, so that many are looked up one by one.
	Scores(terms []string) *lexical.Scores
	// Row is the place of a document among those scores.
	Row(doc uint32) uint32
}

var (
	_ Table = (*live.File)(nil)
	_ Words = (*lexical.Index)(nil)
)

// Links is what search has of a Table besides words: edges, the order of classes, and what filters look at.
type Links struct {
	Graph *graph.Adjacency // of places of classes and numbers of chunks
	Rank  []uint32         // place of a class -> place in the order of first mentions
	Place []uint32         // the other way round

	// Document gives the metadata and time of document i.
	Document func(i int) (map[string]string, time.Time)

	// Title tells which classes the title of document i names; nil where that is not known: a generation of before it
	// was, or one that re-uses a split of before.
	Title func(i int) title.Named

	// Mentions is how often the class at a place is mentioned; nil where its record says so.
	Mentions func(place uint32) int64

	close func() // nil: the table closes the files
}

// linksOf views a search segment.
func linksOf(file *search.File) *Links {
	links := &Links{
		Graph: file.Graph, Rank: file.Rank, Place: file.Place, Document: file.Document, close: file.Close,
	}
	if len(file.Titles) > 0 {
		links.Title = func(i int) title.Named { return file.Titles[i] }
	}
	return links
}

// Close unmaps the file that it views, where it is one of its own.
func (l *Links) Close() {
	if l.close != nil {
		l.close()
	}
}
