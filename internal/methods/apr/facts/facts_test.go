package facts_test

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

var hashing = facts.Of{Embedder: "hashing-2", Dimension: 2}

func tableOf(numbers ...float32) apr.Table {
	table := apr.Table{Dim: 2}
	for row := range slices.Chunk(numbers, 2) {
		table.Add(row)
	}
	return table
}

func sample() facts.Facts {
	chunk := func(n byte) string { id := core.ID{n}; return string(id[:]) }
	book, sequences, _ := apr.Indexify([]apr.Document{{Key: "d", Triples: []triples.Triple{
		{Head: "Oslo", Relation: "lies in", Tail: "Norway", Source: triples.Source{Chunk: chunk(1), Sentence: 0}},
		{Head: "Bergen", Relation: "lies in", Tail: "Norway", Source: triples.Source{Chunk: chunk(2), Sentence: 3}},
	}}})
	book.Runs = [][]uint32{sequences[0].Edges}
	return facts.Facts{
		Book: book, Entities: tableOf(1, 0, 0, 1, .6, .8), Relations: tableOf(0, 1), Lines: tableOf(1, 0, .8, .6),
		Keys: []core.Digest{{1}, {2}},
	}
}

func write(t testing.TB, f facts.Facts) []byte {
	var content bytes.Buffer
	require.NoError(t, facts.Write(&content, hashing, f))
	return content.Bytes()
}

func open(t testing.TB, content []byte, of facts.Of) (*facts.File, error) {
	return scratchtest.Open(t, content, func(path string) (*facts.File, error) { return facts.Open(path, of) })
}

func TestWhatIsWrittenIsReadAndEqualFactsAreEqualBytes(t *testing.T) {
	empty := facts.Facts{
		Book: &apr.Codebook{}, Entities: apr.Table{Dim: 2}, Relations: apr.Table{Dim: 2}, Lines: apr.Table{Dim: 2},
	}
	for _, f := range []facts.Facts{sample(), empty} {
		content := write(t, f)
		file := musttest.Get(open(t, content, hashing))(t)
		assert.True(t,
			reflect.DeepEqual(file.Book, f.Book) && len(file.Keys) == len(f.Keys) && file.DescribeVectors() == hashing,
			"read %+v, wrote %+v", file.Book, f.Book)
		assert.True(t, bytes.Equal(write(t, file.Facts), content), "facts that were read have other bytes")
	}
}

func TestFilesThatDoNotFitAreRefused(t *testing.T) {
	content := write(t, sample())
	for _, of := range []facts.Of{{Embedder: "hashing-3", Dimension: 2}, {Embedder: "hashing-2", Dimension: 3}} {
		musttest.Code(t, musttest.Err(open(t, content, of)), fault.FormatUnknown, "%v", of)
	}
	assert.NoError(t, musttest.Err(open(t, content, facts.Of{})), "for who compares no vector")
}

func TestFactsThatDoNotFitEachOtherAreNotWritten(t *testing.T) {
	for name, change := range map[string]func(f *facts.Facts){
		"an entity without a vector": func(f *facts.Facts) { f.Entities = tableOf(1, 0, 0, 1) },
		"a relation too many":        func(f *facts.Facts) { f.Relations.Add([]float32{1, 0}) },
		"an edge without a vector":   func(f *facts.Facts) { f.Lines = apr.Table{Dim: 2} },
		"no number":                  func(f *facts.Facts) { f.Lines.Scales[1] = float32(math.NaN()) },
		"a chunk of no name":         func(f *facts.Facts) { f.Book.Sources[0][0].Chunk = "c" },
		"keys out of order":          func(f *facts.Facts) { f.Keys[1] = core.Digest{} },
	} {
		f := sample()
		change(&f)
		musttest.Code(t, facts.Write(&bytes.Buffer{}, hashing, f), fault.Internal, name)
	}
	musttest.Code(t, facts.Write(&bytes.Buffer{}, facts.Of{Dimension: 2}, sample()), fault.Internal, "no embedder")
}
