package kernel

import "math"

// What lies between products. Each function gives the same bits with SIMD as without: floating point is rounded after
// every step and added in one order. Slices of one call have one length, a multiple of Width.

// Quantise writes values as bytes around Zero and returns what one of them is worth.
func Quantise(out []uint8, values []float32) float32 {
	const finest = 127 // on each side of Zero
	top := MaxAbsolute(values)
	out = out[:len(values)]
	if !(top > 0) {
		for i := range out {
			out[i] = Zero
		}
		return 0
	}
	divideRow(out, values, finest/top)
	return top / finest
}

func divideGo(out []uint8, values []float32, factor float32) {
	for i, x := range values {
		out[i] = uint8(RoundNearest(float32(x*factor)) + Zero)
	}
}

// RoundNearest rounds to the nearest integer, ties to even, as one addition of a large number does: |x| below 2^22.
func RoundNearest(x float32) int32 {
	const large = 3 << 22
	return int32(float32(x+large) - large)
}

// absoluteGo returns the largest absolute value. Without its sign a number's bits are ordered as the numbers are.
func absoluteGo(values []float32) float32 {
	const unsigned = 1<<31 - 1
	top := uint32(0)
	for _, x := range values {
		top = max(top, math.Float32bits(x)&unsigned)
	}
	return math.Float32frombits(top)
}

func scaleGo(out []float32, sums []int32, one float32, scale, bias []float32) {
	for i, sum := range sums {
		out[i] = float32(float32(float32(sum)*one)*scale[i]) + bias[i]
	}
}

// Functions of the encoder as tables, between whose entries a line is drawn. They are made of sums, products and
// quotients alone, in one order, so that every machine has the same bits; math.Exp and math.Erf are assembly on some.
const (
	expSteps  = 256 // entries a unit of exp(-x)
	expEnd    = 20  // from there exp(-x) is 0
	geluSteps = 128
	geluEnd   = 6 // beyond it gelu(x) is x, or 0
)

var (
	expTable  = makeExp()
	geluTable = makeGelu()
)

func makeExp() []float32 {
	const step = 0.9961013694701174900628646619451690442864 // exp(-1/expSteps)
	out := make([]float32, expSteps*expEnd+2)
	value := 1.0
	for i := range out[:expSteps*expEnd] {
		out[i] = float32(value)
		value *= step
	}
	return out
}

// makeGelu tabulates x/2 · (1 + erf(x/√2)) by the series of erf without alternating signs:
// erf(z) = 2z/√π · exp(-z²) · Σ (2z²)^n / (1·3·…·(2n+1)).
func makeGelu() []float32 {
	out := make([]float32, 2*geluSteps*geluEnd+2)
	for i := 1; i < len(out); i++ {
		x := float64(i)/geluSteps - geluEnd
		z := x / math.Sqrt2
		square := float64(z * z)
		term, sum := 1.0, 1.0
		power, exp := 1.0, 1.0
		for n := 1; n < 200; n++ {
			term = float64(term*2) * square / float64(2*n+1)
			sum += term
			power = float64(power*square) / float64(n)
			exp += power
		}
		erf := float64(2*z/math.Sqrt(math.Pi)) * sum / exp
		out[i] = float32(float64(x/2) * float64(1+erf))
	}
	return out
}

// interpolateAt reads a table at a place that is not below 0.
func interpolateAt(table []float32, at float32) float32 {
	i := int32(at)
	low := table[i]
	return low + float32((table[i+1]-low)*float32(at-float32(i)))
}

func geluGo(values []float32) {
	for i, x := range values {
		at := float32(float32(x+geluEnd) * geluSteps)
		if !(at > 0) {
			at = 0
		}
		if x < geluEnd {
			values[i] = interpolateAt(geluTable, at)
		}
	}
}

// spreadGo writes the chances of one token as bytes, the largest as 255, and returns their sum: the softmax of what
// sums are worth. mask is 0, or -∞ where there is no token; scratch is overwritten.
func spreadGo(out []uint8, sums []int32, one float32, worth, mask, scratch []float32) int32 {
	top := float32(math.Inf(-1))
	for i, sum := range sums {
		scratch[i] = float32(float32(float32(sum)*one)*worth[i]) + mask[i]
		top = max(top, scratch[i])
	}
	total := int32(0)
	for i, v := range scratch[:len(sums)] {
		at := float32(float32(top-v) * expSteps)
		if !(at < expSteps*expEnd) {
			at = expSteps * expEnd
		}
		chance := RoundNearest(float32(interpolateAt(expTable, at) * 255))
		out[i] = uint8(chance)
		total += chance
	}
	return total
}

// Normalise adds y to x and gives it mean 0 and variance 1 before weight and bias. Sums have four parts.
func Normalise(x, y, weight, bias []float32, epsilon float64) {
	var parts [4]float64
	addRow(x, y, &parts)
	count := float64(len(x))
	mean := float32((parts[0] + parts[1] + parts[2] + parts[3]) / count)
	parts = [4]float64{}
	sumSquares(x, mean, &parts)
	factor := float32(1 / math.Sqrt((parts[0]+parts[1]+parts[2]+parts[3])/count+epsilon))
	shiftRow(x, mean, factor, weight, bias)
}

func addGo(x, y []float32, parts *[4]float64) {
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		to, from := (*[4]float32)(x), (*[4]float32)(y)
		for i := range to {
			to[i] += from[i]
			parts[i] += float64(to[i])
		}
	}
}

func squaresGo(x []float32, mean float32, parts *[4]float64) {
	for ; len(x) >= 4; x = x[4:] {
		for i, v := range (*[4]float32)(x) {
			d := float32(v - mean)
			parts[i] += float64(float32(d * d))
		}
	}
}

func shiftGo(x []float32, mean, factor float32, weight, bias []float32) {
	for i, v := range x {
		x[i] = float32(float32(float32(v-mean)*factor)*weight[i]) + bias[i]
	}
}
