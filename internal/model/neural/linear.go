package neural

import (
	"math"

	"github.com/unweaver/unweaver/internal/model/neural/kernel"
)

// finest is how finely an input is divided on each side of zero.
const finest = 127

// linear is a layer y = Wx + b in bytes, whose sums are exact.
type linear struct {
	in, out int
	panels  []int8
	start   []int32
	scale   []float32 // of each row
	bias    []float32
}

// newLinear makes a layer of rows that row gives one by one; it may reuse what it gives.
func newLinear(in, out int, bias []float32, row func(r int) []float32) linear {
	layer := linear{in: in, out: out, bias: bias, scale: make([]float32, out)}
	whole := make([]int8, out*in)
	for r := range out {
		weights := row(r)
		top := absolute(weights)
		if top == 0 {
			continue
		}
		layer.scale[r] = top / kernel.Largest
		factor := kernel.Largest / top
		for c, weight := range weights {
			whole[r*in+c] = int8(nearest(float32(weight * factor)))
		}
	}
	layer.panels, layer.start = kernel.Pack(whole, out, in)
	return layer
}

// nearest rounds to the nearest integer, ties to even, as one addition of a large number does: |x| below 2^22.
func nearest(x float32) int32 {
	const large = 3 << 22
	return int32(float32(x+large) - large)
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

// divide writes values as bytes around kernel.Zero and returns what one is worth.
func divide(out []uint8, values []float32) float32 {
	top := absolute(values)
	out = out[:len(values)]
	if !(top > 0) {
		for i := range out {
			out[i] = kernel.Zero
		}
		return 0
	}
	factor := finest / top
	for i, x := range values {
		out[i] = uint8(nearest(float32(x*factor)) + kernel.Zero)
	}
	return top / finest
}

// space is the memory of one encoding; it grows with the largest that it was used for.
type space struct {
	whole      []uint8
	worth      []float32
	sums       []int32
	x, y, qkv  []float32
	mid        []float32
	query      []uint8
	key, value []int8
	start      []int32
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
		worth[t] = divide(whole[t*l.in:], x[t*l.in:(t+1)*l.in])
	}
	width := len(l.start)
	sums := sized(&s.sums, padded*width)
	kernel.Mul(sums, whole, padded, l.in, l.panels, l.start, width)
	for t := range rows {
		from, to := sums[t*width:t*width+l.out], y[t*l.out:(t+1)*l.out]
		scale, bias, one := l.scale[:len(from)], l.bias[:len(from)], worth[t]
		to = to[:len(from)]
		for r, sum := range from {
			to[r] = float32(float32(float32(sum)*one)*scale[r]) + bias[r]
		}
	}
}
