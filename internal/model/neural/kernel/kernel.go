// Package kernel multiplies matrices of bytes for the encoder of internal/model/neural. Sums are exact, so that every
// order of adding, of SIMD as of the fallback, gives the same bits.
package kernel

// Width is how many rows of a matrix lie side by side in a panel.
const Width = 32

// Tokens is what numbers of tokens are rounded up to.
const Tokens = 8

// Group is how many neighbouring columns of a row lie side by side in a panel.
const Group = 4

// Largest is the largest absolute value of a number in a panel: two products with a byte, of which the AVX2 path makes
// one sum of 16 bits, do not exceed 2 · 255 · Largest.
const Largest = 64

// Zero is what stands for 0 among inputs that may be negative.
const Zero = 128

// RoundUp rounds n up to a multiple of step.
func RoundUp(n, step int) int { return (n + step - 1) / step * step }

// PlaceOf returns the place of row r, column c, of a matrix of k columns in its panels.
func PlaceOf(r, c, k int) int { return r/Width*Width*k + (c/Group*Width+r%Width)*Group + c%Group }

// Pack lays out n rows of a matrix, each of k numbers, for Mul: panels of Width rows, in them groups of columns, in
// these the rows. k is a multiple of Group; rows that fill up the last panel are zero. start holds what sums begin
// with where inputs are shifted by Zero.
func Pack(rows []int8, n, k int) (panels []int8, start []int32) {
	panels, start = make([]int8, RoundUp(n, Width)*k), make([]int32, RoundUp(n, Width))
	for r := range n {
		for c, v := range rows[r*k : (r+1)*k] {
			panels[PlaceOf(r, c, k)] = v
			start[r] -= Zero * int32(v)
		}
	}
	return panels, start
}

// Mul writes out[t*n+r] = start[r] + Σ a[t*k+c] · row r, column c of panels, for tokens rows of a and n rows of panels.
// tokens is a multiple of Tokens, n of Width, k of Group and not 0.
func Mul(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	if tokens == 0 || n == 0 {
		return
	}
	// The bounds that assembly does not check.
	_ = out[tokens*n-1]
	_ = a[tokens*k-1]
	_ = panels[n*k-1]
	_ = start[n-1]
	mulPanels(out, a, tokens, k, panels, start, n)
}

// MulPlain does what Mul does, without SIMD.
func MulPlain(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	for from := 0; from < n; from += Width {
		panel := panels[from*k : (from+Width)*k]
		for t := range tokens {
			sums := [Width]int32(start[from:])
			row := a[t*k : (t+1)*k]
			for c := 0; c < k; c += Group {
				w, x, y, z := int32(row[c]), int32(row[c+1]), int32(row[c+2]), int32(row[c+3])
				group := panel[c*Width : (c+Group)*Width]
				for r := range sums {
					four := (*[Group]int8)(group[r*Group:])
					sums[r] += w*int32(four[0]) + x*int32(four[1]) + y*int32(four[2]) + z*int32(four[3])
				}
			}
			copy(out[t*n+from:], sums[:])
		}
	}
}
