package apr

import (
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
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
	s := Segmenter{Threshold: 0.7, Chain: 0.05, MinLen: 1}
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
	random := rand.New(rand.NewPCG(1, 2))
	s := DefaultSegmenter
	s.MaxLen = 5
	for range 500 {
		lines := make([]Line, 1+random.IntN(30))
		for i := range lines {
			lines[i] = lineAt(random.Float64()*120, uint32(random.IntN(6)), uint32(random.IntN(6)))
		}
		at := random.IntN(len(lines) + 1)
		parts := append(s.Cut(lines[:at]), s.Cut(lines[at:])...)
		refined := s.Refine(parts)
		got, want := lengths(refined), lengths(s.Cut(lines))
		require.True(t, slices.Equal(got, want), "cut at %d: runs of %v, want %v", at, got, want)
		require.True(t, slices.Equal(lengths(s.Refine(refined)), lengths(refined)), "%v", lengths(refined))
	}
}

func coarse(t testing.TB, entities, relations Table, runs [][]Edge) *Coarse {
	c := musttest.Get(NewCoarse(entities, relations, runs))(t)
	return c
}

func TestVectorsOfAnotherCodebookAreToldAndOfAnotherEmbedderIgnored(t *testing.T) {
	entities, relations := tableOf(2, 1, 0, 0, 1), tableOf(2, 1, 0)
	for _, edge := range []Edge{{2, 0, 0}, {0, 0, 2}, {0, 1, 0}} {
		_, err := NewCoarse(entities, relations, [][]Edge{{{0, 0, 0}}, {edge}})
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%v: %v", edge, err)
	}
	musttest.Refuse(NewCoarse(Table{}, Table{}, [][]Edge{{{0, 0, 0}}}))(t, fault.SegmentDamage)
	c := coarse(t, entities, relations, [][]Edge{{{0, 0, 0}}, {{1, 0, 1}}})
	got := c.FindTop([][]float32{{1}, {0, 1, 0}}, nil, 2)
	assert.True(t, len(got) == 2 && got[0].Score == 0, "vectors of another dimension give %v", got)
	got, _ = c.Ask(Query{}, 5)
	assert.True(t, len(got) == 0, "nothing asked finds %v", got)
}

func TestCoarseScoreOfAnExample(t *testing.T) {
	entities := tableOf(2, .6, .8, 0, 1)
	relations := tableOf(2, .28, .96)
	c := coarse(t, entities, relations, [][]Edge{{{0, 0, 1}}})
	for _, one := range []struct {
		relations [][]float32
		want      float64
	}{{[][]float32{{0, 1}}, 0.888}, {nil, 0.6}} { // but for what codes lose
		assert.InDelta(t, one.want, c.FindTop([][]float32{{1, 0}}, one.relations, 5)[0].Score, 0.002, "score")
	}
	for _, k := range []int{0, -5} {
		assert.Empty(t, c.FindTop([][]float32{{1, 0}}, nil, k), "%d", k)
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
		require.Equal(t, want[:20], coarse(t, entities, relations, runs).FindTop(asked, linked, 20))
	}
}

func TestAQuestionWithoutTriplesFindsRuns(t *testing.T) {
	c := coarse(t, tableOf(2, 1, 0, 0, 1), tableOf(2, 1, 0), [][]Edge{{{0, 0, 0}}, {{1, 0, 1}}})
	got, linked := c.Ask(Query{Whole: []float32{.6, .8}}, 1)
	assert.True(t, linked && len(got) == 1 && got[0].Run == 1, "got %v, linked %v", got, linked)
	got, linked = c.Ask(Query{Entities: [][]float32{{1, 0}}, Whole: []float32{0, 1}}, 1)
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
	table := Table{Dim: dim}
	vector := sparseRows(rand.New(rand.NewPCG(15, 16)), 1, dim)[0]
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
