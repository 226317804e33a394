package kernel

// MaxAbsolute returns the largest absolute value.
func MaxAbsolute(values []float32) float32 {
	if !avx2 {
		return absoluteGo(values)
	}
	return absoluteAVX2(&values[0], len(values))
}

func divideRow(out []uint8, values []float32, factor float32) {
	if !avx2 {
		divideGo(out, values, factor)
		return
	}
	divideAVX2(&out[0], &values[0], len(values), factor)
}

// Scale writes sums as numbers: sum · one · scale + bias.
func Scale(out []float32, sums []int32, one float32, scale, bias []float32) {
	if !avx2 {
		scaleGo(out, sums, one, scale, bias)
		return
	}
	n := len(sums)
	scaleAVX2(&out[:n][0], &sums[0], n, one, &scale[:n][0], &bias[:n][0])
}

// GELU replaces values by their Gaussian error linear units.
func GELU(values []float32) {
	if !avx2 {
		geluGo(values)
		return
	}
	geluAVX2(&values[0], len(values), &geluTable[0])
}

// Spread does what spreadGo does, with AVX2 where the processor has it.
func Spread(out []uint8, sums []int32, one float32, worth, mask, scratch []float32) int32 {
	if !avx2 {
		return spreadGo(out, sums, one, worth, mask, scratch)
	}
	n := len(sums)
	return spreadAVX2(&out[:n][0], &sums[0], n, one, &worth[:n][0], &mask[:n][0], &scratch[:n][0], &expTable[0])
}

func addRow(x, y []float32, parts *[4]float64) {
	if !avx2 {
		addGo(x, y, parts)
		return
	}
	addAVX2(&x[0], &y[:len(x)][0], len(x), parts)
}

func sumSquares(x []float32, mean float32, parts *[4]float64) {
	if !avx2 {
		squaresGo(x, mean, parts)
		return
	}
	squaresAVX2(&x[0], len(x), mean, parts)
}

func shiftRow(x []float32, mean, factor float32, weight, bias []float32) {
	if !avx2 {
		shiftGo(x, mean, factor, weight, bias)
		return
	}
	shiftAVX2(&x[0], len(x), mean, factor, &weight[:len(x)][0], &bias[:len(x)][0])
}

//go:noescape
func absoluteAVX2(x *float32, n int) float32

//go:noescape
func divideAVX2(out *uint8, x *float32, n int, factor float32)

//go:noescape
func scaleAVX2(out *float32, sums *int32, n int, one float32, scale, bias *float32)

//go:noescape
func geluAVX2(x *float32, n int, table *float32)

//go:noescape
func spreadAVX2(out *uint8, sums *int32, n int, one float32, worth, mask, scratch, table *float32) int32

//go:noescape
func addAVX2(x, y *float32, n int, parts *[4]float64)

//go:noescape
func squaresAVX2(x *float32, n int, mean float32, parts *[4]float64)

//go:noescape
func shiftAVX2(x *float32, n int, mean, factor float32, weight, bias *float32)
