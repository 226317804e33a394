package kernel

import (
	"math/rand/v2"
	"testing"
)

type matrices struct {
	a      []uint8
	rows   []int8
	panels []int8
	start  []int32
	out    []int32
}

// newMatrices makes random ones, with the largest numbers among them.
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
		m := newMatrices(random, size.tokens, size.k, size.n)
		width := RoundUp(size.n, Width)
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
