// Package postings writes and maps the inverted index of a split or a class run: for each term the documents that hold
// it, and for each block of them the largest BM25 weight (k1 = 1.2, b = 0.75). It writes and reads lists; package
// lexical computes scores.
//
// A side (chunks or classes) has these sections, each under its prefix:
//
//	dict     the terms in order, in groups of 16: of each but the first of a group a varint of the bytes that it
//	         begins with as the one before does; a varint of the bytes that follow, these bytes; a varint of twice the
//	         bytes of its list, plus one where the list has several postings: then their number less two, a varint
//	dict_at  of each group, u64: where it begins in dict, its first list in lists, and its first record in blocks
//	lists    the postings of each term; 64 bytes of zeros
//	blocks   records {u32 last document, u32 end in the bytes of its list, u16 largest weight, u8, u8 bits of a
//	         document and of a count} of lists of more than 128 postings
//	len      u32 terms of each document
//
// A list is cut into blocks of 128 postings. Documents are differences to the one before, less one; counts are less
// one, and 254 says 254 or more. Both are packed, first all documents of a block and then its counts, each in as many
// bits as the largest of them takes, from the least bit on; of counts that are all 1 nothing is left. A largest weight
// is that of a posting without idf, in units of 2^-14, rounded up. A list of one block has its head before it: u8, u8
// bits, u16 largest weight. One of up to 16 postings has neither: each is a varint of twice the difference, plus one
// where its count follows, which is a byte and not 1.
package postings

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Parameters of BM25. Block maxima on disk depend on them.
const (
	K1 = 1.2
	B  = 0.75
)

// BlockSize is how many postings share a maximum.
const BlockSize = 128

const (
	// gatherBytes is how much is gathered in memory before it is sorted, and runBytes how much of that is sorted before
	// it is written out. Two sides are made at once.
	gatherBytes = 16 << 20
	runBytes    = 8 << 20
)

// Builder gathers documents, given in increasing order, and writes a side. Its memory does not grow with the corpus.
type Builder struct {
	places map[string]uint32 // of terms in lists
	lists  []list
	held   []uint32 // the lists that the document at hand adds to
	small  []byte   // where short lists lie
	size   int
	limit  int            // of size
	runs   extsort.Sorter // what was gathered, by term
	len    mapped.Column
	docs   uint32
	total  uint64
	err    error
}

// list is what is gathered of a term: differences of documents, each with its count.
type list struct {
	term  string
	posts []byte
	last  uint32 // document that has postings
	count int    // in the document at hand
}

// termBytes is about what a term costs in memory beside its bytes and its postings.
const termBytes = 112

// Most terms are in one document or two: their lists lie in blocks that many share, and move when they outgrow that.
const (
	shortList  = 8
	shortLists = 4 << 10 // of a block
)

// NewBuilder makes one; Close it.
func NewBuilder() *Builder {
	return &Builder{places: map[string]uint32{}, limit: gatherBytes, runs: extsort.Sorter{Run: runBytes}}
}

// Close removes temporary files.
func (b *Builder) Close() {
	b.len.Close()
	b.runs.Close()
}

// Add takes the next document's terms.
func (b *Builder) Add(terms []string) error {
	if b.err != nil {
		return b.err
	}
	doc := b.docs
	b.docs++
	b.total += uint64(len(terms))
	b.held = b.held[:0]
	for _, t := range terms {
		place := b.listOf(t)
		if b.lists[place].count == 0 {
			b.held = append(b.held, place)
		}
		b.lists[place].count++
	}
	for _, place := range b.held {
		l := &b.lists[place]
		before := len(l.posts)
		l.posts = binary.AppendUvarint(l.posts, uint64(doc-l.last))
		l.posts = append(l.posts, byte(min(l.count, 255)))
		l.last, l.count = doc, 0
		b.size += len(l.posts) - before
	}
	if b.size > b.limit {
		b.sortGathered()
	}
	b.err = errors.Join(mapped.PutRecord(&b.len, uint32(len(terms))), b.runs.Err())
	return b.err
}

// listOf returns the place of a term's list, which is made where there is none. A term is copied: it is often a part of
// a whole text.
func (b *Builder) listOf(term string) uint32 {
	place, known := b.places[term]
	if known {
		return place
	}
	if len(b.small) == 0 {
		b.small = make([]byte, shortList*shortLists)
	}
	place, term = uint32(len(b.lists)), strings.Clone(term)
	b.lists = append(b.lists, list{term: term, posts: b.small[:0:shortList]})
	b.small = b.small[shortList:]
	b.places[term] = place
	b.size += len(term) + termBytes
	return place
}

// sortGathered puts the lists that are gathered into the sort, and forgets them; differences begin at 0.
func (b *Builder) sortGathered() {
	for _, l := range b.lists {
		b.runs.Add([]byte(l.term), l.posts)
	}
	b.places, b.lists, b.small, b.size = map[string]uint32{}, nil, nil, 0
}

// Stats of a side.
type Stats struct {
	Documents uint32
	Terms     uint64 // of all documents together
}

type columns struct {
	dict, groups, lists, blocks mapped.Column
}

func (c *columns) listColumns() []*mapped.Column {
	return []*mapped.Column{&c.dict, &c.groups, &c.lists, &c.blocks}
}

// Write ends the side and writes its sections.
func (b *Builder) Write(writer *mapped.Writer, prefix string) (Stats, error) {
	stats := Stats{b.docs, b.total}
	if b.err != nil {
		return stats, b.err
	}
	b.sortGathered()
	lens, err := mapped.ViewRecords[uint32](&b.len)
	if err != nil {
		return stats, err
	}
	var cols columns
	defer func() {
		for _, column := range cols.listColumns() {
			column.Close()
		}
	}()
	out := listWriter{cols: &cols, lens: lens, average: Average(stats)}
	if err := b.writeLists(&out); err != nil {
		return stats, err
	}
	if err := cols.lists.Put(make([]byte, slack)); err != nil {
		return stats, err
	}
	for i, name := range []string{"dict", "dict_at", "lists", "blocks"} {
		writer.BeginSection(prefix + name)
		if err := cols.listColumns()[i].CopyTo(writer); err != nil {
			return stats, err
		}
	}
	writer.BeginSection(prefix + "len")
	return stats, b.len.CopyTo(writer)
}

// writeLists writes the lists term by term. Those of one term come in the order in which they were gathered.
func (b *Builder) writeLists(out *listWriter) error {
	term, begun := "", false
	for row, err := range b.runs.StreamSorted() {
		if err != nil {
			return err
		}
		if begun && string(row[0]) != term {
			if err := out.finishList(term); err != nil {
				return err
			}
		}
		if !begun || string(row[0]) != term {
			term, begun = string(row[0]), true
		}
		if err := out.addPostings(row[1]); err != nil {
			return err
		}
	}
	if !begun {
		return nil
	}
	return out.finishList(term)
}
