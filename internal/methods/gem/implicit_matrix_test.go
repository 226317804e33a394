package gem

import (
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// Sign is what is done about negative similarities.
type Sign int

// What can be done: Clip makes them 0, Shift takes (1 + s) / 2 of all of them, Keep leaves them, which needs degrees
// that are not negative.
const (
	Clip Sign = iota
	Shift
	Keep
)

// MatrixBy does what Matrix does, with what sign says of negative similarities.
func (n Nodes) MatrixBy(sign Sign) (*Matrix, error) {
	if err := n.checkNodes(); err != nil {
		return nil, err
	}
	s, count := n.computeSimilarities(), n.Len()
	m := &Matrix{n: count, w: make([]float64, count*count)}
	for i := range count {
		for j := range i {
			w := (signed(s[i*count+j], sign) + signed(s[j*count+i], sign)) / 2
			m.w[i*count+j], m.w[j*count+i] = w, w
		}
	}
	return m, notNegative(m.Degrees(), sign)
}

func signed(s float64, sign Sign) float64 {
	switch sign {
	case Clip:
		return max(s, 0)
	case Shift:
		return (1 + s) / 2
	default:
		return s
	}
}

// notNegative refuses degrees below 0, which have no root.
func notNegative(degrees []float64, sign Sign) error {
	if sign != Keep {
		return nil
	}
	for i, d := range degrees {
		if d < -leastDegree {
			return fault.InvalidParam.At("make a similarity graph", "node "+strconv.Itoa(i)+" of degree "+
				strconv.FormatFloat(d, 'g', 4, 64)).
				Advise("shift similarities, or clip them: a node is more unlike the others than like them")
		}
	}
	return nil
}

// Implicit has the solver tested on what no matrix holds. It is the complete graph of nodes without its weights:
// W x = (U (B^T x) + B (U^T x)) / 2 - delta x, and with Shift half of that and half of the sum of the others' x. It is
// exactly MatrixBy, in memory for the vectors alone.
type Implicit struct {
	nodes   Nodes
	shift   bool
	delta   []float64 // u_i . b_i
	degrees []float64
}

// NewImplicit makes the graph. Clip is refused: it would need every weight.
func (n Nodes) NewImplicit(sign Sign) (*Implicit, error) {
	if err := n.checkNodes(); err != nil {
		return nil, err
	}
	if sign == Clip {
		return nil, fault.InvalidParam.At("make a similarity graph", "clipped weights that are not stored").
			Advise("shift similarities, keep them as they are, or take the graph of nearest nodes")
	}
	g := &Implicit{nodes: n, shift: sign == Shift, delta: make([]float64, n.Len())}
	inBlocks(n.Len(), blockRows, func(_, from, to int) {
		base := make([]float64, n.Base.Dim)
		for i := from; i < to; i++ {
			for k, x := range n.Base.Row(i) {
				base[k] = float64(x)
			}
			g.delta[i] = dot(n.Mean.Row(i), base)
		}
	})
	ones := make([]float64, n.Len())
	for i := range ones {
		ones[i] = 1
	}
	g.degrees = make([]float64, n.Len())
	g.Multiply(g.degrees, ones)
	return g, notNegative(g.degrees, sign)
}

// Len returns the number of nodes.
func (g *Implicit) Len() int { return g.nodes.Len() }

// Degrees returns the row sums of W.
func (g *Implicit) Degrees() []float64 { return g.degrees }

// Multiply writes W x to out, in two passes over the vectors.
func (g *Implicit) Multiply(out, x []float64) {
	n, dim := g.Len(), g.nodes.Base.Dim
	partial := make([]float64, (n+blockRows-1)/blockRows*(2*dim+1)) // of every block: B^T x, U^T x, the sum of x
	inBlocks(n, blockRows, func(block, from, to int) {
		sums := partial[block*(2*dim+1) : (block+1)*(2*dim+1)]
		base, mean := sums[:dim], sums[dim:2*dim]
		for i := from; i < to; i++ {
			at := x[i]
			sums[2*dim] += at
			if at == 0 {
				continue
			}
			b, u := g.nodes.Base.Row(i), g.nodes.Mean.Row(i)
			u = u[:len(b)]
			for k := range b {
				base[k] += float64(at * float64(b[k]))
				mean[k] += float64(at * float64(u[k]))
			}
		}
	})
	total := make([]float64, 2*dim+1)
	for at, p := range partial {
		total[at%(2*dim+1)] += p
	}
	base, mean, all := total[:dim], total[dim:2*dim], total[2*dim]
	inBlocks(n, blockRows, func(_, from, to int) {
		for i := from; i < to; i++ {
			s := (dot(g.nodes.Mean.Row(i), base)+dot(g.nodes.Base.Row(i), mean))/2 - float64(g.delta[i]*x[i])
			if g.shift {
				s = (s + all - x[i]) / 2
			}
			out[i] = s
		}
	})
}

// sumSquares goes by the products of columns: with A = diag(scale) U and C = diag(scale) B it is
// (trace(A^T A C^T C) + trace((C^T A)^2)) / 2 less the squares of the diagonal. A shift is one column more.
func (g *Implicit) sumSquares(scale []float64) float64 {
	n, dim := g.Len(), g.nodes.Base.Dim
	wide := dim
	if g.shift {
		wide++
	}
	aa, cc, ca := make([]float64, wide*wide), make([]float64, wide*wide), make([]float64, wide*wide)
	a, c := make([]float64, wide), make([]float64, wide)
	diagonal := 0.0
	for i := range n {
		mean, base := g.nodes.Mean.Row(i), g.nodes.Base.Row(i)
		d := g.delta[i]
		for k := range dim {
			a[k], c[k] = scale[i]*float64(mean[k]), scale[i]*float64(base[k])
		}
		if g.shift { // (1 + u . b) / 2
			for k := range dim {
				a[k] /= 2
			}
			a[dim], c[dim] = scale[i]/2, scale[i]
			d = (1 + d) / 2
		}
		d *= scale[i] * scale[i]
		diagonal += float64(d * d)
		for k := range wide {
			x, y := a[k], c[k]
			rowA, rowC, rowX := aa[k*wide:(k+1)*wide], cc[k*wide:(k+1)*wide], ca[k*wide:(k+1)*wide]
			for l := range wide {
				rowA[l] += float64(x * a[l])
				rowC[l] += float64(y * c[l])
				rowX[l] += float64(y * a[l])
			}
		}
	}
	sum := 0.0
	for k := range wide {
		for l := range wide {
			sum += float64(aa[k*wide+l]*cc[k*wide+l]) + float64(ca[k*wide+l]*ca[l*wide+k])
		}
	}
	return sum/2 - diagonal
}
