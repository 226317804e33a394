package neural

import (
	"math"

	"github.com/unweaver/unweaver/internal/model/neural/kernel"
)

// finest is how finely a row of weights is divided on each side of zero. A row of 4-bit weights in blocks keeps its
// values to within a hundredth of their own step.
const finest = 1023

// linear is a layer y = Wx + b in integers: its inputs are divided as finely as sums of 32 bits allow for any input.
type linear struct {
	in, out int
	panels  []int16
	scale   []float32 // of each row
	bias    []float32
	limit   float32 // largest integer of an input
}

// newLinear makes a layer of rows that row gives one by one; it may reuse what it gives.
func newLinear(in, out int, bias []float32, row func(r int) []float32) linear {
	layer := linear{in: in, out: out, bias: bias, scale: make([]float32, out)}
	whole := make([]int16, out*in)
	largest := int64(1)
	for r := range out {
		weights := row(r)
		top := absolute(weights)
		if top == 0 {
			continue
		}
		layer.scale[r] = top / finest
		factor := finest / top
		total := int64(0)
		for c, weight := range weights {
			q := nearest(float32(weight * factor))
			whole[r*in+c] = q
			total += int64(max(q, -q))
		}
		largest = max(largest, total)
	}
	layer.limit = float32(min(math.MaxInt16, math.MaxInt32/largest))
	layer.panels = kernel.Pack(whole, out, in)
	return layer
}

// nearest rounds to the nearest integer, ties to even, as one addition of a large number does: |x| below 2^22.
func nearest(x float32) int16 {
	const large = 3 << 22
	return int16(int32(float32(x+large) - large))
}

// absolute is the largest absolute value. Without its sign a number's bits are ordered as the numbers are; four parts
// do not wait for each other.
func absolute(values []float32) float32 {
	const unsigned = 1<<31 - 1
	var a, b, c, d uint32
	for len(values) >= 4 {
		four := (*[4]float32)(values)
		a = max(a, math.Float32bits(four[0])&unsigned)
		b = max(b, math.Float32bits(four[1])&unsigned)
		c = max(c, math.Float32bits(four[2])&unsigned)
		d = max(d, math.Float32bits(four[3])&unsigned)
		values = values[4:]
	}
	for _, x := range values {
		a = max(a, math.Float32bits(x)&unsigned)
	}
	return math.Float32frombits(max(a, b, c, d))
}

// divide writes values as integers up to limit and gives what one is worth.
func divide(out []int16, values []float32, limit float32) float32 {
	top := absolute(values)
	if !(top > 0) {
		clear(out[:len(values)])
		return 0
	}
	factor := limit / top
	out = out[:len(values)]
	for i, x := range values {
		out[i] = nearest(float32(x * factor))
	}
	return top / limit
}

// space is the memory of one encoding; it grows with the largest that it was used for.
type space struct {
	whole      []int16
	worth      []float32
	sums       []int32
	x, y, qkv  []float32
	mid        []float32
	query, key []int16
	value      []int16
	keyWorth   []float32
	chance     []float32
}

func sized[T any](slice *[]T, n int) []T {
	if cap(*slice) < n {
		*slice = make([]T, n)
	}
	return (*slice)[:n]
}

// apply gives y of each of rows inputs.
func (l *linear) apply(s *space, y, x []float32, rows int) {
	padded := kernel.Up(rows, kernel.Tokens)
	whole, worth := sized(&s.whole, padded*l.in), sized(&s.worth, rows)
	for t := range rows {
		worth[t] = divide(whole[t*l.in:], x[t*l.in:(t+1)*l.in], l.limit)
	}
	clear(whole[rows*l.in:])
	width := kernel.Up(l.out, kernel.Width)
	sums := sized(&s.sums, padded*width)
	kernel.Mul(sums, width, whole, padded, l.in, l.panels, width)
	for t := range rows {
		from, to := sums[t*width:t*width+l.out], y[t*l.out:(t+1)*l.out]
		scale, bias, one := l.scale[:len(from)], l.bias[:len(from)], worth[t]
		to = to[:len(from)]
		for r, sum := range from {
			to[r] = float32(float32(float32(sum)*one)*scale[r]) + bias[r]
		}
	}
}
