package kernel

import (
	"math/rand/v2"
	"testing"
)

// numbers are random, with the largest that the sums may hold among them.
func numbers(random *rand.Rand, n, limit int) []int16 {
	out := make([]int16, n)
	for i := range out {
		out[i] = int16(random.IntN(2*limit+1) - limit)
		if random.IntN(50) == 0 {
			out[i] = int16(limit)
		}
	}
	return out
}

func TestProductsAreThoseOfTheDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []struct{ tokens, k, n int }{
		{8, 2, 16}, {8, 32, 16}, {16, 384, 48}, {24, 1536, 32}, {64, 34, 80},
	} {
		a := numbers(random, size.tokens*size.k, 5000)
		rows := numbers(random, size.n*size.k, 250)
		panels := Pack(rows, size.n, size.k)
		width := size.n + Width
		fast, plain := make([]int32, size.tokens*width), make([]int32, size.tokens*width)
		Mul(fast, width, a, size.tokens, size.k, panels, size.n)
		Plain(plain, width, a, size.tokens, size.k, panels, size.n)
		for token := range size.tokens {
			for r := range width {
				want := int64(0)
				for c := 0; r < size.n && c < size.k; c++ {
					want += int64(a[token*size.k+c]) * int64(rows[r*size.k+c])
				}
				if at := token*width + r; int64(fast[at]) != want || int64(plain[at]) != want {
					t.Fatalf("%+v, token %d, row %d: %s %d, plain %d, want %d", size, token, r, Name, fast[at], plain[at], want)
				}
			}
		}
	}
}

func TestAPanelIsFilledUpWithZeros(t *testing.T) {
	panel := Pack([]int16{1, 2, 3, 4}, 2, 2)
	if len(panel) != 2*Width || panel[0] != 1 || panel[1] != 2 || panel[2] != 3 || panel[3] != 4 || panel[4] != 0 {
		t.Errorf("%v", panel)
	}
}
