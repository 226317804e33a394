package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// hashedRows returns rows such as an embedder makes that hashes words: each of some words of a row, few of them
// frequent, adds to four numbers.
func hashedRows(n, dim int, seed uint64) []vectors.Row {
	r := rand.New(rand.NewPCG(seed, 11))
	words := rand.NewZipf(r, 1.2, 8, 20_000)
	rows := make([]vectors.Row, n)
	for i := range rows {
		vector := make([]float32, dim)
		for range 3 + r.IntN(4) {
			word := words.Uint64()
			slots := rand.New(rand.NewPCG(word, 3))
			weight := float32(1 + math.Log1p(float64(word)))
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
	t.Helper()
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
		r := rand.New(rand.NewPCG(uint64(n), 5))
		rows := make([]vectors.Row, n)
		for i := range rows {
			vector := make([]float32, dim)
			for range 3 {
				vector[r.IntN(dim)] = float32(r.NormFloat64())
			}
			vector[i%dim] = 1
			rows[i] = vectors.Row{Key: fmt.Sprintf("%08d", i), Vector: vector}
		}
		p, c := columnedPart(t, rows, dim)
		fitted := p.fittedLevels()
		asked := make([]float32, dim)
		for i := range asked {
			asked[i] = float32(r.NormFloat64())
		}
		tables := c.prepareTables(asked, 100)
		next := 0
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

// columnedPart writes a part and its columns, of use or not.
func columnedPart(t *testing.T, rows []vectors.Row, dim int) (*part, *columned) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "00000000"+partEnd)
	require.NoError(t, writePart(path, dim, sourceOf(sortRows(rows), dim)))
	p := must(openPart(path))
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
		rows := hashedRows(3000, dim, uint64(dim))
		p, c := columnedPart(t, rows, dim)
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

func TestAnIndexFindsWhatIsBest(t *testing.T) {
	for name, fill := range map[string]func(*testing.T, string, int) (*Store, []vectors.Row){"signs": made, "columns": hashed} {
		store, rows := fill(t, t.TempDir(), indexedRows)
		for _, n := range []int{1, 10, 100, 133, 208} {
			require.True(t, withIndex(store, n) == 1 || n > 100 && name == "signs", "%s: no index for %d rows", name, n)
			share := recall(t, store, rows, n)
			assert.True(t, share >= 0.99, "%s: recall@%d is %.4f", name, n, share)
		}
		assert.Zero(t, withIndex(store, 1001), "%s: so many that no index was measured for them", name)
		assert.Equal(t, 1.0, recall(t, store, rows, 1001), "%s: many", name)
		assert.Equal(t, 1.0, recall(t, store, rows, indexedRows+1), "%s: more than there are", name)
	}
}

// Whatever became of an index, a search is right, and the next load makes the index again with the same bytes.
func TestADamagedIndexIsMadeAgain(t *testing.T) {
	for end, c := range map[string]struct {
		fill  func(*testing.T, string, int) (*Store, []vectors.Row)
		count int
	}{indexEnd: {made, fewRows}, columnsEnd: {hashed, indexedRows}} {
		dir := t.TempDir()
		store, rows := c.fill(t, dir, c.count)
		path := matching(t, dir, "*"+end)[0]
		whole := must(os.ReadFile(path))
		contents := map[string][]byte{
			"missing": nil, "empty": {}, "cut": whole[:len(whole)/2], "longer": append(bytes.Clone(whole), 0),
			"only a header": whole[:indexHead+4], "zeros": make([]byte, len(whole)),
			"no measures": slices.Concat(whole[:20], make([]byte, indexHead-20), whole[len(whole)-4:]),
		}
		for name, at := range map[string]int{
			"magic": 3, "dimension": 8, "rows": 12, "other rows": 16, "measures": 20, "factors or levels": indexHead + 9,
			"stripes": len(whole) / 2, "signs": len(whole) - 100, "checksum": len(whole) - 1,
		} {
			contents[name] = bytes.Clone(whole)
			contents[name][at] ^= 0x10
		}
		for name, raw := range contents {
			require.NoError(t, store.Close())
			if write(t, path, raw); raw == nil {
				require.NoError(t, os.Remove(path))
			}
			store = indexed(t, dir)
			counts(t, store, len(rows)) // opens it
			store.open["c"].loaded = true
			share := recall(t, store, rows, 10)
			assert.True(t, share == 1 && withIndex(store, 10) == 0, "%s, %s: an index is used, recall %.4f", end, name, share)
			reload(t, store)
			again, err := os.ReadFile(path)
			assert.True(t, bytes.Equal(again, whole) && withIndex(store, 10) == 1, "%s, %s: not made again: %v", end, name, err)
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
	if low.raiseFloor(); low.floor != 0.5 {
		t.Errorf("the floor is %g, and another one has 0.5", low.floor)
	}
}
