package gem

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Options of Compute. The zero value of a field is what is said of it.
type Options struct {
	Pairs     int     // how many eigenpairs, the largest first; 0: 3
	Tolerance float64 // of residuals; 0: 1e-6
	Products  int     // the most products with W of one part; 0: 1000
	// Direct is up to how many nodes a part is solved directly, in a time that grows with their third power; 0: 256.
	// Below 0 never.
	Direct int
}

// leastPart is the number of nodes that a part of a graph that falls apart must have to get separate eigenpairs beside
// the largest part: more than twice the members of a theme.
const leastPart = 11

// Pair is an eigenpair of L.
type Pair struct {
	Lambda   float64
	Residual float64   // |L x - lambda x|, computed: an eigenvalue of L is at most so far from Lambda
	Part     int       // of the graph: 0 is the largest
	Overview bool      // the eigenvalue 1 of its part: in proportion to the roots of degrees
	Vector   []float64 // of unit length; its component of largest absolute value, the first of equal ones, is positive
}

// Spectrum is what is known of L.
type Spectrum struct {
	Pairs   []Pair // in order
	Missing int    // pairs that were asked for, exist, and did not converge within the products allowed
	Degrees []float64
}

// Values returns the eigenvalues, in order.
func (s Spectrum) Values() []float64 {
	out := make([]float64, len(s.Pairs))
	for i, p := range s.Pairs {
		out[i] = p.Lambda
	}
	return out
}

// part is a connected part of a graph; nodes is nil where it is the whole graph.
type part struct {
	graph Graph
	nodes []int32
}

// divided is a graph that knows which parts it falls into: the largest first, of equal ones that of the lowest node.
type divided interface{ findParts() []part }

// Compute finds the first eigenpairs of L. Where the graph falls into parts, each part's are found on their own: its
// first eigenvalue is 1 in every part, and only so its vectors are not any mixture of theirs. So a graph of many parts
// gives the overviews of the largest first. Fewer nodes than pairs give fewer pairs; what does not converge is left out
// and counted. The only errors are those of ctx.
func Compute(ctx context.Context, g Graph, o Options) (Spectrum, error) {
	o.Pairs, o.Tolerance = cmp.Or(o.Pairs, 3), cmp.Or(o.Tolerance, 1e-6)
	o.Products, o.Direct = cmp.Or(o.Products, 1000), cmp.Or(o.Direct, 256)
	out := Spectrum{Degrees: g.Degrees()}
	all := []part{{graph: g}}
	if d, ok := g.(divided); ok {
		all = d.findParts()
	}
	large := 0
	for i, p := range all {
		if i == 0 || p.graph.Len() >= leastPart {
			large++
		}
	}
	wanted := o.Pairs // of all parts
	large = min(large, wanted)
	o.Pairs -= max(0, large-1) // of one: of each other part the eigenvalue 1 is among those wanted
	for i, p := range all[:large] {
		pairs, err := findFirstPairs(ctx, p.graph, o)
		if err != nil {
			return Spectrum{}, err
		}
		out.Missing += min(o.Pairs, p.graph.Len()) - len(pairs)
		for at, x := range pairs {
			out.Pairs = append(out.Pairs, Pair{
				Lambda: x.lambda, Residual: x.residual, Part: i, Vector: spreadVector(x.vector, p.nodes, g.Len()),
				Overview: at == 0 && math.Abs(x.lambda-1) < o.Tolerance,
			})
		}
		sortPairs(out.Pairs)
		out.Pairs = out.Pairs[:min(len(out.Pairs), wanted)]
	}
	for _, p := range out.Pairs {
		orientVector(p.Vector)
	}
	return out, nil
}

// sortPairs brings pairs into order. Values that differ by their last bits alone count as equal, and keep the order of
// parts.
func sortPairs(pairs []Pair) {
	slices.SortStableFunc(pairs, func(a, b Pair) int {
		if a.Part != b.Part && math.Abs(a.Lambda-b.Lambda) <= same {
			return a.Part - b.Part
		}
		return cmp.Compare(b.Lambda, a.Lambda)
	})
}

// spreadVector returns a vector of a part as one of the graph.
func spreadVector(x []float64, nodes []int32, n int) []float64 {
	if nodes == nil {
		return x
	}
	out := make([]float64, n)
	for i, node := range nodes {
		out[node] = x[i]
	}
	return out
}

// orientVector makes the component of largest absolute value positive; of those that are equal to 1e-9 the first.
func orientVector(x []float64) {
	most := 0.0
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	at := slices.IndexFunc(x, func(v float64) bool { return math.Abs(v) >= most-same })
	if at >= 0 && x[at] < 0 {
		for i := range x {
			x[i] = -x[i]
		}
	}
}

// findFirstPairs finds the first pairs of a connected graph.
func findFirstPairs(ctx context.Context, g Graph, o Options) ([]pair, error) {
	n := g.Len()
	scale := computeScale(g.Degrees())
	l := &normal{graph: g, scale: scale, scaled: make([]float64, n)}
	if n <= o.Direct {
		if pairs := solveDirect(l, o); len(pairs) > 0 || ctx.Err() != nil {
			return pairs, ctx.Err()
		}
	}
	s := &lanczos{
		l: l, tolerance: o.Tolerance / 2, most: o.Products, random: rand.New(rand.NewPCG(17, uint64(n))),
	}
	var pairs []pair
	if x, ok := newOverviewPair(l); ok { // known exactly
		pairs, s.locked = append(pairs, x), append(s.locked, x.vector)
	}
	found, err := s.findPairs(ctx, o.Pairs-len(pairs), nil)
	if err != nil {
		return nil, err
	}
	// A basis that grew from one vector has one vector of each eigenvalue. What else is there of the same, or was
	// missed, is in the complement of what was found.
	for {
		for _, x := range found {
			pairs, s.locked = append(pairs, x), append(s.locked, x.vector)
		}
		slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.lambda, a.lambda) })
		if len(found) == 0 || len(pairs) >= n {
			break
		}
		var last *float64
		if len(pairs) >= o.Pairs {
			last = &pairs[o.Pairs-1].lambda
		}
		if found, err = s.findPairs(ctx, 1, last); err != nil {
			return nil, err
		}
		if last != nil && len(found) > 0 && found[0].lambda <= *last+o.Tolerance {
			break
		}
	}
	pairs = pairs[:min(len(pairs), o.Pairs)]
	out := pairs[:0]
	for _, x := range pairs {
		if x = l.certifyPair(x.vector); x.residual < o.Tolerance {
			out = append(out, x)
		}
	}
	return out, nil
}

// newOverviewPair returns the eigenvector of the eigenvalue 1, which is known without any search: sqrt(d). Where
// negative weights left some degrees out it need not be one, and the result is false.
func newOverviewPair(l *normal) (pair, bool) {
	x := make([]float64, len(l.scale))
	for i, s := range l.scale {
		if s > 0 {
			x[i] = 1 / s
		}
	}
	size := vectorLength(x)
	if size == 0 {
		return pair{}, false
	}
	divideVector(x, size)
	p := l.certifyPair(x)
	return p, p.residual < same && math.Abs(p.lambda-1) < same
}

// solveDirect solves the whole of a small L; nil where the solver does not converge.
func solveDirect(l *normal, o Options) []pair {
	n := len(l.scale)
	if n == 0 {
		return nil
	}
	m := mat.NewSymDense(n, nil)
	unit, column := make([]float64, n), make([]float64, n)
	for j := range n {
		unit[j] = 1
		l.applyMatrix(column, unit)
		unit[j] = 0
		for i := range j + 1 {
			m.SetSym(i, j, column[i])
		}
	}
	_, vectors, solved := solveEigen(m)
	if !solved {
		return nil
	}
	var out []pair
	for k := range min(n, o.Pairs) {
		x := make([]float64, n)
		mat.Col(x, k, vectors)
		divideVector(x, vectorLength(x))
		if p := l.certifyPair(x); p.residual < o.Tolerance {
			out = append(out, p)
		}
	}
	return out
}
