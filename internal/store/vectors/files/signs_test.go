package files

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func TestSumsEqualThoseOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	for _, length := range []int{1, 2, 8, 48, 128, 512} {
		for _, most := range []int{0, 1, min(127, math.MaxUint16/(2*length))} {
			tables, signs := make([]byte, 32*length), make([]byte, 32*length)
			for i := range signs {
				tables[i], signs[i] = byte(most), byte(r.Uint32())
				if most == 1 {
					tables[i] = byte(r.IntN(min(127, math.MaxUint16/(2*length)) + 1))
				}
			}
			var got, want [rowsAtOnce]uint16
			sumTables(tables, signs, &got)
			sumsGo(tables, signs, &want)
			require.Equal(t, want, got, "%d bytes", length)
		}
	}
}

func TestRowsOverAFloorAreThoseOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	strange := []float32{0, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -1, math.MaxFloat32}
	for turn := range 2000 {
		asked := tables{step: r.Float32() / 100, least: -20 * r.Float32()}
		var summed [rowsAtOnce]uint16
		factors := make([]float32, rowsAtOnce-turn%3)
		for i := range factors {
			summed[i], factors[i] = uint16(r.Uint32()), r.Float32()/10
			if turn%5 == 0 {
				factors[i] = strange[r.IntN(len(strange))]
			}
		}
		floor := asked.estimateScore(summed[3], factors[3]) // equal is not below
		if turn%7 == 0 {
			floor = float32(math.Inf(2*(turn%2) - 1))
		}
		got, want := asked.rowsOver(&summed, factors, floor), asked.overGo(&summed, factors, floor)
		require.Equal(t, want, got, "%v, floor %g", factors, floor)
		require.True(t, turn%5 == 0 || turn%7 == 0 || want>>3&1 != 0, "a row as good as the floor was left out")
	}
}

func TestARotationKeepsProducts(t *testing.T) {
	for _, dim := range []int{64, 65, 100, 384, 1000, 1024} {
		turn, rows := newRotation(dim), vectorstest.Rows(2, dim, uint64(dim))
		before := dot32(rows[0].Vector, rows[1].Vector)
		for _, row := range rows {
			turn.rotateVector(row.Vector)
		}
		after := dot32(rows[0].Vector, rows[1].Vector)
		assert.False(t, math.Abs(float64(after-before)) > 1e-5, "dimension %d: a product of %g became %g", dim, before, after)
	}
}

// The estimates by signs err as little as the theory says, also where nearly all numbers of the vectors are zero.
func TestEstimatesBySignsAreCloseToScores(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, dim := range []int{64, 100, 384, 1024, 4096} {
		made := shapes(r, dim)
		for _, of := range slices.Sorted(maps.Keys(made)) {
			row, squares, n := made[of], 0.0, 200
			turn := newRotation(dim)
			for range n {
				x, v := row(), row()
				exact := float64(dot32(x, v))
				lengths := math.Sqrt(float64(dot32(x, x))) * math.Sqrt(float64(dot32(v, v)))
				tables := turn.buildTables(x)
				turn.rotateVector(v)
				signs := make([]byte, signBytes(dim))
				factor, interleaved := signsOf(v, signs), make([]byte, rowsAtOnce*len(signs))
				for i, b := range signs {
					interleaved[rowsAtOnce*i+5] = b
				}
				var out [rowsAtOnce]uint16
				sumTables(tables.bytes, interleaved, &out)
				difference := (float64(tables.estimateScore(out[5], factor)) - exact) / lengths
				squares += difference * difference
			}
			off := math.Sqrt(squares/float64(n)) * math.Sqrt(float64(dim))
			assert.False(t, off > 1.3, "dimension %d, %s: off by %.2f / sqrt(dimension)", dim, of, off)
		}
	}
}

// bySigns searches a part by its index, with nothing left out and everything sorted.
func bySigns(p *part, question []float32, n int) []vectors.Hit {
	x := p.index.Load()
	var estimates []float32
	x.estimateRows(question, func(_ int, block []float32) { estimates = append(estimates, block...) })
	rows := make([]int, p.n)
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(estimates[b], estimates[a]) })
	var hits []vectors.Hit
	for _, row := range rows[:x.countKept(n)] {
		hits = append(hits, vectors.Hit{Key: p.keyAt(row), Score: dot32(question, p.vectorAt(row))})
	}
	slices.SortFunc(hits, better)
	return hits[:n]
}

func better(a, b vectors.Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Key, b.Key))
}

func TestWorkersBesideEachOtherFindWhatAPlainSearchBySignsFinds(t *testing.T) {
	store, rows := made(t, t.TempDir(), indexedRows)
	p := store.open["c"].parts[0]
	for _, workers := range []int{1, 2, 5} {
		before := runtime.GOMAXPROCS(workers)
		defer runtime.GOMAXPROCS(before)
		for i, n := range []int{1, 7, 20, 100, 140} {
			require.True(t, p.index.Load().countKept(n) != 0, "no index for %d", n)
			question := slices.Clone(rows[i*700].Vector)
			for j, x := range rows[i*300+5].Vector {
				question[j] += x
			}
			got, err := store.Search(t.Context(), "c", question, n)
			if want := bySigns(p, question, n); err != nil || !slices.Equal(got, want) {
				t.Errorf("%d workers, %d best: %v (%v), want %v", workers, n, got, err, want)
			}
		}
	}
}

func TestTheBestRowsAreThoseOfASort(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, most := range []int{1, 10, 700} {
		var all []ranked
		found := newBest(most, new(floors))
		for row := range 5000 {
			one := ranked{int32(row), float32(random.IntN(900))} // many are equal
			all = append(all, one)
			found.add(one.row, one.estimate)
		}
		order := func(a, b ranked) int { return cmp.Or(cmp.Compare(b.estimate, a.estimate), cmp.Compare(a.row, b.row)) }
		slices.SortFunc(all, order)
		got := found.keptRows()
		slices.SortFunc(got, order)
		assert.True(t, slices.Equal(got, all[:most]), "the %d best: %v, want %v", most, got, all[:most])
	}
}

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
					scale, query := quantiseVector(v, codes), coarseQuestion(x)
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
				for _, most := range []int{-1, 0, 1, 10, n - 1, n, n + 5, 1_000_000} {
					got := musttest.Get(store.Search(t.Context(), "c", x, most))(t)
					if want := exact(rows, x, most); !slices.Equal(got, want) {
						t.Fatalf("dimension %d, %s question, %s rows: the %d best are\n%v, want\n%v", dim, asks, of, most, got, want)
					}
				}
			}
		}
	}
}

func exact(rows []vectors.Row, question []float32, n int) []vectors.Hit {
	hits := make([]vectors.Hit, len(rows))
	for i, row := range rows {
		hits[i] = vectors.Hit{Key: row.Key, Score: vectors.Dot(question, row.Vector)}
	}
	slices.SortFunc(hits, better)
	return hits[:max(0, min(n, len(hits)))]
}

func put(t *testing.T, store *Store, dim int, rows []vectors.Row) {
	require.NoError(t, store.Create(t.Context(), "c", dim))
	for _, some := range [][]vectors.Row{rows[:len(rows)/3], rows[len(rows)/3:]} {
		require.NoError(t, store.Upsert(t.Context(), "c", some))
	}
	require.NoError(t, store.Load(t.Context(), "c"))
}

// hashedRows returns rows such as an embedder makes that hashes words: each of some words of a row, few of them
// frequent, adds to four numbers.
func hashedRows(n, dim int, seed uint64) []vectors.Row {
	r := rand.New(rand.NewPCG(seed, 11))
	words, rows := rand.NewZipf(r, 1.2, 8, 20_000), make([]vectors.Row, n)
	for i := range rows {
		vector := make([]float32, dim)
		for range 3 + r.IntN(4) {
			word := words.Uint64()
			slots, weight := rand.New(rand.NewPCG(word, 3)), float32(1+math.Log1p(float64(word)))
			for range 4 {
				vector[slots.IntN(dim)] += weight * float32(2*slots.IntN(2)-1)
			}
		}
		vector[r.IntN(dim)] += 0.01 // no two are equal
		vectors.Normalise(vector)
		rows[i] = vectors.Row{Key: fmt.Sprintf("%032x-%016x", r.Uint64(), i), Vector: vector}
	}
	return rows
}

// hashed fills collection c with one part of hashed rows and makes its index.
func hashed(t *testing.T, dir string, n int) (*Store, []vectors.Row) {
	store, rows := indexed(t, dir), hashedRows(n, indexedDim, 61)
	fill(t, store, rows)
	reload(t, store)
	return store, rows
}

func TestFloorsAreInTheOrderOfNumbers(t *testing.T) {
	numbers := []float32{float32(math.Inf(-1)), -math.MaxFloat32, -1, -1e-40, 0, 1e-40, 0.5, 1, math.MaxFloat32,
		float32(math.Inf(1))}
	for i, x := range numbers {
		if order := orderOf(x); order == 0 || floatOf(order) != x || i > 0 && order <= orderOf(numbers[i-1]) {
			t.Errorf("%g has the order %d, which is of %g", x, order, floatOf(order))
		}
	}
	var all floors
	low, high := newBest(1, &all), newBest(1, &all)
	low.floor, high.floor = 0.25, 0.5
	high.shareFloor()
	low.shareFloor()
	low.raiseFloor()
	assert.True(t, low.floor == 0.5, "the floor is %g, and another one has 0.5", low.floor)
}
