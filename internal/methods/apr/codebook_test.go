package apr

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/triples"
)

func sample() []Document {
	random := rand.New(rand.NewPCG(7, 8))
	var documents []Document
	for d := range 12 {
		document := Document{Key: fmt.Sprintf("doc-%02d", d)}
		for i := range 20 {
			document.Triples = append(document.Triples, triples.Triple{
				Head: fmt.Sprint("Head ", random.IntN(9)), Relation: fmt.Sprint("rel ", random.IntN(4)),
				Tail: fmt.Sprint("Tail ", random.IntN(9)), Source: triples.Source{Chunk: fmt.Sprint(d, "-", i/5), Sentence: i % 5},
			})
		}
		documents = append(documents, document)
	}
	return documents
}

func TestEdgesSayWhatTheTriplesSaid(t *testing.T) {
	documents := sample()
	book, sequences, left := Indexify(documents)
	require.True(t, len(left) == 0, "left %v", left)
	for d, sequence := range sequences {
		for i, edge := range sequence.Edges {
			triple := documents[d].Triples[i]
			head, relation, tail := book.Words(edge)
			require.True(t, head == triple.Head && relation == triple.Relation && tail == triple.Tail,
				"%s %d: %q, want %v", sequence.Document, i, book.Text(edge), triple)
			require.True(t, slices.Contains(book.Sources[edge], triple.Source) &&
				slices.Contains(book.CiteChunks([]uint32{edge}), triple.Source.Chunk),
				"edge %d does not tell of %v", edge, triple.Source)
		}
	}
}

func TestTheOrderOfDocumentsDoesNotMatter(t *testing.T) {
	documents := sample()
	book, sequences, _ := Indexify(documents)
	want := book.Marshal()
	random := rand.New(rand.NewPCG(9, 9))
	for range 20 {
		random.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
		again, same, _ := Indexify(documents)
		require.True(t, bytes.Equal(again.Marshal(), want) && reflect.DeepEqual(same, sequences),
			"another order gives another codebook")
	}
}

func TestTriplesThatAreNoneAreLeftAndTold(t *testing.T) {
	document := Document{Key: "d", Triples: []triples.Triple{
		tripleOf("A", "is", "B", "c", 0), tripleOf("A", " ", "B", "c", 0), tripleOf("", "is", "B", "c", 0),
		tripleOf("the  a", "IS", "b.", "c", 1), tripleOf("A", "is", "\u200b", "c", 1),
		tripleOf("A", strings.Repeat("long ", triples.MaxPart), "B", "c", 1), tripleOf("A", "is", "C", "c", -1),
	}}
	for i := range 10_000 {
		document.Triples = append(document.Triples, tripleOf("A", "has", fmt.Sprint(i), "big", 0))
	}
	book, sequences, left := Indexify([]Document{document})
	want := []Left{{"d", 1, LeftEmpty}, {"d", 2, LeftEmpty}, {"d", 4, LeftEmpty}, {"d", 5, LeftLong}, {"d", 6, LeftPlace},
		{"d", 7 + triples.MaxChunkTriples, LeftBound}}
	assert.True(t, len(left) == 5+10_000-triples.MaxChunkTriples && slices.Equal(left[:6], want),
		"left %d, first %v", len(left), left[:min(6, len(left))])
	assert.Equal(t, []uint32{0, 0}, sequences[0].Edges[:2], "equivalent names make two edges")
	assert.Equal(t, []triples.Source{{Chunk: "c"}, {Chunk: "c", Sentence: 1}}, book.Sources[0], "sources")
}

func TestACodebookIsReadAsItWasWritten(t *testing.T) {
	book, sequences, _ := Indexify(sample())
	for _, sequence := range sequences {
		book.Runs = append(book.Runs, sequence.Edges)
	}
	data := book.Marshal()
	again, err := Unmarshal(data)
	require.True(t, err == nil && reflect.DeepEqual(again, book), "read another codebook, error %v", err)
	for i := range data {
		broken := bytes.Clone(data)
		broken[i] ^= 1
		want := fault.SegmentDamage
		if i == len(magic) {
			want = fault.FormatUnknown
		}
		_, err := Unmarshal(broken)
		require.True(t, fault.Is(err, want), "byte %d changed: %v", i, err)
	}
	alone := (&Codebook{Entities: []string{"A"}, Relations: []string{"is"}, Edges: []Edge{{}},
		Sources: [][]triples.Source{nil}}).Marshal()
	_, err = Unmarshal(alone)
	assert.True(t, fault.Is(err, fault.SegmentDamage), "an edge that nothing says is read: %v", err)
	for n := range data {
		_, err := Unmarshal(data[:n])
		require.True(t, fault.Is(err, fault.SegmentDamage), "cut at %d: %v", n, err)
	}
}

// tripleOf builds a triple as a sentence of a chunk says it.
func tripleOf(head, relation, tail, chunk string, sentence int) triples.Triple {
	return triples.Triple{Head: head, Relation: relation, Tail: tail,
		Source: triples.Source{Chunk: chunk, Sentence: sentence}}
}
