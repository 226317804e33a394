package apr_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/text"
)

func vectorsOf(texts []string) apr.Table {
	table := apr.Table{Dim: builtin.Dimension}
	for _, one := range texts {
		table.Add(builtin.Embedder{}.Vector(one))
	}
	return table
}

func indexOf(t testing.TB, documents []apr.Document) (*apr.Index, *apr.Codebook) {
	book, sequences, _ := apr.Indexify(documents)
	var lines []string
	for edge := range book.Edges {
		lines = append(lines, book.Text(uint32(edge)))
	}
	for _, sequence := range sequences {
		for from := 0; from < len(sequence.Edges); from += 2 {
			book.Runs = append(book.Runs, sequence.Edges[from:min(from+2, len(sequence.Edges))])
		}
	}
	return musttest.Get(apr.NewIndex(book, vectorsOf(book.Entities), vectorsOf(book.Relations), vectorsOf(lines)))(t), book
}

func saying(head, relation, tail, chunk string, sentence int) triples.Triple {
	return triples.Triple{Head: head, Relation: relation, Tail: tail,
		Source: triples.Source{Chunk: chunk, Sentence: sentence}}
}

func towns() []apr.Document {
	say := func(chunk string, said ...[3]string) []triples.Triple {
		var out []triples.Triple
		for i, one := range said {
			out = append(out, saying(one[0], one[1], one[2], chunk, i))
		}
		return out
	}
	return []apr.Document{
		{"1", say("oslo", [3]string{"Oslo", "lies in", "Norway"}, [3]string{"Oslo", "was called", "Kristiania"})},
		{"2", say("bergen", [3]string{"Bergen", "lies in", "Norway"}, [3]string{"Bergen", "is known for", "rain"})},
		{"3", say("curie", [3]string{"Marie Curie", "was born in", "Warsaw"},
			[3]string{"Marie Curie", "discovered", "radium"})},
		{"4", say("again", [3]string{"Marie Curie", "was born in", "Warsaw"})},
	}
}

func ask(question string, words ...apr.Word) apr.Asked {
	vector := builtin.Embedder{}.Vector
	q := apr.Asked{Words: words, Query: apr.Query{Whole: vector(question)}}
	for _, word := range words {
		q.Entities = append(q.Entities, vector(word.Head), vector(word.Tail))
		q.Relations = append(q.Relations, vector(word.Relation))
		q.Lines = append(q.Lines, vector(word.Head+" "+word.Relation+" "+word.Tail))
	}
	return q
}

func settings(budget int) apr.Settings {
	s := apr.DefaultSettings
	s.Budget, s.Count = budget, tokens.Count
	return s
}

func TestWhatIsFoundCitesTheChunksThatSayIt(t *testing.T) {
	index, book := indexOf(t, towns())
	for name, q := range map[string]apr.Asked{
		"with a triple": ask("Where was Marie Curie born?", apr.Word{"Marie Curie", "was born in", "where"}),
		"without":       ask("Where was Marie Curie born?"),
	} {
		found := index.Find(q, settings(500))
		require.True(t, found.Linked == (len(q.Words) == 0) && len(found.Chunks) >= 2, "%s: %+v", name, found)
		first := []string{found.Chunks[0].Chunk, found.Chunks[1].Chunk}
		slices.Sort(first)
		assert.Equal(t, []string{"again", "curie"}, first, name)
		assert.True(t, strings.Contains(found.Choice.Text, "Warsaw") && found.Choice.Tokens <= 500 &&
			found.Sizes[found.Choice.Encoding] == found.Choice.Tokens && len(found.Told) == found.Choice.Facts,
			"%s: stated %+v, sizes %v", name, found.Choice, found.Sizes)
		for _, edge := range found.Told {
			assert.True(t, len(book.CiteChunks([]uint32{edge})) != 0, "%s: edge %d is stated and not cited", name, edge)
		}
		assert.Equal(t, found, index.Find(q, settings(500)), "%s", name)
	}
}

func TestOnlyChunksThatAreLetInAreFoundHoweverManyOthersFit(t *testing.T) {
	documents := towns()
	for i := range 300 {
		documents = append(documents, apr.Document{Key: fmt.Sprint("more", i), Triples: []triples.Triple{
			saying("Marie Curie", "was born in", fmt.Sprint("Warsaw ", i), fmt.Sprint("more", i), 0)}})
	}
	s := settings(500)
	s.Coarse = 20
	s.Allow = func(chunk string) bool { return chunk == "bergen" || chunk == "again" }
	index, _ := indexOf(t, documents)
	found := index.Find(ask("Where was Marie Curie born?", apr.Word{"Marie Curie", "was born in", "where"}), s)
	assert.True(t, len(found.Chunks) != 0 && found.Chunks[0].Chunk == "again", "found %+v", found.Chunks)
	for _, chunk := range found.Chunks {
		assert.True(t, s.Allow(chunk.Chunk), "chunk %s is not let in", chunk.Chunk)
	}
	assert.False(t, strings.Contains(found.Choice.Text, "radium"), "what only others say is stated: %s", found.Choice.Text)
}

func TestWhatCannotBeAskedFindsNothing(t *testing.T) {
	index, _ := indexOf(t, towns())
	for name, q := range map[string]apr.Asked{
		"nothing": {}, "vectors of another length": {Query: apr.Query{Whole: []float32{1}}, Lines: [][]float32{{1, 0}}},
	} {
		found := index.Find(q, settings(500))
		assert.True(t, len(found.Runs)+len(found.Chunks) <= 0 && found.Choice.Text == "", "%s: %+v", name, found)
	}
	empty, _ := indexOf(t, nil)
	found := empty.Find(ask("Where?"), settings(500))
	assert.True(t, len(found.Runs) <= 0, "nothing was said: %+v", found)
	book := &apr.Codebook{Entities: []string{"A"}, Relations: []string{"is"}, Edges: []apr.Edge{{}}}
	one := apr.Table{Dim: 2}
	one.Add([]float32{1, 0})
	musttest.Refuse(apr.NewIndex(book, one, one, apr.Table{}))(t, fault.SegmentDamage)
}

// A question may ask for a thousand runs of any length, and end before the facts to state are chosen.
func TestWhatIsToldIsChosenAmongABoundedNumberOfFactsUntilTheEnd(t *testing.T) {
	var documents []apr.Document
	for chunk := range 26 {
		one := apr.Document{Key: fmt.Sprintf("%02d", chunk)}
		for n := range 200 {
			one.Triples = append(one.Triples, saying(fmt.Sprintf("Quay %d of Port %d", n, chunk), "was built in",
				fmt.Sprintf("year %d", n), one.Key, n))
		}
		documents = append(documents, one)
	}
	index, book := indexOf(t, documents)
	counted, most := 0, int64(math.MaxInt64)
	var looks atomic.Int64
	s := settings(2000)
	s.Coarse, s.Fine = len(book.Runs), len(book.Runs)
	s.Stopped = func() bool { return looks.Add(1) > most }
	s.Count = nil
	index.Find(ask("Which quay was built in year 7?"), s)
	most = looks.Swap(0) // the next search ends when it chooses
	s.Count = func(text string) int { counted++; return tokens.Count(text) }
	found := index.Find(ask("Which quay was built in year 7?"), s)
	assert.True(t, len(book.Edges) > apr.MostTold && found.Choice.Facts == apr.MostTold && counted == 0,
		"%d facts of %d, %d texts counted", found.Choice.Facts, len(book.Edges), counted)
}

func TestWhatAQuestionAsksForIsNotCompared(t *testing.T) {
	got := apr.AsksOf([]triples.Triple{
		{Head: "?x", Relation: "directed", Tail: "Dune"},
		{Head: "?x", Relation: "was born in", Tail: "?y"}, // any triple of the relation would fit
		{Head: "DUNE", Relation: "?", Tail: "1984"},
	})
	want := apr.Asks{
		Words:    []apr.Word{{Head: "?x", Relation: "directed", Tail: "Dune"}, {Head: "DUNE", Relation: "?", Tail: "1984"}},
		Entities: []string{"Dune", "1984"}, Relations: []string{"directed"}, Lines: []string{"directed Dune", "DUNE 1984"},
	}
	assert.Equal(t, want, got)
	assert.True(t, len(apr.AsksOf([]triples.Triple{{Head: "?x", Relation: "is", Tail: "?y"}}).Words) == 0,
		"a question of placeholders alone asks")
	many := make([]triples.Triple, 10_000)
	for i := range many {
		many[i] = triples.Triple{Head: "a", Relation: "r", Tail: "b"}
	}
	if got := apr.AsksOf(many); len(got.Words) != apr.MaxAsked || len(got.Entities) != 2 {
		t.Errorf("%d triples, entities %v", len(got.Words), got.Entities)
	}
}

func FuzzAnAnswerIsReadWithoutHarm(f *testing.F) {
	f.Add(`{"triples":[{"sentence":0,"head":"a","relation":"b","tail":"c"},["a","b","c"]]}`)
	f.Add(`[[[[`)
	f.Add(`"triples" : [ {"sentence":-1e99}`)
	part := triples.CutParts(text.LanguageOf("en"), "Marie Curie was born in Warsaw. She knew Paris.")[0]
	f.Fuzz(func(t *testing.T, answer string) {
		said, _ := part.Read(answer)
		_, _, left := apr.Indexify([]apr.Document{{Key: "d", Triples: said.Triples}})
		assert.Zero(t, left, "what was read is no triple of a codebook")
	})
}
