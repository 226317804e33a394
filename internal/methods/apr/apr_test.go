package apr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
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

func lineAt(degrees float64, head, tail uint32) Line {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	return Line{Edge{head, 0, tail}, []float32{float32(cos), float32(sin)}}
}

func lengths(runs [][]Line) []int {
	var out []int
	for _, run := range runs {
		out = append(out, len(run))
	}
	return out
}

func TestRunsEndWhereALineDoesNotFit(t *testing.T) {
	lines := []Line{lineAt(0, 0, 1), lineAt(20, 1, 2), lineAt(70, 3, 4), lineAt(116, 4, 5), lineAt(170, 6, 7)}
	s := Segmenter{Threshold: 0.7, Chain: 0.05}
	runs := s.Cut(lines)
	require.Equal(t, []int{2, 2, 1}, lengths(runs), "lengths")
	for i, want := range []float64{0.989693, 0.5, 0.744658, 0.224951} {
		open, from := newRun(lines[0]), []int{0, 0, 2, 2}[i]
		if from == i {
			open = newRun(lines[i])
		} else {
			open = newRun(lines[from])
			for _, line := range lines[from+1 : i+1] {
				open.add(line)
			}
		}
		assert.InDelta(t, want, open.scoreFit(s, lines[i], lines[i+1]), 1e-6, "%d", i+1)
	}
	assert.Equal(t, []int{2, 2}, lengths(s.Refine(runs[:2])), "the border of the first two runs did not survive")
	s.Chain = 0
	assert.Equal(t, []int{2, 1, 1, 1}, lengths(s.Cut(lines)), "without the bonus the fourth line stays")
}

func TestRefiningPartsGivesTheRunsOfTheWhole(t *testing.T) {
	random, s := rand.New(rand.NewPCG(1, 2)), DefaultSegmenter
	s.MaxLen = 5
	for range 500 {
		lines := make([]Line, 1+random.IntN(30))
		for i := range lines {
			lines[i] = lineAt(random.Float64()*120, uint32(random.IntN(6)), uint32(random.IntN(6)))
		}
		at := random.IntN(len(lines) + 1)
		refined := s.Refine(append(s.Cut(lines[:at]), s.Cut(lines[at:])...))
		got, want := lengths(refined), lengths(s.Cut(lines))
		require.True(t, slices.Equal(got, want), "cut at %d: runs of %v, want %v", at, got, want)
		require.True(t, slices.Equal(lengths(s.Refine(refined)), lengths(refined)), "%v", lengths(refined))
	}
}

func never() bool { return false }

func coarse(t testing.TB, entities, relations Table, runs [][]Edge) *Coarse {
	return musttest.Get(NewCoarse(entities, relations, runs))(t)
}

func TestVectorsOfAnotherCodebookAreToldAndOfAnotherEmbedderIgnored(t *testing.T) {
	entities, relations := tableOf(2, 1, 0, 0, 1), tableOf(2, 1, 0)
	for _, edge := range []Edge{{2, 0, 0}, {0, 0, 2}, {0, 1, 0}} {
		_, err := NewCoarse(entities, relations, [][]Edge{{{0, 0, 0}}, {edge}})
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%v: %v", edge, err)
	}
	musttest.Refuse(NewCoarse(Table{}, Table{}, [][]Edge{{{0, 0, 0}}}))(t, fault.SegmentDamage)
	c := coarse(t, entities, relations, [][]Edge{{{0, 0, 0}}, {{1, 0, 1}}})
	got := c.FindTop([][]float32{{1}, {0, 1, 0}}, nil, 2, nil, never)
	assert.True(t, len(got) == 2 && got[0].Score == 0, "vectors of another dimension give %v", got)
	got, _ = c.Ask(Query{}, 5, nil, never)
	assert.True(t, len(got) == 0, "nothing asked finds %v", got)
}

func TestCoarseScoreOfAnExample(t *testing.T) {
	entities, relations := tableOf(2, .6, .8, 0, 1), tableOf(2, .28, .96)
	c := coarse(t, entities, relations, [][]Edge{{{0, 0, 1}}})
	for _, one := range []struct {
		relations [][]float32
		want      float64
	}{{[][]float32{{0, 1}}, 0.888}, {nil, 0.6}} { // but for what codes lose
		assert.InDelta(t, one.want, c.FindTop([][]float32{{1, 0}}, one.relations, 5, nil, never)[0].Score, 0.002, "score")
	}
	for _, k := range []int{0, -5} {
		assert.Empty(t, c.FindTop([][]float32{{1, 0}}, nil, k, nil, never), "%d", k)
	}
}

func tableOf(dim int, numbers ...float32) Table {
	table := Table{Dim: dim}
	for row := range slices.Chunk(numbers, dim) {
		table.Add(row)
	}
	return table
}

func randomRows(random *rand.Rand, rows, dim int) [][]float32 {
	out := make([][]float32, rows)
	for i := range out {
		sum := make([]float64, dim)
		for k := range sum {
			sum[k] = random.NormFloat64()
		}
		out[i] = toUnitVector(sum)
	}
	return out
}

func randomTable(random *rand.Rand, rows, dim int) Table {
	table := Table{Dim: dim}
	for _, row := range randomRows(random, rows, dim) {
		table.Add(row)
	}
	return table
}

func TestCoarseIsWhatComparingEveryPairGives(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		entities, relations := randomTable(random, 40, 7), randomTable(random, 9, 7)
		runs := make([][]Edge, 60)
		for i := range runs {
			for range random.IntN(5) {
				runs[i] = append(runs[i], Edge{uint32(random.IntN(40)), uint32(random.IntN(9)), uint32(random.IntN(40))})
			}
		}
		asked, linked := randomRows(random, 3, 7), randomRows(random, 2, 7)
		var want []Candidate
		for i, run := range runs {
			node, link := math.Inf(-1), math.Inf(-1)
			for _, edge := range run {
				for _, q := range asked {
					node = max(node, float64(entities.dot(int(edge.Head), probeOf(q))))
					node = max(node, float64(entities.dot(int(edge.Tail), probeOf(q))))
				}
				for _, q := range linked {
					link = max(link, float64(relations.dot(int(edge.Relation), probeOf(q))))
				}
			}
			score := 0.0
			if len(run) > 0 {
				score = node + RelWeight*link
			}
			want = append(want, Candidate{i, score})
		}
		slices.SortFunc(want, byScore)
		require.Equal(t, want[:20], coarse(t, entities, relations, runs).FindTop(asked, linked, 20, nil, never))
	}
}

func TestAQuestionWithoutTriplesFindsRuns(t *testing.T) {
	c := coarse(t, tableOf(2, 1, 0, 0, 1), tableOf(2, 1, 0), [][]Edge{{{0, 0, 0}}, {{1, 0, 1}}})
	got, linked := c.Ask(Query{Whole: []float32{.6, .8}}, 1, nil, never)
	assert.True(t, linked && len(got) == 1 && got[0].Run == 1, "got %v, linked %v", got, linked)
	got, linked = c.Ask(Query{Entities: [][]float32{{1, 0}}, Whole: []float32{0, 1}}, 1, nil, never)
	assert.True(t, !linked && got[0].Run == 0, "got %v, linked %v", got, linked)
}

func numbers(of Terms) []float64 { return []float64{of.Top, of.Cover, of.Pairs, of.Distinct, of.Whole} }

func TestFineScoresOfAnExample(t *testing.T) {
	cosines := [][]float64{{.90, .40, .20}, {.30, .70, .60}}
	for _, c := range []struct {
		variant Variant
		want    Terms
		total   float64
	}{
		{Raw, Terms{.733333, 1, .742691, 1.131371, .219999}, 1.117008},
		{Paper, Terms{.733333, 2, 1.101584, 1.131371, .219999}, 1.288787},
		{CodeCompat, Terms{.366667, 1, .193281, 0, .219999}, 0.527323},
	} {
		got := ScoreFine(cosines, .62, c.variant)
		assert.InDeltaSlice(t, append(numbers(c.want), c.total), append(numbers(got), got.Score()), 1e-6, "%v", c.variant)
	}
	for _, variant := range []Variant{Raw, CodeCompat} {
		got := ScoreFine(cosines[:1], .62, variant)
		assert.InDeltaSlice(t, []float64{.5, 1, .520384, .9}, numbers(got)[:4], 1e-6, "of one row")
	}
	assert.Equal(t, Terms{}, ScoreFine(nil, .9, Raw), "a query without triples has terms")
}

func TestCandidatesFarBelowTheBestAreLeft(t *testing.T) {
	got := KeepBest([]Candidate{{4, .59}, {3, .6}, {2, 1}, {1, 1}}, 20)
	assert.Equal(t, []Candidate{{1, 1}, {2, 1}, {3, .6}}, got, "kept")
	assert.True(t, slices.Equal(KeepBest([]Candidate{{1, -.1}, {2, -.2}}, 1), []Candidate{{1, -.1}}),
		"of scores below 0 the best is to stay, not")
}

// sparseRows returns rows of unit length with a number other than 0 in about every sixth place.
func sparseRows(random *rand.Rand, rows, dim int) [][]float32 {
	out := randomRows(random, rows, dim)
	for _, row := range out {
		square := 0.0
		for k := range row {
			if random.IntN(6) > 0 {
				row[k] = 0
			}
			square += float64(row[k]) * float64(row[k])
		}
		for k := range row {
			row[k] /= float32(max(math.Sqrt(square), 1e-9))
		}
	}
	return out
}

// A number of a row moves by half a step, so that a cosine moves by the length of all of that, and as much again for
// the row's length, which is kept.
func TestCosinesWithCodesLieWithinWhatRoundingMayMove(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	for _, dim := range []int{1, 2, 7, 64, 384, 1024} {
		for _, rows := range [][][]float32{randomRows(random, 50, dim), sparseRows(random, 50, dim)} {
			table := Table{Dim: dim}
			for _, row := range rows {
				table.Add(row)
			}
			for _, question := range randomRows(random, 10, dim) {
				asked := probeOf(question)
				for i, row := range rows {
					largest := 0.0
					for _, x := range row {
						largest = max(largest, math.Abs(float64(x)))
					}
					exact, got := float64(dot(row, question)), float64(table.dot(i, asked))
					if bound := math.Sqrt(float64(dim))*largest/codeRange + 1e-5; math.Abs(got-exact) > bound {
						t.Fatalf("dimension %d: %f, exact %f, may differ by %f", dim, got, exact, bound)
					}
					if again := float64(dot(table.Vector(i), question)); math.Abs(got-again) > 1e-5 {
						t.Fatalf("dimension %d: by whole numbers %f, by the vector %f", dim, got, again)
					}
				}
			}
		}
	}
}

func TestRowsOfFewNumbersTakeLessAndEqualVectorsAreEqualRows(t *testing.T) {
	const dim = 1024
	table, vector := Table{Dim: dim}, sparseRows(rand.New(rand.NewPCG(15, 16)), 1, dim)[0]
	table.Add(vector)
	used := len(table.Codes)
	assert.True(t, used < dim*2/3 && used%sparseCode == 0, "a row of few numbers takes %d bytes", used)
	table.Add(vector)
	assert.True(t, slices.Equal(table.codesOf(0), table.codesOf(1)) && table.Scales[0] == table.Scales[1],
		"equal vectors are other rows")
	table.Add(make([]float32, dim))
	if got := table.Vector(2); !slices.Equal(got, make([]float32, dim)) || table.dot(2, probeOf(vector)) != 0 {
		t.Error("a vector of nothing is something")
	}
	var twice, parts Table
	for _, into := range []*Table{&twice, &parts} {
		into.Dim = dim
		into.Append(table)
	}
	for i := range table.Len() {
		twice.Add(table.Vector(i))
	}
	parts.Append(table)
	assert.True(t, reflect.DeepEqual(twice.Ends, parts.Ends) && slices.Equal(twice.Codes, parts.Codes),
		"rows that were read and added again have other codes")
}

// What an index makes of its tables does not grow with their numbers: the tables are mapped.
func TestAnIndexHoldsNoVectorsOfItsOwn(t *testing.T) {
	const edges, dim = 1000, 1024
	random := rand.New(rand.NewPCG(17, 18))
	book := &Codebook{Entities: make([]string, edges), Relations: make([]string, 1)}
	for i := range uint32(edges) {
		book.Edges = append(book.Edges, Edge{Head: i, Tail: i})
		book.Sources = append(book.Sources, []triples.Source{{Chunk: "c"}})
		book.Runs = append(book.Runs, []uint32{i})
	}
	entities, relations := randomTable(random, edges, dim), randomTable(random, 1, dim)
	lines := randomTable(random, edges, dim)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	index, err := NewIndex(book, entities, relations, lines)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	took := after.TotalAlloc - before.TotalAlloc
	assert.True(t, took <= edges*dim/2, "an index of %d vectors of %d numbers takes %d bytes", edges, dim, took)
	runtime.KeepAlive(index)
}

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
	require.Zero(t, left, "left")
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
	want, random := book.Marshal(), rand.New(rand.NewPCG(9, 9))
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
	assert.Equal(t, 5+10_000-triples.MaxChunkTriples, left, "left")
	assert.Len(t, sequences[0].Edges, 2+triples.MaxChunkTriples, "edges of chunks c and big")
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
		musttest.Code(t, musttest.Err(Unmarshal(broken)), want, "byte %d changed", i)
	}
	alone := (&Codebook{Entities: []string{"A"}, Relations: []string{"is"}, Edges: []Edge{{}},
		Sources: [][]triples.Source{nil}}).Marshal()
	musttest.Refuse(Unmarshal(alone))(t, fault.SegmentDamage)
	for n := range data {
		musttest.Code(t, musttest.Err(Unmarshal(data[:n])), fault.SegmentDamage, "cut at %d", n)
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
	random, taken := rand.New(rand.NewPCG(11, 12)), map[Encoding]bool{}
	for range 60 {
		facts, least := randomWords(random, random.IntN(40), 1+random.IntN(30)), 1<<30
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
	all := randomWords(rand.New(rand.NewPCG(13, 14)), 53, 40)
	unique, seen := all[:50], map[Choice]bool{}
	for budget := 0; budget < 4000; budget += 37 {
		got := Decide(unique, all, budget, tokens.Count)
		require.True(t, got.Tokens <= budget && tokens.Count(got.Text) == got.Tokens, "%d, %d", budget, got.Tokens)
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
