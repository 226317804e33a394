// Package kernel multiplies matrices of small integers for the encoder of internal/model/neural. Sums are exact: who
// calls keeps them within 32 bits, so that every order of adding, of SIMD as of the fallback, gives the same bits.
package kernel

// Width is how many rows of a matrix lie side by side in a panel.
const Width = 16

// Tokens is what numbers of tokens are rounded up to.
const Tokens = 8

// Pack lays out rows of a matrix, each of k numbers, for Mul: panels of Width rows, in them pairs of neighbouring
// columns, in these the rows. k must be even; rows that fill up the last panel are zero.
func Pack(rows []int16, n, k int) []int16 {
	out := make([]int16, Up(n, Width)*k)
	for r := range n {
		panel := out[r/Width*Width*k:]
		for c := range k {
			panel[(c/2*Width+r%Width)*2+c%2] = rows[r*k+c]
		}
	}
	return out
}

// Up rounds n up to a multiple of step.
func Up(n, step int) int { return (n + step - 1) / step * step }

// Mul gives out[t*width+r] = Σ a[t*k+c] · row r, column c of panels, for tokens rows of a and n rows of panels. tokens
// is a multiple of Tokens, n and width of Width, k is even and not 0.
func Mul(out []int32, width int, a []int16, tokens, k int, panels []int16, n int) {
	if tokens == 0 || n == 0 {
		return
	}
	// The bounds that assembly does not check.
	_ = out[(tokens-1)*width+n-1]
	_ = a[tokens*k-1]
	_ = panels[n*k-1]
	mul(out, width, a, tokens, k, panels, n)
}

// Plain is Mul without SIMD.
func Plain(out []int32, width int, a []int16, tokens, k int, panels []int16, n int) {
	for from := 0; from < n; from += Width {
		panel := panels[from*k : (from+Width)*k]
		for t := range tokens {
			var sums [Width]int32
			row := a[t*k : (t+1)*k]
			for c := 0; c < k; c += 2 {
				x, y := int32(row[c]), int32(row[c+1])
				pair := panel[c*Width : c*Width+2*Width]
				for r := range sums {
					sums[r] += x*int32(pair[2*r]) + y*int32(pair[2*r+1])
				}
			}
			copy(out[t*width+from:], sums[:])
		}
	}
}
