//go:build !amd64

package kernel

// Name says what multiplies on this machine.
var Name = "go"

func mulPanels(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	MulPlain(out, a, tokens, k, panels, start, n)
}

// MaxAbsolute returns the largest absolute value.
func MaxAbsolute(values []float32) float32 { return absoluteGo(values) }

func divideRow(out []uint8, values []float32, factor float32) { divideGo(out, values, factor) }

// Scale writes sums as numbers: sum · one · scale + bias.
func Scale(out []float32, sums []int32, one float32, scale, bias []float32) {
	scaleGo(out, sums, one, scale, bias)
}

// GELU replaces values by their Gaussian error linear units.
func GELU(values []float32) { geluGo(values) }

// Spread does what spreadGo does.
func Spread(out []uint8, sums []int32, one float32, worth, mask, scratch []float32) int32 {
	return spreadGo(out, sums, one, worth, mask, scratch)
}

func addRow(x, y []float32, parts *[4]float64)                { addGo(x, y, parts) }
func sumSquares(x []float32, mean float32, parts *[4]float64) { squaresGo(x, mean, parts) }
func shiftRow(x []float32, mean, factor float32, weight, bias []float32) {
	shiftGo(x, mean, factor, weight, bias)
}
