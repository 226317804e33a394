// Package align is aligned retrieval: classes get strengths under capacities of chunks, by
// utility prices or by constrained least squares. It computes on small pools and touches no store.
package align

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Pool is the restricted problem: of each class its weight gamma > 0 and the rows (chunks) that it loads, and the rows'
// capacities f > 0.
type Pool struct {
	Gamma   []float64
	Columns [][]uint32 // of each class: rows, each once
	F       []float64
}

// Prices is a solution. Strengths x are feasible; Gap is the proven distance to the optimum relative to sum gamma.
type Prices struct {
	X      []float64
	Lambda []float64
	Load   []float64 // C x
	Rounds int
	Gap    float64 // log M of the certified stop
	Status string  // optimal | rounds
}

func (p Pool) check() error {
	if len(p.Gamma) != len(p.Columns) {
		return errors.New("align: weights and columns differ in number")
	}
	for s, g := range p.Gamma {
		if !(g > 0) || len(p.Columns[s]) == 0 {
			return errors.New("align: every class needs a positive weight and a chunk")
		}
	}
	for _, f := range p.F {
		if !(f > 0) {
			return errors.New("align: every capacity must be positive")
		}
	}
	return nil
}

// Utility maximises sum gamma_s log x_s under C x <= f by multiplicative price updates: lambda_i *= load_i /
// f_i. From the second round on x / M with M = max load/f is feasible and its duality gap is sum(gamma) * log M,
// which certifies the stop at log M <= eps.
func Utility(pool Pool, eps float64, rounds int) (Prices, error) {
	if err := pool.check(); err != nil {
		return Prices{}, err
	}
	out := Prices{
		X:      make([]float64, len(pool.Gamma)),
		Lambda: make([]float64, len(pool.F)),
		Load:   make([]float64, len(pool.F)),
		Status: "rounds",
	}
	if len(pool.Gamma) == 0 {
		out.Status = "optimal"
		return out, nil
	}
	for i := range out.Lambda {
		out.Lambda[i] = 1 / float64(len(pool.F))
	}
	for out.Rounds = 1; ; out.Rounds++ {
		clear(out.Load)
		for s, col := range pool.Columns {
			price := 0.0
			for _, i := range col {
				price += out.Lambda[i]
			}
			out.X[s] = pool.Gamma[s] / price
			for _, i := range col {
				out.Load[i] += out.X[s]
			}
		}
		m := 0.0
		for i, l := range out.Load {
			m = max(m, l/pool.F[i])
		}
		if out.Gap = math.Log(m); out.Rounds > 1 && (out.Gap <= eps || out.Rounds >= rounds) {
			if out.Gap <= eps {
				out.Status = "optimal"
			}
			for s := range out.X {
				out.X[s] /= m
			}
			for i := range out.Load {
				out.Load[i] /= m
			}
			return out, nil
		}
		for i := range out.Lambda {
			out.Lambda[i] *= out.Load[i] / pool.F[i]
		}
	}
}

// Precise solves the same problem to about 1e-10 by Newton steps on the dual with a vanishing barrier: small pools
// only, as each step solves a system of the size of the rows.
func Precise(pool Pool) (Prices, error) {
	start, err := Utility(pool, 1e-6, 500)
	if err != nil || len(pool.Gamma) == 0 {
		return start, err
	}
	k := len(pool.F)
	lambda := make([]float64, k)
	for i := range lambda {
		lambda[i] = max(start.Lambda[i], 1e-4)
	}
	rowsOf := make([]bool, k) // empty rows have no price
	for _, col := range pool.Columns {
		for _, i := range col {
			rowsOf[i] = true
		}
	}
	for mu := 1e-3; mu > 1e-15; mu *= 0.2 {
		for range 40 {
			if step := pool.newton(lambda, rowsOf, mu); step < 1e-13 {
				break
			}
			start.Rounds++
		}
	}
	clear(start.Load)
	for s, col := range pool.Columns {
		price := 0.0
		for _, i := range col {
			price += lambda[i]
		}
		start.X[s] = pool.Gamma[s] / price
		for _, i := range col {
			start.Load[i] += start.X[s]
		}
	}
	for i := range lambda {
		if !rowsOf[i] {
			lambda[i] = 0
		}
	}
	start.Lambda, start.Gap, start.Status = lambda, 0, "optimal"
	return start, nil
}

// newton does one step on lambda.f - sum gamma log(C^T lambda) - mu sum log lambda and gives its relative size.
func (p Pool) newton(lambda []float64, used []bool, mu float64) float64 {
	k := len(lambda)
	g := make([]float64, k)
	dense := mat.NewSymDense(k, nil)
	for i := range k {
		if !used[i] {
			dense.SetSym(i, i, 1)
			continue
		}
		g[i] = p.F[i] - mu/lambda[i]
		dense.SetSym(i, i, mu/(lambda[i]*lambda[i]))
	}
	for s, col := range p.Columns {
		price := 0.0
		for _, i := range col {
			price += lambda[i]
		}
		x := p.Gamma[s] / price
		for a, i := range col {
			g[i] -= x
			for _, j := range col[a:] {
				dense.SetSym(int(min(i, j)), int(max(i, j)), dense.At(int(i), int(j))+x/price)
			}
		}
	}
	// Scaling by lambda keeps the system well conditioned while prices go to zero.
	for i := range k {
		for j := i; j < k; j++ {
			dense.SetSym(i, j, dense.At(i, j)*lambda[i]*lambda[j])
		}
		g[i] *= lambda[i]
	}
	var d mat.VecDense
	var chol mat.Cholesky
	if !chol.Factorize(dense) {
		for i := range k {
			dense.SetSym(i, i, dense.At(i, i)*(1+1e-10)+1e-18)
		}
		if !chol.Factorize(dense) {
			return 0
		}
	}
	if err := chol.SolveVecTo(&d, mat.NewVecDense(k, g)); err != nil && !isCondition(err) {
		return 0
	}
	t, size := 1.0, 0.0
	for i := range k {
		if used[i] {
			size = max(size, math.Abs(d.AtVec(i)))
			if d.AtVec(i) > 0 {
				t = min(t, 0.95/d.AtVec(i))
			}
		}
	}
	if size > 0.5 {
		t = min(t, 0.5/size*1.6)
	}
	for i := range k {
		if used[i] {
			lambda[i] *= 1 - t*d.AtVec(i)
		}
	}
	return size
}

func isCondition(err error) bool {
	var c mat.Condition
	return errors.As(err, &c)
}
