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

	"github.com/unweaver/unweaver/internal/model/triples"
)

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

// The best of many by codes are the best by their vectors, but for some of the last, which lie as near to each other as
// codes may move them.
func TestRanksByCodesAreThoseByVectors(t *testing.T) {
	const rows, asked, best = 2000, 20, 20
	random := rand.New(rand.NewPCG(13, 14))
	for _, dim := range []int{64, 256, 1024} {
		vectors := randomRows(random, rows, dim)
		table := Table{Dim: dim}
		for _, vector := range vectors {
			table.Add(vector)
		}
		common, first := 0, 0
		for _, question := range randomRows(random, asked, dim) {
			ranked := func(score func(i int) float32) []Candidate {
				var out []Candidate
				for i := range rows {
					out = append(out, Candidate{i, float64(score(i))})
				}
				slices.SortFunc(out, byScore)
				return out[:best]
			}
			exact := ranked(func(i int) float32 { return dot(vectors[i], question) })
			codes := probeOf(question)
			got := ranked(func(i int) float32 { return table.dot(i, codes) })
			for _, one := range got {
				if slices.ContainsFunc(exact, func(other Candidate) bool { return other.Run == one.Run }) {
					common++
				}
			}
			if got[0].Run == exact[0].Run {
				first++
			}
		}
		t.Logf("dimension %d: %d of %d are the same, the first of %d of %d", dim, common, asked*best, first, asked)
		assert.True(t, 100*common >= 97*asked*best && 100*first >= 90*asked,
			"dimension %d: %d of %d best are the same, the first of %d of %d", dim, common, asked*best, first, asked)
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
