package apr

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Document is the triples of one document in the order of its text.
type Document struct {
	Key     string
	Triples []triples.Triple
}

// Codebook gives numbers to entities, relations and edges, in the order in which documents in byte order of their keys
// have them first. Symbols whose names are equivalent (docs/reference/formats.md, Mentions) are one, shown as the first
// was.
type Codebook struct {
	Entities, Relations []string
	Edges               []Edge
	Sources             [][]triples.Source // of each edge, in order, each once
	Runs                [][]uint32         // numbers of edges
}

// Sequence is one document as numbers of edges.
type Sequence struct {
	Document string
	Edges    []uint32
}

// Indexify makes a codebook of documents, whatever the order in which they are given, and counts the triples that no
// codebook has. Runs are not cut yet.
func Indexify(documents []Document) (book *Codebook, sequences []Sequence, left int) {
	sorted := slices.Clone(documents)
	slices.SortStableFunc(sorted, func(a, b Document) int { return cmp.Compare(a.Key, b.Key) })
	n := numbering{
		book: &Codebook{}, entity: map[string]uint32{}, relation: map[string]uint32{},
		edge: map[Edge]uint32{}, read: map[reading]bool{},
	}
	for _, document := range sorted {
		sequence, perChunk := Sequence{Document: document.Key}, map[string]int{}
		for _, triple := range document.Triples {
			fits := fitsCodebook(triple)
			if fits {
				perChunk[triple.Source.Chunk]++
			}
			if !fits || perChunk[triple.Source.Chunk] > triples.MaxChunkTriples {
				left++
				continue
			}
			sequence.Edges = append(sequence.Edges, n.add(triple))
		}
		sequences = append(sequences, sequence)
	}
	return n.book, sequences, left
}

// fitsCodebook reports whether a triple can be one of a codebook. A part of which no name is left (only signs that are
// not shown, for one) counts as empty: all such would be one symbol.
func fitsCodebook(t triples.Triple) bool {
	for _, part := range []string{t.Head, t.Relation, t.Tail} {
		if names.Key(part, false) == "" || len(part) > triples.MaxPart {
			return false
		}
	}
	return t.Source.Sentence >= 0 && t.Source.Sentence < math.MaxInt32
}

type numbering struct {
	book             *Codebook
	entity, relation map[string]uint32
	edge             map[Edge]uint32
	read             map[reading]bool
}

// reading is an edge at a source.
type reading struct {
	edge   uint32
	source triples.Source
}

func (n *numbering) add(triple triples.Triple) uint32 {
	edge := Edge{
		numberName(n.entity, &n.book.Entities, triple.Head),
		numberName(n.relation, &n.book.Relations, triple.Relation),
		numberName(n.entity, &n.book.Entities, triple.Tail),
	}
	id, known := n.edge[edge]
	if !known {
		id = uint32(len(n.book.Edges))
		n.edge[edge] = id
		n.book.Edges = append(n.book.Edges, edge)
		n.book.Sources = append(n.book.Sources, nil)
	}
	if at := (reading{id, triple.Source}); !n.read[at] {
		n.read[at] = true
		n.book.Sources[id] = append(n.book.Sources[id], triple.Source)
	}
	return id
}

func numberName(of map[string]uint32, shown *[]string, name string) uint32 {
	key := names.Key(name, false)
	id, known := of[key]
	if !known {
		id = uint32(len(*shown))
		of[key] = id
		*shown = append(*shown, strings.Join(strings.Fields(name), " "))
	}
	return id
}

// Words returns the words of an edge.
func (c *Codebook) Words(edge uint32) (head, relation, tail string) {
	e := c.Edges[edge]
	return c.Entities[e.Head], c.Relations[e.Relation], c.Entities[e.Tail]
}

// Text returns the text of an edge, which its vector is made of.
func (c *Codebook) Text(edge uint32) string {
	head, relation, tail := c.Words(edge)
	return head + " " + relation + " " + tail
}

// CiteChunks gives the chunks that edges were read from, each once, in the order of the edges.
func (c *Codebook) CiteChunks(edges []uint32) []string {
	var chunks []string
	seen := map[string]bool{}
	for _, edge := range edges {
		for _, source := range c.Sources[edge] {
			if !seen[source.Chunk] {
				seen[source.Chunk] = true
				chunks = append(chunks, source.Chunk)
			}
		}
	}
	return chunks
}

// magic begins a codebook; the byte after it is the version.
// 1: first form.
const (
	magic   = "uwapr"
	version = 1
)

// Marshal gives the same bytes for the same codebook: the head, then each part as its length and its entries in
// variable-length numbers, then the sha256 of all before.
func (c *Codebook) Marshal() []byte {
	out := append([]byte(magic), version)
	for _, table := range [][]string{c.Entities, c.Relations} {
		out = binary.AppendUvarint(out, uint64(len(table)))
		for _, name := range table {
			out = appendText(out, name)
		}
	}
	out = binary.AppendUvarint(out, uint64(len(c.Edges)))
	for i, edge := range c.Edges {
		for _, number := range []uint32{edge.Head, edge.Relation, edge.Tail} {
			out = binary.AppendUvarint(out, uint64(number))
		}
		out = binary.AppendUvarint(out, uint64(len(c.Sources[i])))
		for _, source := range c.Sources[i] {
			out = appendText(out, source.Chunk)
			out = binary.AppendUvarint(out, uint64(source.Sentence))
		}
	}
	out = binary.AppendUvarint(out, uint64(len(c.Runs)))
	for _, run := range c.Runs {
		out = binary.AppendUvarint(out, uint64(len(run)))
		for _, edge := range run {
			out = binary.AppendUvarint(out, uint64(edge))
		}
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

func appendText(out []byte, s string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(s))), s...)
}

// Unmarshal reads what Marshal wrote. Bytes of another version are FormatUnknown, damaged ones SegmentDamage. Every
// number of what it gives is one that the codebook has.
func Unmarshal(data []byte) (*Codebook, error) {
	const op, object = "read", "codebook"
	if len(data) < len(magic)+1 || string(data[:len(magic)]) != magic {
		return nil, fault.SegmentDamage.At(op, object).Because("it does not begin as one")
	}
	if got := data[len(magic)]; got != version {
		return nil, fault.FormatUnknown.At(op, object).Because("it is of another version than this program reads").
			Advise("read it with the program that wrote it, or build the index again")
	}
	body := len(data) - sha256.Size
	if body < len(magic)+1 {
		return nil, fault.SegmentDamage.At(op, object).Because("it is cut short")
	}
	if sum := sha256.Sum256(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return nil, fault.SegmentDamage.At(op, object).Because("its bytes are not those that were written")
	}
	r := &reader{rest: data[len(magic)+1 : body]}
	c := r.readCodebook()
	if r.broken || len(r.rest) > 0 {
		return nil, fault.SegmentDamage.At(op, object).Because("its entries do not fit each other")
	}
	return c, nil
}

type reader struct {
	rest   []byte
	broken bool
}

func (r *reader) readCodebook() *Codebook {
	c := &Codebook{}
	for _, table := range []*[]string{&c.Entities, &c.Relations} {
		for range r.readCount() {
			*table = append(*table, r.readText())
		}
	}
	for range r.readCount() {
		c.Edges = append(c.Edges,
			Edge{r.readBelow(len(c.Entities)), r.readBelow(len(c.Relations)), r.readBelow(len(c.Entities))})
		var sources []triples.Source
		for range r.readCount() {
			sources = append(sources, triples.Source{Chunk: r.readText(), Sentence: int(r.readBelow(math.MaxInt32))})
		}
		r.broken = r.broken || len(sources) == 0 // it could not be cited
		c.Sources = append(c.Sources, sources)
	}
	for range r.readCount() {
		var run []uint32
		for range r.readCount() {
			run = append(run, r.readBelow(len(c.Edges)))
		}
		c.Runs = append(c.Runs, run)
	}
	return c
}

// readCount returns how many entries follow, each of a byte at least; 0 once something was broken.
func (r *reader) readCount() int { return int(r.readBelow(len(r.rest) + 1)) }

func (r *reader) readBelow(bound int) uint32 {
	number, n := binary.Uvarint(r.rest)
	if r.broken || n <= 0 || number >= uint64(bound) {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(number)
}

func (r *reader) readText() string {
	n := r.readCount()
	if n > len(r.rest) {
		r.broken = true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
