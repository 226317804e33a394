package apr

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	assert.False(t, math.Abs(got-want) > 1e-6, "%s = %.6f, want %.6f", what, got, want)
}

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
		assert.True(t, math.Abs(open.scoreFit(s, lines[i], lines[i+1])-want) <= 1e-6,
			"fit of line %d is %.6f, want %.6f", i+1, open.scoreFit(s, lines[i], lines[i+1]), want)
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
		if got := lengths(s.Refine(refined)); !slices.Equal(got, lengths(refined)) {
			t.Fatalf("refined again: %v, was %v", got, lengths(refined))
		}
	}
}

func coarse(t testing.TB, entities, relations Table, runs [][]Edge) *Coarse {
	t.Helper()
	c, err := NewCoarse(entities, relations, runs)
	require.NoError(t, err)
	return c
}

func TestVectorsOfAnotherCodebookAreToldAndOfAnotherEmbedderIgnored(t *testing.T) {
	entities, relations := tableOf(2, 1, 0, 0, 1), tableOf(2, 1, 0)
	for _, edge := range []Edge{{2, 0, 0}, {0, 0, 2}, {0, 1, 0}} {
		_, err := NewCoarse(entities, relations, [][]Edge{{{0, 0, 0}}, {edge}})
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%v: %v", edge, err)
	}
	_, err := NewCoarse(Table{}, Table{}, [][]Edge{{{0, 0, 0}}})
	assert.True(t, fault.Is(err, fault.SegmentDamage), "tables without vectors: %v", err)
	c := coarse(t, entities, relations, [][]Edge{{{0, 0, 0}}, {{1, 0, 1}}})
	got := c.FindTop([][]float32{{1}, {0, 1, 0}}, nil, 2)
	assert.True(t, len(got) == 2 && got[0].Score == 0, "vectors of another dimension give %v", got)
	if got, _ := c.Ask(Query{}, 5); len(got) != 0 {
		t.Errorf("nothing asked finds %v", got)
	}
}

func TestCoarseScoreOfAnExample(t *testing.T) {
	entities := tableOf(2, .6, .8, 0, 1)
	relations := tableOf(2, .28, .96)
	c := coarse(t, entities, relations, [][]Edge{{{0, 0, 1}}})
	for _, one := range []struct {
		relations [][]float32
		want      float64
	}{{[][]float32{{0, 1}}, 0.888}, {nil, 0.6}} { // but for what codes lose
		got := c.FindTop([][]float32{{1, 0}}, one.relations, 5)[0].Score
		assert.False(t, math.Abs(got-one.want) > 0.002, "score %f, want %f", got, one.want)
	}
	for _, k := range []int{0, -5} {
		got := c.FindTop([][]float32{{1, 0}}, nil, k)
		assert.True(t, len(got) == 0, "%d were asked for, got %v", k, got)
	}
}

// tableOf has the rows of dim numbers each.
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
		got := coarse(t, entities, relations, runs).FindTop(asked, linked, 20)
		require.True(t, slices.Equal(got, want[:20]), "got %v\nwant %v", got, want[:20])
	}
}

func TestAQuestionWithoutTriplesFindsRuns(t *testing.T) {
	c := coarse(t, tableOf(2, 1, 0, 0, 1), tableOf(2, 1, 0), [][]Edge{{{0, 0, 0}}, {{1, 0, 1}}})
	got, linked := c.Ask(Query{Whole: []float32{.6, .8}}, 1)
	assert.True(t, linked && len(got) == 1 && got[0].Run == 1, "got %v, linked %v", got, linked)
	got, linked = c.Ask(Query{Entities: [][]float32{{1, 0}}, Whole: []float32{0, 1}}, 1)
	assert.True(t, !linked && got[0].Run == 0, "got %v, linked %v", got, linked)
}

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
		near(t, "top", got.Top, c.want.Top)
		near(t, "cover", got.Cover, c.want.Cover)
		near(t, "pairs", got.Pairs, c.want.Pairs)
		near(t, "distinct", got.Distinct, c.want.Distinct)
		near(t, "whole", got.Whole, c.want.Whole)
		near(t, "total", got.Score(), c.total)
	}
	for _, variant := range []Variant{Raw, CodeCompat} {
		got := ScoreFine(cosines[:1], .62, variant)
		near(t, "top of one row", got.Top, .5)
		near(t, "cover of one row", got.Cover, 1)
		near(t, "pairs of one row", got.Pairs, .520384)
		near(t, "distinct of one row", got.Distinct, .9)
	}
	assert.Equal(t, Terms{}, ScoreFine(nil, .9, Raw), "a query without triples has terms")
}

func TestCandidatesFarBelowTheBestAreLeft(t *testing.T) {
	got := KeepBest([]Candidate{{4, .59}, {3, .6}, {2, 1}, {1, 1}}, 20)
	want := []Candidate{{1, 1}, {2, 1}, {3, .6}}
	assert.True(t, slices.Equal(got, want), "kept %v, want %v", got, want)
	if got := KeepBest([]Candidate{{1, -.1}, {2, -.2}}, 1); !slices.Equal(got, []Candidate{{1, -.1}}) {
		t.Errorf("of scores below 0 the best is to stay, not %v", got)
	}
}

// Runs of four edges over as many entities as runs, 256 dimensions, two entities and one relation asked.
func BenchmarkCoarse(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, edges := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(edges), func(b *testing.B) {
			entities, relations := randomTable(random, edges/4, 256), randomTable(random, 2000, 256)
			runs := make([][]Edge, edges/4)
			for i := range runs {
				for range 4 {
					runs[i] = append(runs[i], Edge{uint32(random.IntN(edges / 4)), uint32(random.IntN(2000)),
						uint32(random.IntN(edges / 4))})
				}
			}
			c := coarse(b, entities, relations, runs)
			var took []time.Duration
			for b.Loop() {
				query := randomRows(random, 3, 256)
				start := time.Now()
				c.FindTop(query[:2], query[2:], 200)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
