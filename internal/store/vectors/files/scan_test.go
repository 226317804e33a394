package files

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// shapes returns vectors that are hard on a quantiser: dense ones, sparse ones, one large number among small ones,
// numbers halfway between two steps, tiny, huge.
func shapes(r *rand.Rand, dim int) map[string]func() []float32 {
	made := func(number func(i int) float64) func() []float32 {
		return func() []float32 {
			v := make([]float32, dim)
			for i := range v {
				v[i] = float32(number(i))
			}
			v[r.IntN(dim)] += 1e-3 // never of length zero
			return v
		}
	}
	return map[string]func() []float32{
		"dense":   made(func(int) float64 { return r.NormFloat64() }),
		"sparse":  made(func(int) float64 { return r.NormFloat64() * float64(r.IntN(8)/7) }),
		"peaked":  made(func(i int) float64 { return r.NormFloat64() * math.Exp(-float64(i)) }),
		"halfway": made(func(int) float64 { return (float64(r.IntN(253)) - 126.5) / 127 }),
		"signs":   made(func(int) float64 { return float64(2*r.IntN(2) - 1) }),
		"tiny":    made(func(int) float64 { return 1e-30 * r.NormFloat64() }),
		"huge":    made(func(int) float64 { return 1e12 * r.NormFloat64() }),
	}
}

// The proof of coarse.bounds, tried: a search leaves out what its bounds exclude.
func TestTheScoreOfARowLiesWithinItsBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, dim := range []int{1, 2, 31, 64, 384, 1024, 4096} {
		questions, rows := shapes(r, dim), shapes(r, dim)
		for asks, question := range questions {
			for of, row := range rows {
				for range 5 {
					x, v := question(), row()
					codes, product := make([]int8, dim), make([]int32, 1)
					scale := quantiseVector(v, codes)
					query := coarseQuestion(x)
					dotRows(query.numbers, codes, product)
					low, high := query.boundScore(product[0], scale)
					if score := float64(dot32(x, v)); score < low || score > high {
						t.Fatalf("dimension %d, %s question, %s row: %g is not within %g and %g", dim, asks, of, score, low, high)
					}
				}
			}
		}
	}
}

// A search gives what brute force gives, to the last bit and in its order, whatever the rows are like.
func TestASearchIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, dim := range []int{1, 3, 64, 200, 4096} {
		for of, row := range shapes(r, dim) {
			n := 700
			if dim == 4096 {
				n = 40
			}
			rows := make([]vectors.Row, n)
			for i := range rows {
				rows[i] = vectors.Row{Key: fmt.Sprintf("%04d", (i*37)%n), Vector: row()}
				if i%5 == 4 {
					rows[i].Vector = rows[i-1].Vector // ties go by key
				}
			}
			store := open(t, t.TempDir())
			put(t, store, dim, rows)
			for asks, question := range shapes(r, dim) {
				x := question()
				for _, most := range []int{1, 10, n - 1, n, n + 5, 1_000_000} {
					got := must(store.Search(t.Context(), "c", x, most))
					if want := exact(rows, x, most); !slices.Equal(got, want) {
						t.Fatalf("dimension %d, %s question, %s rows: the %d best are\n%v, want\n%v", dim, asks, of, most, got, want)
					}
				}
			}
		}
	}
}

// exact searches by scoring every row.
func exact(rows []vectors.Row, question []float32, n int) []vectors.Hit {
	hits := make([]vectors.Hit, len(rows))
	for i, row := range rows {
		hits[i] = vectors.Hit{Key: row.Key, Score: dot32Go(question, row.Vector)}
	}
	slices.SortFunc(hits, func(a, b vectors.Hit) int {
		if a.Score != b.Score {
			if a.Score > b.Score {
				return -1
			}
			return 1
		}
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return hits[:min(n, len(hits))]
}

// put fills collection c with rows in several parts, and loads it.
func put(t *testing.T, store *Store, dim int, rows []vectors.Row) {
	t.Helper()
	require.NoError(t, store.Create(t.Context(), "c", dim))
	for _, some := range [][]vectors.Row{rows[:len(rows)/3], rows[len(rows)/3:]} {
		require.NoError(t, store.Upsert(t.Context(), "c", some))
	}
	require.NoError(t, store.Load(t.Context(), "c"))
}

// Where all rows are equal all are candidates, and the scan must not look through them again for each.
func TestRowsThatAreAllEqualAreFoundByKey(t *testing.T) {
	store := open(t, t.TempDir())
	rows := vectorstest.Rows(30_000, vectorstest.Dim, 31)
	for i := range rows {
		rows[i].Vector = rows[0].Vector
	}
	put(t, store, vectorstest.Dim, rows)
	got, err := store.Search(t.Context(), "c", rows[0].Vector, 100)
	want := exact(rows, rows[0].Vector, 100)
	assert.True(t, err == nil && slices.Equal(got, want), "found %v, %v; want %v", got, err, want)
}

func TestASearchForNothingGivesNothing(t *testing.T) {
	store, rows := filled(t, t.TempDir(), 10)
	require.NoError(t, store.Load(t.Context(), "c"))
	for _, n := range []int{0, -1} {
		hits, err := store.Search(t.Context(), "c", rows[0].Vector, n)
		assert.True(t, err == nil && len(hits) == 0, "the %d best are %v, %v", n, hits, err)
	}
}
