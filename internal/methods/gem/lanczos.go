package gem

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// normal is L = D^-1/2 W D^-1/2 as an operator.
type normal struct {
	graph    Graph
	scale    []float64
	scaled   []float64 // of one product
	products int
}

func (l *normal) applyMatrix(out, x []float64) {
	l.products++
	for i, s := range l.scale {
		l.scaled[i] = s * x[i]
	}
	l.graph.Multiply(out, l.scaled)
	for i, s := range l.scale {
		out[i] *= s
	}
}

// certifyPair returns the pair of x, which is of unit length: its Rayleigh quotient, and |L x - lambda x|.
func (l *normal) certifyPair(x []float64) pair {
	product := make([]float64, len(x))
	l.applyMatrix(product, x)
	lambda := innerProduct(product, x)
	add(product, -lambda, x)
	return pair{lambda: lambda, vector: x, residual: vectorLength(product)}
}

type pair struct {
	lambda   float64
	vector   []float64
	residual float64
}

// same is how far two eigenvalues may be apart and count as one.
const same = 1e-9

// lanczos finds the largest eigenpairs of L in the complement of what is locked, by thick restarts: a basis of a fixed
// number of vectors is filled, each new one orthogonal to all before it, the best directions of it are kept, and it is
// filled again from the vector that was left.
type lanczos struct {
	l         *normal
	tolerance float64
	most      int // products
	random    *rand.Rand
	locked    [][]float64
}

// findPairs gives at most want pairs, in order, whose residuals are estimated to be below the tolerance. Where enough
// is set it stops without a pair as soon as it is plain that none comes before enough.
func (s *lanczos) findPairs(ctx context.Context, want int, enough *float64) ([]pair, error) {
	n := len(s.l.scale)
	room := min(n-len(s.locked), 3*want+20)
	want = min(want, room)
	if want <= 0 {
		return nil, nil
	}
	basis := [][]float64{s.drawDirection(nil)}
	if basis[0] == nil {
		return nil, nil
	}
	projected := mat.NewSymDense(room, nil)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		left, beta := s.extendBasis(&basis, projected, room)
		size := len(basis)
		values, vectors, solved := solveEigen(projected.SliceSym(0, size))
		if !solved { // what was asked for counts as missing
			return nil, nil
		}
		residual := func(i int) float64 { return beta * math.Abs(vectors.At(size-1, i)) }
		if enough != nil && values[0] < *enough && residual(0) < math.Abs(*enough-values[0]) {
			return nil, nil
		}
		converged := 0
		for converged < min(want, size) && residual(converged) < s.tolerance {
			converged++
		}
		if converged == min(want, size) || left == nil || s.l.products >= s.most {
			rotateBasis(basis, vectors, converged)
			pairs := make([]pair, converged)
			for i := range pairs {
				pairs[i] = pair{lambda: values[i], vector: basis[i]}
			}
			return pairs, nil
		}
		keep := min(size-1, want+(size-want)/2)
		rotateBasis(basis, vectors, keep)
		basis = append(basis[:keep], left)
		projected.Zero()
		for i := range keep {
			projected.SetSym(i, i, values[i])
		}
	}
}

// extendBasis extends the basis to size vectors. What is left of the last product, at length 1, is the next direction,
// and beta was its length; there is none where the basis spans all there is.
func (s *lanczos) extendBasis(basis *[][]float64, projected *mat.SymDense, size int) (left []float64, beta float64) {
	for {
		last := len(*basis) - 1
		next := make([]float64, len(s.l.scale))
		s.l.applyMatrix(next, (*basis)[last])
		for i, h := range s.projectOut(next, *basis, 2) {
			projected.SetSym(i, last, h)
		}
		beta = vectorLength(next)
		if beta > 1e-11 {
			divideVector(next, beta)
		} else { // the basis is closed under L: what is outside is another part of the spectrum
			beta = 0
			next = s.drawDirection(*basis)
		}
		if next == nil || len(*basis) == size {
			return next, beta
		}
		*basis = append(*basis, next)
	}
}

// projectOut makes a vector orthogonal to what is locked and to the basis, in some rounds against rounding, and returns
// what it had of each vector of the basis.
func (s *lanczos) projectOut(x []float64, basis [][]float64, rounds int) []float64 {
	had := make([]float64, len(basis))
	for range rounds {
		for _, y := range s.locked {
			add(x, -innerProduct(x, y), y)
		}
		for i, y := range basis {
			h := innerProduct(x, y)
			add(x, -h, y)
			had[i] += h
		}
	}
	return had
}

// drawDirection returns a random direction that is orthogonal to what is locked and to the basis, nil where there is
// none.
func (s *lanczos) drawDirection(basis [][]float64) []float64 {
	if len(s.locked)+len(basis) >= len(s.l.scale) {
		return nil
	}
	x := make([]float64, len(s.l.scale))
	for i := range x {
		x[i] = s.random.NormFloat64()
	}
	divideVector(x, vectorLength(x))
	for range 3 {
		s.projectOut(x, basis, 1)
		rest := vectorLength(x)
		if rest < 1e-13 {
			return nil
		}
		divideVector(x, rest)
	}
	return x
}

// factorize solves a small symmetric matrix. It says false where QL takes over 30 rounds for one value.
var factorize = func(solver *mat.EigenSym, m mat.Symmetric) bool { return solver.Factorize(m, true) }

// solveEigen solves a small symmetric matrix; values and columns are in order, the largest value first. It says false
// where the solver did not converge.
func solveEigen(m mat.Symmetric) ([]float64, *mat.Dense, bool) {
	var solver mat.EigenSym
	n := m.SymmetricDim()
	if !factorize(&solver, m) {
		return nil, nil, false
	}
	raw := solver.Values(nil)
	var vectors mat.Dense
	solver.VectorsTo(&vectors)
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(raw[b], raw[a]) })
	values, columns := make([]float64, n), mat.NewDense(n, n, nil)
	for to, from := range at {
		values[to] = raw[from]
		columns.SetCol(to, mat.Col(nil, from, &vectors))
	}
	return values, columns, true
}

// rotateBasis replaces the first vectors of the basis by its combinations, in place.
func rotateBasis(basis [][]float64, columns *mat.Dense, keep int) {
	inBlocks(len(basis[0]), blockRows, func(_, from, to int) {
		out := make([]float64, keep)
		for row := from; row < to; row++ {
			clear(out)
			for i, x := range basis {
				at := x[row]
				for k, c := range columns.RawRowView(i)[:keep] {
					out[k] += float64(at * c)
				}
			}
			for k, x := range out {
				basis[k][row] = x
			}
		}
	})
}

func innerProduct(x, y []float64) float64 {
	y = y[:len(x)]
	var a, b float64
	i := 0
	for ; i+2 <= len(x); i += 2 {
		a += float64(x[i] * y[i])
		b += float64(x[i+1] * y[i+1])
	}
	if i < len(x) {
		a += float64(x[i] * y[i])
	}
	return a + b
}

func vectorLength(x []float64) float64 { return math.Sqrt(innerProduct(x, x)) }

func add(x []float64, times float64, y []float64) {
	y = y[:len(x)]
	for i := range x {
		x[i] += float64(times * y[i])
	}
}

func divideVector(x []float64, by float64) {
	for i := range x {
		x[i] /= by
	}
}
