package apr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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
	musttest.Refuse(Unmarshal(alone))(t, fault.SegmentDamage)
	for n := range data {
		_, err := Unmarshal(data[:n])
		require.True(t, fault.Is(err, fault.SegmentDamage), "cut at %d: %v", n, err)
	}
}

func tripleOf(head, relation, tail, chunk string, sentence int) triples.Triple {
	return triples.Triple{Head: head, Relation: relation, Tail: tail,
		Source: triples.Source{Chunk: chunk, Sentence: sentence}}
}

func TestOneOfEdgesThatSayTheSame(t *testing.T) {
	lists := [][]uint32{{0, 1}, {2, 3}}
	same := func(a, b uint32) bool { return a == 1 && b == 2 }
	length := []int{20, 18, 25, 10}
	prefer := longest(func(edge uint32) string { return strings.Repeat("x", length[edge]) })
	if got := SelectUnique(lists, same, prefer); !slices.Equal(got, []uint32{0, 2, 3}) {
		t.Errorf("stay %v", got)
	} else if again := SelectUnique([][]uint32{got}, same, prefer); !slices.Equal(again, got) {
		t.Errorf("again %v, was %v", again, got)
	}
	cosines := []float64{0, .9, .8, 0, 0, 0, 0}
	near := PreferNearest(func(edge uint32) float64 { return cosines[edge] }, func(uint32) string { return "" })
	assert.Equal(t, []uint32{0, 1, 3}, SelectUnique(lists, same, near), "the edge nearer to the query does not stay")
	assert.Equal(t, []uint32{5, 6}, SelectUnique([][]uint32{{5}, {5, 6}}, same, near), "an edge of two lists stands twice")
}

func TestPairsThatAreKnownToBeOneAreNotCompared(t *testing.T) {
	lists := make([][]uint32, 20)
	for i := range lists {
		for edge := range uint32(24) {
			lists[i] = append(lists[i], edge)
		}
	}
	asked := 0
	same := func(a, b uint32) bool { asked++; return true }
	got := SelectUnique(lists, same, longest(func(uint32) string { return "" }))
	all := 480 * 479 / 2
	assert.True(t, asked <= all/100, "%d of %d pairs compared", asked, all)
	assert.Equal(t, []uint32{23}, got, "stay")
}

func TestTheMiddleOfRunsThatSayTheSameStays(t *testing.T) {
	cosines := map[[2]int]float64{{0, 1}: .95, {1, 2}: .94, {0, 2}: .85}
	cosine := func(a, b int) float64 { return cosines[[2]int{a, b}] }
	assert.Equal(t, []int{1, 3}, SelectMedoids([]float64{.9, .8, .7, .6}, []int{3, 3, 3, 3}, cosine), "stay")
	equal := func(a, b int) float64 { return 1 }
	assert.Equal(t, []int{1}, SelectMedoids([]float64{.5, .5}, []int{4, 2}, equal), "of equal runs the shorter is to stay")
}

func TestWhatIsWrittenOfFacts(t *testing.T) {
	facts := []Word{{"AlphaCorp", "acquired_in", "2021+"}, {"AlphaCorp", "subject_to", "EUReg2024_12"}}
	const symbols = `{"e":["AlphaCorp","2021+","EUReg2024_12"],"r":["acquired_in","subject_to"],`
	for encoding, want := range map[Encoding]string{
		EdgeMatrix:  symbols + `"edge_matrix":[[0,0,1],[0,1,2]],"facts(edges[i])":[0,1]}`,
		IDTriples:   symbols + `"facts([[e,r,e], ...])":[[0,0,1],[0,1,2]]}`,
		WordTriples: `{"facts(words)":[["AlphaCorp","acquired_in","2021+"],["AlphaCorp","subject_to","EUReg2024_12"]]}`,
	} {
		assert.Equal(t, want, Render(facts, encoding, false), "%v", encoding)
	}
}

// decode reads what Render wrote, by the rules that it carries.
func decode(t *testing.T, text string) []Word {
	var raw map[string]json.RawMessage
	into := func(data json.RawMessage, value any) {
		if data == nil {
			return
		}
		require.NoError(t, json.Unmarshal(data, value), "%s", data)
	}
	into(json.RawMessage(text), &raw)
	var (
		e, r         []string
		matrix, rows [][3]int
		words        [][3]string
		edges        []int
		out          []Word
	)
	into(raw["e"], &e)
	into(raw["r"], &r)
	into(raw["edge_matrix"], &matrix)
	into(raw[keys[WordTriples]], &words)
	into(raw[keys[IDTriples]], &rows)
	into(raw[keys[EdgeMatrix]], &edges)
	for _, row := range words {
		out = append(out, Word{row[0], row[1], row[2]})
	}
	for _, edge := range edges {
		rows = append(rows, matrix[edge])
	}
	for _, row := range rows {
		out = append(out, Word{e[row[0]], r[row[1]], e[row[2]]})
	}
	return out
}

func randomWords(random *rand.Rand, n, names int) []Word {
	var out []Word
	for range n {
		out = append(out, Word{fmt.Sprintf("The \"Entity\" <%d>", random.IntN(names)),
			fmt.Sprint("is related | \\ to, ", random.IntN(3)), fmt.Sprintf("Größe & %d", random.IntN(names))})
	}
	return out
}

func TestEveryEncodingSaysTheSameAndTheSmallestIsTaken(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	taken := map[Encoding]bool{}
	for range 60 {
		facts := randomWords(random, random.IntN(40), 1+random.IntN(30))
		least := 1 << 30
		for _, encoding := range Encodings {
			text := Render(facts, encoding, true)
			least = min(least, tokens.Count(text))
			require.Equal(t, facts, decode(t, text), "%v", encoding)
		}
		encoding, text, n := ChooseEncoding(facts, tokens.Count)
		require.True(t, n == least && tokens.Count(text) == n, "%v with %d tokens, the least is %d", encoding, n, least)
		taken[encoding] = true
	}
	assert.True(t, len(taken) >= 2, "only %v was ever the smallest: the test says little", taken)
}

func TestThePolicyKeepsTheBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	all := randomWords(random, 53, 40)
	unique := all[:50]
	seen := map[Choice]bool{}
	for budget := 0; budget < 4000; budget += 37 {
		got := Decide(unique, all, budget, tokens.Count)
		require.True(t, got.Tokens <= budget && tokens.Count(got.Text) == got.Tokens,
			"budget %d: %d tokens", budget, got.Tokens)
		seen[Choice{All: got.All, Facts: got.Facts}] = true
	}
	for _, want := range []Choice{{}, {Facts: 50}, {All: true, Facts: 53}} {
		assert.True(t, seen[want], "no budget led to %+v", want)
	}
	assert.True(t, len(seen) >= 6, "budgets lead to %v: the first facts that fit are not found", seen)
	got := Decide(all[:45], all, 1<<20, tokens.Count)
	assert.True(t, !got.All && got.Facts == 45, "of facts that repeat %d are stated, all: %t", got.Facts, got.All)
}

// longest prefers longer texts, then higher numbers, as the authors' program does.
func longest(text func(uint32) string) func(a, b uint32) bool {
	return func(a, b uint32) bool {
		if la, lb := len(text(a)), len(text(b)); la != lb {
			return la > lb
		}
		return a > b
	}
}
