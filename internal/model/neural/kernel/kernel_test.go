package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

type matrices struct {
	a            []uint8
	rows, panels []int8
	start, out   []int32
}

func newMatrices(random *rand.Rand, tokens, k, n int) matrices {
	m := matrices{a: make([]uint8, tokens*k), rows: make([]int8, n*k), out: make([]int32, tokens*RoundUp(n, Width))}
	for i := range m.a {
		if m.a[i] = uint8(random.IntN(256)); random.IntN(3) == 0 {
			m.a[i] = 255
		}
	}
	for i := range m.rows {
		if m.rows[i] = int8(random.IntN(2*Largest+1) - Largest); random.IntN(3) == 0 {
			m.rows[i] = Largest * int8(1-2*random.IntN(2))
		}
	}
	m.panels, m.start = Pack(m.rows, n, k)
	return m
}

func TestProductsAreThoseOfTheDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []struct{ tokens, k, n int }{
		{8, 4, 32}, {8, 32, 32}, {16, 384, 96}, {24, 1536, 64}, {64, 36, 20},
	} {
		m, width := newMatrices(random, size.tokens, size.k, size.n), RoundUp(size.n, Width)
		plain := make([]int32, len(m.out))
		Mul(m.out, m.a, size.tokens, size.k, m.panels, m.start, width)
		MulPlain(plain, m.a, size.tokens, size.k, m.panels, m.start, width)
		for token := range size.tokens {
			for r := range width {
				want := int32(0)
				for c := 0; r < size.n && c < size.k; c++ {
					want += (int32(m.a[token*size.k+c]) - Zero) * int32(m.rows[r*size.k+c])
				}
				if at := token*width + r; m.out[at] != want || plain[at] != want {
					t.Fatalf("%+v, token %d, row %d: %s %d, plain %d, want %d", size, token, r, Name, m.out[at], plain[at], want)
				}
			}
		}
	}
}

// What lies between products has the bits of plain Go, and is near its definition.
// Promises: 129.
func TestWhatIsBetweenHasOneResult(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	floats := func(n int, width float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(width * random.NormFloat64())
		}
		return out
	}
	for _, n := range []int{32, 96, 384} {
		x, y, weight, bias := floats(n, 4), floats(n, 4), floats(n, 1), floats(n, 1)
		x[3], x[n-1] = -40, 39
		sums, mask := make([]int32, n), make([]float32, n)
		for i := range sums {
			sums[i] = int32(random.IntN(1<<21) - 1<<20)
		}
		mask[n-1] = float32(math.Inf(-1))
		clone := func(values []float32) []float32 { return append([]float32{}, values...) }
		assert.Equal(t, absoluteGo(x), MaxAbsolute(x))
		assert.Equal(t, float32(40), MaxAbsolute(x))
		fast, plain := make([]uint8, n), make([]uint8, n)
		worth := Quantise(fast, x)
		divideGo(plain, x, 127/float32(40))
		assert.Equal(t, plain, fast)
		for i, v := range x {
			assert.InDelta(t, v, worth*float32(int(fast[i])-Zero), float64(worth)*0.501)
		}
		scaled, scaledPlain := make([]float32, n), make([]float32, n)
		Scale(scaled, sums, 0.001, weight, bias)
		scaleGo(scaledPlain, sums, 0.001, weight, bias)
		assert.Equal(t, scaledPlain, scaled)
		unit, unitPlain := clone(x), clone(x)
		GELU(unit)
		geluGo(unitPlain)
		assert.Equal(t, unitPlain, unit)
		for i, v := range x {
			assert.InDelta(t, float64(v)/2*(1+math.Erf(float64(v)/math.Sqrt2)), unit[i], 1e-4)
		}
		total := Spread(fast, sums, 1e-5, weight, mask, make([]float32, n))
		assert.Equal(t, spreadGo(plain, sums, 1e-5, weight, mask, make([]float32, n)), total)
		assert.Equal(t, plain, fast)
		top := math.Inf(-1)
		for i, sum := range sums[:n-1] {
			top = max(top, float64(sum)*1e-5*float64(weight[i]))
		}
		for i, sum := range sums[:n-1] {
			assert.InDelta(t, 255*math.Exp(float64(sum)*1e-5*float64(weight[i])-top), fast[i], 0.51)
		}
		assert.Zero(t, fast[n-1], "what is masked has a chance")
		normal, normalPlain := clone(x), clone(x)
		Normalise(normal, y, weight, bias, 1e-5)
		var parts, deviations [4]float64
		addGo(normalPlain, y, &parts)
		mean := float32((parts[0] + parts[1] + parts[2] + parts[3]) / float64(n))
		squaresGo(normalPlain, mean, &deviations)
		variance := (deviations[0] + deviations[1] + deviations[2] + deviations[3]) / float64(n)
		shiftGo(normalPlain, mean, float32(1/math.Sqrt(variance+1e-5)), weight, bias)
		assert.Equal(t, normalPlain, normal)
	}
}

func BenchmarkMul(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	const tokens, k, n = 128, 384, 1536
	m := newMatrices(random, tokens, k, n)
	for b.Loop() {
		Mul(m.out, m.a, tokens, k, m.panels, m.start, n)
	}
	b.ReportMetric(float64(tokens*k*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
