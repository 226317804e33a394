package neural

import "github.com/unweaver/unweaver/internal/model/neural/kernel"

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
		top := kernel.MaxAbsolute(weights)
		if top == 0 {
			continue
		}
		layer.scale[r] = top / kernel.Largest
		factor := kernel.Largest / top
		for c, weight := range weights {
			whole[r*in+c] = int8(kernel.RoundNearest(float32(weight * factor)))
		}
	}
	layer.panels, layer.start = kernel.Pack(whole, out, in)
	return layer
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
	mask       []float32
	chance     []float32
}

func resizeSlice[T any](slice *[]T, n int) []T {
	if cap(*slice) < n {
		*slice = make([]T, n)
	}
	return (*slice)[:n]
}

// applyLayer gives y of each of rows inputs.
func (l *linear) applyLayer(s *space, y, x []float32, rows int) {
	padded := kernel.RoundUp(rows, kernel.Tokens)
	whole, worth := resizeSlice(&s.whole, padded*l.in), resizeSlice(&s.worth, rows)
	for t := range rows {
		worth[t] = kernel.Quantise(whole[t*l.in:], x[t*l.in:(t+1)*l.in])
	}
	width := len(l.start)
	sums := resizeSlice(&s.sums, padded*width)
	kernel.Mul(sums, whole, padded, l.in, l.panels, l.start, width)
	for t := range rows {
		kernel.Scale(y[t*width:(t+1)*width], sums[t*width:(t+1)*width], worth[t], l.scale, l.bias)
	}
}
