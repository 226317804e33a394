package gem

import (
	"math"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// Graph is a symmetric matrix W of weights between nodes that can be multiplied with.
type Graph interface {
	// Len returns the number of nodes.
	Len() int
	// Degrees are the row sums of W.
	Degrees() []float64
	// Multiply writes W x to out. It may be called by several at once.
	Multiply(out, x []float64)
	// sumSquares is the squared Frobenius norm of diag(scale) W diag(scale).
	sumSquares(scale []float64) float64
}

// Neighbourhood gives the neighbours of a node, by rising number, and the weights of the edges to them.
type Neighbourhood interface {
	Neighbours(node int) (to []int32, weights []float64)
}

// Matrix is a graph with every weight stored: for few nodes, and to compare others with.
type Matrix struct {
	n int
	w []float64 // row by row
}

// NewMatrix makes the graph of similarities s, row by row, between n nodes: a weight is the mean of both directions, in
// which negative ones are 0. The diagonal of s counts for nothing.
func NewMatrix(n int, s []float64) (*Matrix, error) {
	if n < 0 || len(s) != n*n {
		return nil, fault.InvalidParam.At("make a similarity graph", strconv.Itoa(len(s))+" similarities").
			Advise("give " + strconv.Itoa(n) + " rows of as many")
	}
	for i, x := range s {
		if x-x != 0 {
			return nil, fault.InvalidParam.At("make a similarity graph",
				"the similarity of nodes "+strconv.Itoa(i/n)+" and "+strconv.Itoa(i%n)).
				Because("it is no finite number")
		}
	}
	m := &Matrix{n: n, w: make([]float64, n*n)}
	for i := range n {
		for j := range i {
			w := (max(s[i*n+j], 0) + max(s[j*n+i], 0)) / 2
			m.w[i*n+j], m.w[j*n+i] = w, w
		}
	}
	return m, nil
}

// Matrix makes the graph of nodes with every weight stored: 8 n^2 bytes.
func (n Nodes) Matrix() (*Matrix, error) {
	if err := n.checkNodes(); err != nil {
		return nil, err
	}
	return NewMatrix(n.Len(), n.computeSimilarities())
}

func (n Nodes) computeSimilarities() []float64 {
	count := n.Len()
	s := make([]float64, count*count)
	base := make([]float64, n.Base.Dim)
	for j := range count {
		for k, x := range n.Base.Row(j) {
			base[k] = float64(x)
		}
		for i := range count {
			s[i*count+j] = dot(n.Mean.Row(i), base)
		}
	}
	return s
}

// Len returns the number of nodes.
func (m *Matrix) Len() int { return m.n }

// Degrees returns the row sums.
func (m *Matrix) Degrees() []float64 {
	out := make([]float64, m.n)
	for i := range m.n {
		for _, w := range m.w[i*m.n : (i+1)*m.n] {
			out[i] += w
		}
	}
	return out
}

// Multiply writes W x to out.
func (m *Matrix) Multiply(out, x []float64) {
	for i := range m.n {
		sum := 0.0
		for j, w := range m.w[i*m.n : (i+1)*m.n] {
			sum += float64(w * x[j])
		}
		out[i] = sum
	}
}

func (m *Matrix) sumSquares(scale []float64) float64 {
	sum := 0.0
	for i := range m.n {
		for j, w := range m.w[i*m.n : (i+1)*m.n] {
			l := scale[i] * w * scale[j]
			sum += float64(l * l)
		}
	}
	return sum
}

// NearestGraph returns the graph of the nearest of each node, as NewNearest makes it: an edge joins two nodes where one
// of both has the other among its nearest. A node that is near to none has no edge.
func (m *Matrix) NearestGraph(neighbours int) (*Sparse, error) {
	f := &finder{most: neighbours, blank: make([]bool, m.n), best: make([][]near, m.n), closest: make([]near, m.n)}
	for i := range m.n {
		f.closest[i].to = -1
	}
	for i := range m.n {
		for j, w := range m.w[i*m.n : (i+1)*m.n] {
			if w > 0 {
				f.offerNeighbour(i, near{int32(j), w})
			}
		}
	}
	return f.buildGraph()
}

// leastDegree is the degree below which a node counts as without neighbours: its row and column of L are 0.
const leastDegree = 1e-9

// computeScale returns the entries of D^-1/2; those of nodes without neighbours are 0.
func computeScale(degrees []float64) []float64 {
	scale := make([]float64, len(degrees))
	for i, d := range degrees {
		if d > leastDegree {
			scale[i] = 1 / math.Sqrt(d)
		}
	}
	return scale
}

// Distinctness returns the sum of the squares of all eigenvalues of L, without computing any of them: the larger, the
// more distinct the themes.
func Distinctness(g Graph) float64 {
	return g.sumSquares(computeScale(g.Degrees()))
}
