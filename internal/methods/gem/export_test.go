package gem

import "gonum.org/v1/gonum/mat"

// Unsolved has the solver of small matrices not converge until it is called.
func Unsolved() (again func()) {
	was := factorize
	factorize = func(*mat.EigenSym, mat.Symmetric) bool { return false }
	return func() { factorize = was }
}

// Fixed is a graph of given weights and degrees, whatever its rows sum to.
type Fixed struct {
	Matrix
	degrees []float64
}

// NewFixed makes it of weights row by row.
func NewFixed(n int, w, degrees []float64) *Fixed { return &Fixed{Matrix{n: n, w: w}, degrees} }

// Degrees returns the degrees that were given.
func (f *Fixed) Degrees() []float64 { return f.degrees }

// Weights returns the weights of a matrix, row by row.
func (m *Matrix) Weights() []float64 { return m.w }
