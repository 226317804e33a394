package files

import "math"

// dot16Go returns the inner product of a coarse question with one int8 row.
func dot16Go(question []int16, row []int8) int32 {
	var s0, s1, s2, s3 int32
	row = row[:len(question)]
	i := 0
	for ; i+4 <= len(question); i += 4 {
		s0 += int32(question[i]) * int32(row[i])
		s1 += int32(question[i+1]) * int32(row[i+1])
		s2 += int32(question[i+2]) * int32(row[i+2])
		s3 += int32(question[i+3]) * int32(row[i+3])
	}
	for ; i < len(question); i++ {
		s0 += int32(question[i]) * int32(row[i])
	}
	return s0 + s1 + s2 + s3
}

// dotsGo does what dots does, without assembly.
func dotsGo(question []int16, rows []int8, out []int32) {
	dim := len(question)
	for i := range out {
		out[i] = dot16Go(question, rows[i*dim:(i+1)*dim])
	}
}

// quantiseVector maps a vector to int8 with one scale: v ≈ scale * q.
func quantiseVector(vector []float32, q []int8) (scale float32) {
	var m float32
	for _, x := range vector {
		if x < 0 {
			x = -x
		}
		m = max(m, x)
	}
	if m == 0 {
		return 0
	}
	scale = m / 127
	f := 127 / m
	for i, x := range vector {
		y := x * f
		if y >= 0 {
			y += 0.5
		} else {
			y -= 0.5
		}
		q[i] = int8(y)
	}
	return scale
}

// coarse is a question in whole numbers, as the scan multiplies it with int8 rows.
type coarse struct {
	numbers []int16
	scale   float64 // question ≈ scale * numbers
	perStep float64 // how far a row's quantisation may move its score, for each unit of the row's scale
}

// Why the score of a row v with codes c and scale s lies within perStep * s of the estimate scale * s * (numbers · c):
//
//   - a number of v differs from s * c by at most half a step, and what float32 adds to that (127 * 2^-22 steps), so
//     that the product with the question x moves by at most |x|₁ * s * 0.5001;
//   - a number of x differs from its coarse one by d, so that the product moves by at most |d|₁ * 127 * s;
//   - the exact score is rounded to float32: by 2^-24 of itself, which is at most |x|₁ * 127 * s, and so is the score
//     that it is compared with; sums of float64 err less by far.
//
// The quotients of quantise overflow where a row's largest number is below 1e-36: smallRow covers what its codes are
// then.
const (
	halfStep  = 0.5001
	rounding  = 127 * 4.0 / (1 << 24)
	smallRow  = 1e-30
	codeRange = 127
)

// coarseQuestion quantises a question as finely as sums of 32 bits allow.
func coarseQuestion(question []float32) coarse {
	most := max(1, min(math.MaxInt16, math.MaxInt32/(128*len(question))))
	var largest, norm1, lost1 float64
	for _, x := range question {
		largest = max(largest, math.Abs(float64(x)))
		norm1 += math.Abs(float64(x))
	}
	c := coarse{numbers: make([]int16, len(question)), scale: largest / float64(most)}
	for i, x := range question {
		n := math.Round(float64(x) / c.scale)
		c.numbers[i] = int16(n)
		lost1 += math.Abs(float64(x) - n*c.scale)
	}
	c.perStep = norm1*(halfStep+rounding) + lost1*codeRange
	return c
}

// boundScore gives the range in which the score of a row lies, from the product of its codes and its scale.
func (c *coarse) boundScore(product int32, scale float32) (low, high float64) {
	estimate := c.scale * float64(scale) * float64(product)
	slack := c.perStep * (float64(scale) + smallRow)
	return estimate - slack, estimate + slack
}

// bytesAhead of what is multiplied is brought near where rows follow each other.
const bytesAhead = 2048

// dotRows gives the inner products of a question with rows that follow each other.
func dotRows(question []int16, rows []int8, out []int32) { dotsAhead(question, rows, out, bytesAhead) }
