package align

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"
)

// Statuses of constrained least squares.
const (
	Exact   = "exact"    // the constraints hold and determine the point
	MinNorm = "min_norm" // the constraints hold; of the minimisers the shortest
	Ridge   = "ridge"    // the constraints contradict each other: a compromise
)

// Problem is: minimise |V x - q|^2 / 2 subject to C x = f. V is given by its Gram matrix V^T V and V^T q, so that
// vectors of any dimension cost nothing here.
type Problem struct {
	Gram *mat.SymDense // S x S
	VTq  []float64     // S
	Rows []Row         // of C and f

	// Admit is asked before so many unknowns are solved by their singular values; nil admits.
	Admit func(unknowns int) error
}

// Row is a constraint: what the weighted classes sum to.
type Row struct {
	Classes []uint32  // rising
	Weights []float64 // of each, not 0; nil: all 1
	F       float64
}

func (r Row) weightOf(i int) float64 {
	if r.Weights == nil {
		return 1
	}
	return r.Weights[i]
}

// Least is the solution. X may be negative.
type Least struct {
	X      []float64
	Nu     []float64 // multipliers of the merged rows
	Status string
}

// rank tolerance of singular values, relative to the largest.
const rank = 1e-10

// Bounds of CLS. Its time grows with the third power of unknowns, and with rows times the square of classes. Of
// MostUnknowns the singular values take half a second, in which it does not look at its context.
const (
	MostUnknowns = 600
	MostRows     = 10_000
)

// TooLarge is the error of a problem beyond the bounds.
type TooLarge struct {
	What       string // that is too many
	Have, Most int
}

// Error implements error.
func (e TooLarge) Error() string {
	return strconv.Itoa(e.Have) + " " + e.What + ", and at most " + strconv.Itoa(e.Most) + " are solved"
}

// mergeRows joins equal rows (their f averaged) and drops empty ones. It reports whether the rows it joins or drops
// agree.
func (p Problem) mergeRows() (rows []Row, agree bool) {
	at, of, count := map[string]int{}, make([]int, len(p.Rows)), []float64{}
	var key []byte
	for i, one := range p.Rows {
		if of[i] = -1; len(one.Classes) == 0 {
			continue
		}
		key = key[:0]
		for k, class := range one.Classes {
			key = binary.LittleEndian.AppendUint32(key, class)
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(one.weightOf(k)))
		}
		j, known := at[string(key)]
		if !known {
			j = len(rows)
			at[string(key)] = j
			rows, count = append(rows, one), append(count, 0)
		}
		of[i] = j
		count[j]++
		rows[j].F += (one.F - rows[j].F) / count[j]
	}
	agree = true
	tolerance := p.scaleTolerance()
	for i, j := range of {
		joined := 0.0
		if j >= 0 {
			joined = rows[j].F
		}
		agree = agree && math.Abs(p.Rows[i].F-joined) <= tolerance
	}
	return rows, agree
}

// scaleTolerance returns the tolerance of a constraint.
func (p Problem) scaleTolerance() float64 {
	scale := 1.0
	for _, one := range p.Rows {
		scale = max(scale, math.Abs(one.F))
	}
	return 1e-7 * scale
}

// isConsistent reports whether rows have a common solution, by elimination: the shortest rows first, each by its
// largest entry. A row that nothing is left of must have nothing left on its right side, either.
func isConsistent(ctx context.Context, rows []Row, unknowns int, tolerance float64) (bool, error) {
	type pivot struct {
		at      uint32
		classes []uint32
		values  []float64
		f       float64
	}
	var pivots []pivot
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b Row) int { return len(a.Classes) - len(b.Classes) })
	left := make([]float64, unknowns)
	for _, one := range sorted {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		clear(left)
		for i, class := range one.Classes {
			left[class] = one.weightOf(i)
		}
		f := one.F
		for _, p := range pivots {
			if by := left[p.at]; by != 0 {
				for i, class := range p.classes {
					left[class] -= by * p.values[i]
				}
				left[p.at] = 0
				f -= by * p.f
			}
		}
		best := 0
		for class, value := range left {
			if math.Abs(value) > math.Abs(left[best]) {
				best = class
			}
		}
		if math.Abs(left[best]) <= 1e-9 {
			if math.Abs(f) > tolerance {
				return false, nil
			}
			continue
		}
		next := pivot{at: uint32(best), f: f / left[best]}
		for class, value := range left {
			if math.Abs(value) > 1e-12 {
				next.classes, next.values = append(next.classes, uint32(class)), append(next.values, value/left[best])
			}
		}
		pivots = append(pivots, next)
	}
	return true, nil
}

// solvePseudo solves a x = b in the sense of least squares and least norm, by the singular values of a square matrix of
// n rows. No values: they do not converge.
func solvePseudo(ctx context.Context, a []float64, n int, b []float64) (x, values []float64, err error) {
	var svd mat.SVD
	x = make([]float64, n)
	if n == 0 || !svd.Factorize(mat.NewDense(n, n, a), mat.SVDThin) {
		return x, nil, ctx.Err()
	}
	var left, right mat.Dense
	svd.UTo(&left)
	svd.VTo(&right)
	values = svd.Values(nil)
	for j, s := range values {
		if s <= rank*values[0] || s == 0 {
			break
		}
		dot := 0.0
		for i, y := range b {
			dot += left.At(i, j) * y
		}
		for i := range x {
			x[i] += right.At(i, j) * dot / s
		}
	}
	return x, values, ctx.Err()
}

// CLS solves a problem. mu and eps are the ridge's weights; 0: by the trace of the problem. Errors: TooLarge, and the
// context's.
func CLS(ctx context.Context, problem Problem, mu, eps float64) (Least, error) {
	s := problem.Gram.SymmetricDim()
	rows, hold := problem.mergeRows()
	if s > MostUnknowns {
		return Least{}, TooLarge{"classes", s, MostUnknowns}
	}
	if len(rows) > MostRows {
		return Least{}, TooLarge{"chunks of different classes", len(rows), MostRows}
	}
	if hold {
		var err error
		if hold, err = isConsistent(ctx, rows, s, problem.scaleTolerance()); err != nil {
			return Least{}, err
		}
	}
	if !hold {
		return problem.solveRidge(ctx, rows, mu, eps)
	}
	n := s + len(rows)
	if n > MostUnknowns {
		return Least{}, TooLarge{"classes and chunks of different classes", n, MostUnknowns}
	}
	if problem.Admit != nil {
		if err := problem.Admit(n); err != nil {
			return Least{}, err
		}
	}
	kkt, b := make([]float64, n*n), slices.Clone(problem.VTq)
	for i := range s {
		for j := range s {
			kkt[i*n+j] = problem.Gram.At(i, j)
		}
	}
	for j, one := range rows {
		for k, i := range one.Classes {
			kkt[int(i)*n+s+j], kkt[(s+j)*n+int(i)] = one.weightOf(k), one.weightOf(k)
		}
		b = append(b, one.F)
	}
	x, values, err := solvePseudo(ctx, kkt, n, b)
	if err != nil {
		return Least{}, err
	}
	out := Least{X: x[:s], Nu: x[s:], Status: MinNorm}
	if len(values) > 0 && values[len(values)-1] > rank*values[0] {
		out.Status = Exact
	}
	return out, nil
}

// solveRidge minimises |V x - q|^2 / 2 + mu |C x - f|^2 / 2 + eps |x|^2 / 2.
func (p Problem) solveRidge(ctx context.Context, rows []Row, mu, eps float64) (Least, error) {
	s := p.Gram.SymmetricDim()
	trace := 0.0
	for i := range s {
		trace += p.Gram.At(i, i)
	}
	if mu == 0 {
		mu, eps = 1e3*max(1, trace/float64(s)), 1e-6*trace/float64(s)
	}
	a, b := make([]float64, s*s), slices.Clone(p.VTq)
	for i := range s {
		for j := range s {
			a[i*s+j] = p.Gram.At(i, j)
		}
	}
	for _, one := range rows {
		if err := ctx.Err(); err != nil {
			return Least{}, err
		}
		for k, i := range one.Classes {
			for l, j := range one.Classes[:k+1] {
				a[int(i)*s+int(j)] += mu * one.weightOf(l) * one.weightOf(k)
			}
			b[i] += mu * one.weightOf(k) * one.F
		}
	}
	for i := range s {
		a[i*s+i] += eps
		for j := range i {
			a[j*s+i] = a[i*s+j]
		}
	}
	x, _, err := solvePseudo(ctx, a, s, b)
	return Least{X: x, Status: Ridge}, err
}
