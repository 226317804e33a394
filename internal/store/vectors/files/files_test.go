package files

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	store := must(Open(dir))
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	vectorstest.Run(t, func(t *testing.T) vectors.Store { return open(t, t.TempDir()) })
}

func TestProductsEqualThoseOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{1, 3, 7, 31, 32, 33, 64, 100, 512, 1024, 1027, 4096} {
		most := int16(min(math.MaxInt16, math.MaxInt32/(128*dim)))
		for _, rows := range []int{1, 2, 5} {
			question, codes := make([]int16, dim), make([]int8, dim*rows)
			fill := func(number func() (int16, int8)) {
				for i := range codes {
					question[i%dim], codes[i] = number()
				}
			}
			for _, number := range []func() (int16, int8){
				func() (int16, int8) { return int16(r.IntN(2*int(most)+1)) - most, int8(r.IntN(255) - 127) },
				func() (int16, int8) { return -most, -127 }, // the largest sum
			} {
				fill(number)
				got, want := make([]int32, rows), make([]int32, rows)
				dotRows(question, codes, got)
				dotsGo(question, codes, want)
				require.True(t, slices.Equal(got, want), "dimension %d: %v, want %v", dim, got, want)
			}
			if want := int32(dim) * int32(most) * 127; dots1(question, codes) != want {
				t.Fatalf("dimension %d: %d, want %d", dim, dots1(question, codes), want)
			}
		}
		a, b := make([]float32, dim), make([]float32, dim)
		for range 20 {
			for i := range a {
				a[i], b[i] = float32(r.NormFloat64()), float32(r.NormFloat64()*math.Exp(20*r.NormFloat64()))
			}
			got, want := dot32(a, b), dot32Go(a, b)
			require.True(t, got == want, "dimension %d: %g, want the same bits as %g", dim, got, want)
		}
	}
}

func dots1(question []int16, codes []int8) int32 {
	var out [1]int32
	dotRows(question, codes, out[:])
	return out[0]
}

func TestRowsSurviveReopeningAndMerging(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	rs := vectorstest.Rows(60*20, vectorstest.Dim, 9)
	require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
	for at := 0; at < len(rs); at += 20 { // more parts than a loaded collection keeps
		require.NoError(t, store.Upsert(t.Context(), "c", rs[at:at+20]))
	}
	require.NoError(t, store.Load(t.Context(), "c"))
	if n := len(store.open["c"].parts); n > maxParts {
		t.Errorf("%d parts after load", n)
	}
	require.NoError(t, store.Close())
	store = open(t, dir)
	n, err := store.Count(t.Context(), "c")
	assert.True(t, err == nil && n == int64(len(rs)), "%d rows, %v", n, err)
}

// must returns a value of a fixture that does not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
