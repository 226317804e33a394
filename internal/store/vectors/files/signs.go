package files

import (
	"math"
	mathbits "math/bits"
	"math/rand/v2"
)

// The signs of a row, once it is rotated at random, tell about where it lies, in an eighth of the bytes of its codes:
// the product of a question with the signs, times a factor of the row, is an estimate of its score whose error is about
// 0.8 / sqrt(dimension) of the lengths, whatever the vectors are like (RaBitQ, Gao and Long 2024). So the rows that are
// worth a look at their codes are found by their signs.

const (
	rowsAtOnce  = 32 // whose signs are interleaved: byte i of each, then byte i+1 of each
	signRounds  = 4
	fewestSigns = 64 // dimensions; the estimates of fewer are of no use
)

// rotation is a random one that depends on the dimension alone. It keeps products: signs flipped at random and the
// transform of Hadamard, over the first and then over the last power of two numbers.
type rotation struct {
	dim, power int
	flips      [signRounds][]float32
}

func newRotation(dim int) *rotation {
	r := &rotation{dim: dim, power: 1 << (mathbits.Len(uint(dim)) - 1)}
	random := rand.New(rand.NewPCG(0x756e776561766572, uint64(dim)))
	for i := range r.flips {
		r.flips[i] = make([]float32, dim)
		for j := range r.flips[i] {
			r.flips[i][j] = float32(2*int(random.Uint64()>>63) - 1)
		}
	}
	return r
}

// rotateVector rotates a vector in place.
func (r *rotation) rotateVector(v []float32) {
	rounds := signRounds
	if r.power == r.dim {
		rounds = 2 // all numbers are mixed at once
	}
	scale := float32(1 / math.Sqrt(float64(r.power)))
	for i := range rounds {
		for j, flip := range r.flips[i] {
			v[j] *= flip
		}
		mixed := v[:r.power]
		if i%2 == 1 {
			mixed = v[r.dim-r.power:]
		}
		multiplyHadamard(mixed)
		for j := range mixed {
			mixed[j] *= scale
		}
	}
}

// multiplyHadamard multiplies a power of two numbers, at least four, with Hadamard's matrix.
func multiplyHadamard(v []float32) {
	for i := 0; i+4 <= len(v); i += 4 {
		four := v[i : i+4 : i+4]
		a, b, c, d := four[0]+four[1], four[0]-four[1], four[2]+four[3], four[2]-four[3]
		four[0], four[1], four[2], four[3] = a+c, b+d, a-c, b-d
	}
	for half := 4; half < len(v); half *= 2 {
		for low := 0; low < len(v); low += 2 * half {
			a, b := v[low:low+half], v[low+half:low+2*half]
			for i, x := range a {
				y := b[i]
				a[i], b[i] = x+y, x-y
			}
		}
	}
}

// signBytes returns how many bytes the signs of a row take.
func signBytes(dim int) int { return (dim + 7) / 8 }

// signsOf gives the signs of a rotated vector, and the factor that makes the product with them a score.
func signsOf(v []float32, out []byte) (factor float32) {
	clear(out)
	var norm1, norm2 float64
	for i, x := range v {
		norm2 += float64(x) * float64(x)
		if x >= 0 {
			out[i/8] |= 1 << (i % 8)
			norm1 += float64(x)
		} else {
			norm1 -= float64(x)
		}
	}
	if norm1 == 0 {
		return 0
	}
	return float32(norm2 / norm1)
}

// tables are a rotated question as signs are multiplied with it: for each four dimensions the sum of its numbers under
// each of the sixteen combinations of signs, as a byte.
type tables struct {
	bytes []byte // of 16, for each half of a byte of signs
	step  float32
	least float32 // the sum whose bytes are all zero
}

func (r *rotation) buildTables(question []float32) tables {
	v := make([]float32, 8*signBytes(r.dim))
	copy(v, question)
	r.rotateVector(v[:r.dim])
	fours := len(v) / 4
	t := tables{bytes: make([]byte, 16*fours)}
	widest := 0.0
	lows := make([]float64, fours)
	for i := range lows {
		for _, x := range v[4*i : 4*i+4] {
			lows[i] -= math.Abs(float64(x))
		}
		widest = max(widest, -2*lows[i])
	}
	most := min(127, math.MaxUint16/fours) // sums of two fit a byte, and of all two bytes
	step := widest / float64(most)
	least := 0.0
	for i, low := range lows {
		least += low
		for signs := range 16 {
			sum := -low
			for j, x := range v[4*i : 4*i+4] {
				if signs>>j&1 == 1 {
					sum += float64(x)
				} else {
					sum -= float64(x)
				}
			}
			if step > 0 {
				t.bytes[16*i+signs] = byte(math.Floor(sum / step))
			}
		}
	}
	t.step, t.least = float32(step), float32(least+step/2*float64(fours))
	return t
}

// sumsGo adds up, for each of 32 rows whose signs are interleaved, what the tables say of them.
func sumsGo(tables, signs []byte, out *[rowsAtOnce]uint16) {
	clear(out[:])
	for at := 0; at < len(signs); at += rowsAtOnce {
		low, high := tables[at:at+16], tables[at+16:at+32]
		for row := range rowsAtOnce {
			both := signs[at+row]
			out[row] += uint16(low[both&15]) + uint16(high[both>>4])
		}
	}
}

// estimateScore estimates the score of a row, from what the tables say of its signs.
func (t *tables) estimateScore(sum uint16, factor float32) float32 {
	return factor * (t.step*float32(sum) + t.least)
}

func (t *tables) overGo(sums *[rowsAtOnce]uint16, factors []float32, floor float32) (rows uint32) {
	for i, factor := range factors {
		if !(t.estimateScore(sums[i], factor) < floor) { // so that what is not a number is kept
			rows |= 1 << i
		}
	}
	return rows
}
