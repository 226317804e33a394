package align_test

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/unweaver/unweaver/internal/retrieve/align"
)

// precise solves the same problem to about 1e-10 by Newton steps on the dual with a vanishing barrier: small pools
// only, as each step solves a system of the size of the rows.
func precise(ctx context.Context, pool align.Pool) (align.Prices, error) {
	start, err := align.MaximiseUtility(ctx, pool, 1e-6, 500)
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
			if step := newton(pool, lambda, rowsOf, mu); step < 1e-13 {
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
func newton(p align.Pool, lambda []float64, used []bool, mu float64) float64 {
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
