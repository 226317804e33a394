package apr

import (
	"encoding/binary"
	"math"
	"slices"
)

// Table is a matrix of vectors of whole numbers, row after row, each with a scale: it takes a quarter of what their
// float32 take, less where most numbers of a row are 0. A row has the length of the vector that it was made of, and
// differs from it by some thousandths (docs/explain/methods.md). Equal vectors are equal rows.
//
// Codes of a row end where Ends says. As many as dimensions: an int8 each. Fewer: of what is not 0, its place in two
// bytes, lower first, and the int8, in the order of the places; which is taken where it is shorter.
type Table struct {
	Dim    int
	Scales []float32
	Ends   []uint64
	Codes  []byte
}

// codeRange is the largest number of a row, and sparseCode the bytes of one that names its place.
const (
	codeRange  = 127
	sparseCode = 3
)

// Add appends a vector of the table's dimension. One with what is no finite number makes the table Unfit.
func (t *Table) Add(vector []float32) {
	var largest float32
	for _, x := range vector {
		largest = max(largest, x, -x)
	}
	codes, used, square, length := make([]byte, len(vector)), 0, 0.0, 0.0
	for i, x := range vector {
		if largest > 0 {
			code := math.Round(float64(x) / float64(largest) * codeRange)
			codes[i] = byte(int8(code))
			square += code * code
		}
		length += float64(x) * float64(x)
		if codes[i] != 0 {
			used++
		}
	}
	scale := 0.0
	switch {
	case math.IsNaN(length) || math.IsInf(length, 0):
		scale = math.NaN()
	case square > 0:
		scale = math.Sqrt(length / square)
	}
	if sparseCode*used < len(vector) {
		short := make([]byte, 0, sparseCode*used)
		for i, code := range codes {
			if code != 0 {
				short = append(binary.LittleEndian.AppendUint16(short, uint16(i)), code)
			}
		}
		codes = short
	}
	t.Scales = append(t.Scales, float32(scale))
	t.Codes = append(t.Codes, codes...)
	t.Ends = append(t.Ends, uint64(len(t.Codes)))
}

// Append appends the rows of a table of the same dimension.
func (t *Table) Append(more Table) {
	before := uint64(len(t.Codes))
	t.Scales, t.Codes = append(t.Scales, more.Scales...), append(t.Codes, more.Codes...)
	t.Ends = slices.Grow(t.Ends, len(more.Ends))
	for _, end := range more.Ends {
		t.Ends = append(t.Ends, before+end)
	}
}

// Len returns the number of rows.
func (t Table) Len() int { return len(t.Scales) }

func (t Table) codesOf(i int) []byte {
	from := uint64(0)
	if i > 0 {
		from = t.Ends[i-1]
	}
	return t.Codes[from:t.Ends[i]]
}

// Vector returns a row as float32, in new memory.
func (t Table) Vector(i int) []float32 {
	out := make([]float32, t.Dim)
	codes, scale := t.codesOf(i), t.Scales[i]
	if len(codes) == t.Dim {
		for k, code := range codes {
			out[k] = float32(int8(code)) * scale
		}
		return out
	}
	for ; len(codes) >= sparseCode; codes = codes[sparseCode:] {
		out[binary.LittleEndian.Uint16(codes)] = float32(int8(codes[2])) * scale
	}
	return out
}

// probe is a vector in whole numbers, as rows are multiplied with it: so finely that what is lost is far below what
// the rows lost, and sums of the most dimensions fit 64 bits.
type probe struct {
	numbers []int
	scale   float64
}

const probeRange = 1 << 20

func probeOf(vector []float32) probe {
	largest := 0.0
	for _, x := range vector {
		largest = max(largest, math.Abs(float64(x)))
	}
	out := probe{numbers: make([]int, len(vector)), scale: largest / probeRange}
	if largest > 0 {
		for i, x := range vector {
			out.numbers[i] = int(math.Round(float64(x) / out.scale))
		}
	}
	return out
}

// probesOf returns probes of the vectors that have the dimension.
func probesOf(vectors [][]float32, dim int) []probe {
	var out []probe
	for _, vector := range vectors {
		if len(vector) == dim {
			out = append(out, probeOf(vector))
		}
	}
	return out
}

// dot returns the product of a row with a probe of the table's dimension.
func (t Table) dot(i int, p probe) float32 {
	codes, sum := t.codesOf(i), 0
	if len(codes) == t.Dim {
		sum = dotDense(p.numbers, codes)
	} else {
		for ; len(codes) >= sparseCode; codes = codes[sparseCode:] {
			sum += p.numbers[binary.LittleEndian.Uint16(codes)] * int(int8(codes[2]))
		}
	}
	return float32(float64(sum) * float64(t.Scales[i]) * p.scale)
}

// dotDense returns the product of a row with a number for every dimension. It adds up four sums, which the processor
// computes side by side.
func dotDense(numbers []int, codes []byte) int {
	codes = codes[:len(numbers)]
	var s0, s1, s2, s3 int
	i := 0
	for ; i+4 <= len(numbers); i += 4 {
		s0 += numbers[i] * int(int8(codes[i]))
		s1 += numbers[i+1] * int(int8(codes[i+1]))
		s2 += numbers[i+2] * int(int8(codes[i+2]))
		s3 += numbers[i+3] * int(int8(codes[i+3]))
	}
	for ; i < len(numbers); i++ {
		s0 += numbers[i] * int(int8(codes[i]))
	}
	return s0 + s1 + s2 + s3
}
