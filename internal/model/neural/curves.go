package neural

import "math"

// Functions of the encoder as tables, between whose entries a line is drawn. They are made of sums, products and
// quotients alone, in one order, so that every machine has the same bits; math.Exp and math.Erf are assembly on some.
const (
	expSteps  = 256 // entries a unit of exp(-x)
	expEnd    = 20  // exp(-20) is 0 for attention
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
	for i := range out {
		out[i] = float32(value)
		value *= step
	}
	return out
}

// makeGelu tabulates x/2 · (1 + erf(x/√2)) by the series of erf without alternating signs:
// erf(z) = 2z/√π · exp(-z²) · Σ (2z²)^n / (1·3·…·(2n+1)).
func makeGelu() []float32 {
	out := make([]float32, 2*geluSteps*geluEnd+2)
	for i := range out {
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

// decay is exp(-x) for x ≥ 0.
func decay(x float32) float32 {
	at := float32(x * expSteps)
	if !(at < expSteps*expEnd) {
		return 0
	}
	i := int(at)
	low := expTable[i]
	return low + float32((expTable[i+1]-low)*float32(at-float32(i)))
}

func gelu(x float32) float32 {
	if x >= geluEnd {
		return x
	}
	at := float32(float32(x+geluEnd) * geluSteps)
	if !(at >= 0) {
		return 0
	}
	i := int(at)
	low := geluTable[i]
	return low + float32((geluTable[i+1]-low)*float32(at-float32(i)))
}
