package align

import (
	"errors"
	"math"

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
	C    *mat.Dense    // K x S; nil = no constraint
	F    []float64     // K
}

// Least is the solution. X may be negative.
type Least struct {
	X      []float64
	Nu     []float64 // multipliers of the merged rows
	Status string
}

// rank tolerance of singular values, relative to the largest.
const rank = 1e-10

// merged joins equal rows (their f averaged) and drops empty ones.
func (p Problem) merged() (*mat.Dense, []float64) {
	if p.C == nil {
		return nil, nil
	}
	k, s := p.C.Dims()
	var rows [][]float64
	var f, n []float64
	for i := range k {
		r := mat.Row(nil, i, p.C)
		empty := true
		for _, x := range r {
			empty = empty && x == 0
		}
		if empty {
			continue
		}
		at := -1
		for j, o := range rows {
			eq := true
			for c := range s {
				eq = eq && o[c] == r[c]
			}
			if eq {
				at = j
				break
			}
		}
		if at < 0 {
			rows, f, n = append(rows, r), append(f, p.F[i]), append(n, 1)
			continue
		}
		f[at] += (p.F[i] - f[at]) / (n[at] + 1)
		n[at]++
	}
	if len(rows) == 0 {
		return nil, nil
	}
	dense := mat.NewDense(len(rows), s, nil)
	for i, r := range rows {
		dense.SetRow(i, r)
	}
	return dense, f
}

// consistent tells whether C x = f has a solution: equal rows that want different values have none.
func (p Problem) consistent(dense *mat.Dense, f []float64) bool {
	if p.C == nil {
		return true
	}
	if k, _ := p.C.Dims(); dense == nil {
		for i := range k {
			if p.F[i] != 0 {
				return false
			}
		}
		return true
	}
	x := pseudo(p.C, p.F)
	var cx mat.VecDense
	cx.MulVec(p.C, mat.NewVecDense(len(x), x))
	worst, scale := 0.0, 1.0
	for i, v := range p.F {
		worst, scale = max(worst, math.Abs(cx.AtVec(i)-v)), max(scale, math.Abs(v))
	}
	return worst <= 1e-7*scale
}

// pseudo solves a x = b in the sense of least squares and least norm.
func pseudo(matrix mat.Matrix, b []float64) []float64 {
	_, n := matrix.Dims()
	var svd mat.SVD
	out := make([]float64, n)
	if !svd.Factorize(matrix, mat.SVDThin) {
		return out
	}
	sv := svd.Values(nil)
	var dense, v mat.Dense
	svd.UTo(&dense)
	svd.VTo(&v)
	for j, s := range sv {
		if s <= rank*sv[0] || s == 0 {
			break
		}
		dot := 0.0
		for i, x := range b {
			dot += dense.At(i, j) * x
		}
		for i := range out {
			out[i] += v.At(i, j) * dot / s
		}
	}
	return out
}

// CLS solves a problem. mu and eps are the ridge's weights; 0 = the paper's.
func CLS(problem Problem, mu, eps float64) (Least, error) {
	s := problem.Gram.SymmetricDim()
	if len(problem.VTq) != s {
		return Least{}, errors.New("align: V^T V and V^T q differ in size")
	}
	dense, f := problem.merged()
	if !problem.consistent(dense, f) {
		return problem.ridge(dense, f, mu, eps)
	}
	k := len(f)
	kkt := mat.NewDense(s+k, s+k, nil)
	for i := range s {
		for j := range s {
			kkt.Set(i, j, problem.Gram.At(i, j))
		}
		for j := range k {
			kkt.Set(i, s+j, dense.At(j, i))
			kkt.Set(s+j, i, dense.At(j, i))
		}
	}
	b := append(append([]float64(nil), problem.VTq...), f...)
	out := Least{Status: MinNorm}
	var svd mat.SVD
	if svd.Factorize(kkt, mat.SVDNone) {
		if sv := svd.Values(nil); len(sv) > 0 && sv[len(sv)-1] > rank*sv[0] {
			out.Status = Exact
		}
	}
	x := pseudo(kkt, b)
	out.X, out.Nu = x[:s], x[s:]
	return out, nil
}

// ridge minimises |V x - q|^2 / 2 + mu |C x - f|^2 / 2 + eps |x|^2 / 2.
func (p Problem) ridge(dense *mat.Dense, f []float64, mu, eps float64) (Least, error) {
	s := p.Gram.SymmetricDim()
	trace := 0.0
	for i := range s {
		trace += p.Gram.At(i, i)
	}
	if mu == 0 {
		mu, eps = 1e3*max(1, trace/float64(s)), 1e-6*trace/float64(s)
	}
	a := mat.NewSymDense(s, nil)
	b := append([]float64(nil), p.VTq...)
	for i := range s {
		for j := i; j < s; j++ {
			v := p.Gram.At(i, j)
			for r := range f {
				v += mu * dense.At(r, i) * dense.At(r, j)
			}
			a.SetSym(i, j, v)
		}
		a.SetSym(i, i, a.At(i, i)+eps)
		for r, x := range f {
			b[i] += mu * dense.At(r, i) * x
		}
	}
	return Least{X: pseudo(a, b), Status: Ridge}, nil
}
