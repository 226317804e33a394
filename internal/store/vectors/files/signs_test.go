package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	(&signed{p: p, factors: x.factors, signs: x.signs}).estimateRows(question, n,
		func(_ int, block []float32) { estimates = append(estimates, block...) })
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

// hashed fills collection c with one part of hashed rows and makes its index, which is one of columns.
func hashed(t *testing.T, dir string, n int) (*Store, []vectors.Row) {
	store, rows := indexed(t, dir), hashedRows(n, indexedDim, 61)
	fill(t, store, rows)
	reload(t, store)
	require.True(t, len(matching(t, dir, "*"+columnsEnd)) == 1 && len(matching(t, dir, "*"+indexEnd)) == 0,
		"the index is not one of columns")
	return store, rows
}

// A question may be of any kind, whatever the rows are like: all of its numbers equal, one that is all, or none of
// those that rows have.
func TestColumnsAnswerEveryQuestion(t *testing.T) {
	store, rows := hashed(t, t.TempDir(), indexedRows)
	r := rand.New(rand.NewPCG(8, 8))
	dense, one, tiny := make([]float32, indexedDim), make([]float32, indexedDim), make([]float32, indexedDim)
	for i := range dense {
		dense[i] = float32(r.NormFloat64())
		tiny[i] = dense[i] * 1e-30
	}
	one[17] = 3
	for name, asked := range map[string][]float32{"dense": dense, "one number": one, "tiny": tiny} {
		got, err := store.Search(t.Context(), "c", asked, 50)
		require.True(t, err == nil && len(got) == 50, "%s: %d rows, %v", name, len(got), err)
		want, found := exact(rows, asked, 50), 0
		for _, hit := range got {
			if hit.Score >= want[len(want)-1].Score { // rows may be equally good
				found++
			}
		}
		assert.True(t, found >= 48, "%s: %d of the 50 best", name, found)
	}
}

func TestColumnSumsEqualThoseOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for _, groups := range []int{1, 2, 7, 40} {
		for _, lookups := range []int{2, 4, 16, 34} {
			for _, most := range []int{1, 127} {
				tables, levels := make([]byte, levelsOfCode*lookups), make([]byte, 5000)
				for i := range tables {
					tables[i] = byte(r.IntN(most + 1))
				}
				for i := range levels {
					levels[i] = byte(r.Uint32())
				}
				offsets := make([]uint32, lookups)
				for i := range offsets {
					offsets[i] = uint32(r.IntN(len(levels) - rowsAtOnce*groups + 1))
				}
				got, want := make([]groupSums, groups), make([]groupSums, groups)
				got[groups-1][1][31], want[groups-1][1][31] = 5, 5 // what is there is added to
				columnSums(tables, offsets, levels, got, offsets[:2])
				columnSumsGo(tables, offsets, levels, want)
				require.True(t, slices.Equal(got, want), "%d groups, %d lookups: %v, want %v", groups, lookups, got, want)
			}
		}
	}
}

// Each row has the levels of its codes in its place, in every block and in the last group, which is not full.
func TestEstimatesByColumnsAreThoseOfLevels(t *testing.T) {
	const dim = 16
	for _, n := range []int{1, 63, 64, 65, 5000, rowsPerStripe - 1, rowsPerStripe, 2*rowsPerStripe + 70} {
		r, rows := rand.New(rand.NewPCG(uint64(n), 5)), make([]vectors.Row, n)
		for i := range rows {
			vector := make([]float32, dim)
			for range 3 {
				vector[r.IntN(dim)] = float32(r.NormFloat64())
			}
			vector[i%dim] = 1
			rows[i] = vectors.Row{Key: fmt.Sprintf("%08d", i), Vector: vector}
		}
		p, c := columnedPart(t, rows, dim)
		fitted, asked := p.fittedLevels(), make([]float32, dim)
		for i := range asked {
			asked[i] = float32(r.NormFloat64())
		}
		tables, next := c.prepareTables(asked, 100), 0
		c.estimateRows(asked, 100, func(low int, estimates []float32) {
			require.Equal(t, next, low, "%d rows: row", n)
			next += len(estimates)
			for i, got := range estimates {
				var sum uint16
				for lookup, of := range tables.dims {
					level := fitted.level[byte(p.codesAt(low + i)[of])]
					sum += uint16(tables.bytes[levelsOfCode*lookup+int(level)])
				}
				want := tables.estimateScore(sum, p.scales[low+i])
				require.True(t, got == want, "%d rows, row %d: %g, want %g", n, low+i, got, want)
			}
		})
		assert.Equal(t, n, next, "estimates")
	}
}

func columnedPart(t *testing.T, rows []vectors.Row, dim int) (*part, *columned) {
	path := filepath.Join(t.TempDir(), "00000000"+partEnd)
	require.NoError(t, writePart(path, dim, sourceOf(sortRows(rows), dim)))
	p := musttest.Get(openPart(path))(t)
	t.Cleanup(func() { _ = p.close() })
	fitted := p.fittedLevels()
	file, err := os.Create(path + ".made")
	if err == nil {
		err = makeColumns(context.Background(), p, fitted, file)
	}
	require.NoError(t, err)
	_ = file.Close()
	raw, err := os.ReadFile(path + ".made")
	require.True(t, err == nil && len(raw) == columnsSize(p), "%v %v %v", len(raw), columnsSize(p), err)
	made := columnsIn(p, raw)
	made.values = fitted.values
	return p, made
}

// An estimate differs from the score by what levels and bytes leave out, a few hundredths of the lengths.
func TestEstimatesByColumnsAreCloseToScores(t *testing.T) {
	for _, dim := range []int{64, 100, 1000, 1024} {
		p, c := columnedPart(t, hashedRows(3000, dim, uint64(dim)), dim)
		squares, n := 0.0, 0
		for _, asked := range hashedRows(10, dim, uint64(dim)+1) {
			c.estimateRows(asked.Vector, 100, func(low int, estimates []float32) {
				for i, estimate := range estimates {
					off := float64(estimate - dot32(asked.Vector, p.vectorAt(low+i)))
					squares += off * off
					n++
				}
			})
		}
		off := math.Sqrt(squares / float64(n))
		assert.False(t, off > 0.02, "dimension %d: off by %.4f", dim, off)
	}
}

// Of all ways to cut the range of codes into 16 the levels are one whose values lie nearest: each code is nearest to
// its own, and even steps are worse.
func TestLevelsLieNearestToCodes(t *testing.T) {
	p, _ := columnedPart(t, hashedRows(2000, indexedDim, 5), indexedDim)
	fitted := p.fittedLevels()
	var fit, even float64
	for row := range p.n {
		for _, code := range p.codesAt(row) {
			own := math.Abs(float64(code) - float64(fitted.values[fitted.level[byte(code)]]))
			for _, value := range fitted.values {
				if value != 0 && math.Abs(float64(code)-float64(value)) < own-1e-3 { // a level without codes is 0
					t.Fatalf("code %d is nearer to %g than to its level %g", code, value, fitted.values[fitted.level[byte(code)]])
				}
			}
			fit += own * own
			step := float64(code) - (math.Floor(float64(code)/16)*16 + 8)
			even += step * step
		}
	}
	assert.False(t, fit > even/2, "squares of %g, of even steps %g", fit, even)
}

// Rows of which all numbers count have signs.
func TestOnlyConcentratedRowsHaveColumns(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, fewRows)
	assert.True(t, len(matching(t, dir, "*"+columnsEnd)) == 0 && len(matching(t, dir, "*"+indexEnd)) == 1,
		"dense rows have columns")
	for _, dim := range []int{64, 384, 1024} {
		p, _ := columnedPart(t, vectorstest.Rows(300, dim, 4), dim)
		assert.False(t, p.isConcentrated(), "dense rows of %d count as concentrated", dim)
		p, _ = columnedPart(t, hashedRows(300, dim, 4), dim)
		assert.True(t, dim <= 64 || p.isConcentrated(), "hashed rows of %d do not count as concentrated", dim)
	}
}

// The rows that are found do not depend on how many look beside each other.
func TestColumnsFindTheSameWithAnyNumberOfWorkers(t *testing.T) {
	const dim, n = 64, rowsPerStripe + 5000
	store := open(t, t.TempDir())
	store.indexBytes = 1
	rows := hashedRows(n, dim, 77)
	for i := range rows { // so that they are concentrated in few dimensions, too
		clear(rows[i].Vector[8:])
		rows[i].Vector[i%8] += 0.1
	}
	err := errors.Join(store.Create(t.Context(), "c", dim), store.Upsert(t.Context(), "c", rows)) // one part, two blocks
	require.NoError(t, err)
	reload(t, store)
	p := store.open["c"].parts[0]
	x := p.index.Load()
	require.True(t, x != nil && x.columns != nil, "there are no columns")
	for i := range 20 {
		var before []vectors.Hit
		for _, workers := range []int{1, 2, 5} {
			was := runtime.GOMAXPROCS(workers)
			got, err := store.Search(t.Context(), "c", rows[i*n/20].Vector, 60)
			runtime.GOMAXPROCS(was)
			require.NoError(t, err)
			require.True(t, before == nil || slices.Equal(before, got), "%d workers find other rows", workers)
			before = got
		}
	}
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
