// Package align computes aligned retrieval: it gives classes strengths under the capacities of chunks, by utility
// prices or by constrained least squares. It works on small pools and reads no store.
package align

import (
	"context"
	"math"
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

// MaximiseUtility maximises sum gamma_s log x_s under C x <= f by multiplicative price updates: lambda_i *= load_i /
// f_i. From the second round on x / M with M = max load/f is feasible and its duality gap is sum(gamma) * log M,
// which certifies the stop at log M <= eps. It looks at the context once a round.
func MaximiseUtility(ctx context.Context, pool Pool, eps float64, rounds int) (Prices, error) {
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
		if err := ctx.Err(); err != nil {
			return Prices{}, err
		}
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
