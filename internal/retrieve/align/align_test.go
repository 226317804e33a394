package align_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/unweaver/unweaver/internal/retrieve/align"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

type utility struct {
	ID    string      `json:"id"`
	C     [][]float64 `json:"C"`
	Gamma []float64   `json:"gamma"`
	F     []float64   `json:"f"`
	X     []float64   `json:"x"`
}

func pool(c [][]float64, gamma, f []float64) align.Pool {
	p := align.Pool{Gamma: gamma, F: f, Columns: make([][]uint32, len(gamma))}
	for i, row := range c {
		for s, v := range row {
			if v != 0 {
				p.Columns[s] = append(p.Columns[s], uint32(i))
			}
		}
	}
	return p
}

// The solver is feasible, and as near to the optimum as its certificate says.
func TestUtilityOfTheReferenceVectors(t *testing.T) {
	var vs []utility
	searchtest.ReadReference(t, "alignment", "utility.json", &vs)
	for _, v := range vs {
		p := pool(v.C, v.Gamma, v.F)
		rough, err := align.MaximiseUtility(t.Context(), p, 1e-3, 500)
		require.NoError(t, err, v.ID)
		value, best, all := 0.0, 0.0, 0.0
		for s, g := range v.Gamma {
			value += g * math.Log(rough.X[s])
			best += g * math.Log(v.X[s])
			all += g
		}
		for i, l := range rough.Load {
			assert.True(t, l <= v.F[i]*(1+1e-9), "%s: chunk %d is loaded with %g of %g", v.ID, i, l, v.F[i])
		}
		assert.True(t, best-value <= all*rough.Gap+1e-9,
			"%s: the value is %g off, the certificate says %g", v.ID, best-value, all*rough.Gap)
	}
}

type cls struct {
	ID       string      `json:"id"`
	V        [][]float64 `json:"V"`
	Q        []float64   `json:"q"`
	C        [][]float64 `json:"C"`
	F        []float64   `json:"f"`
	S        int         `json:"S"`
	Feasible bool        `json:"feasible"`
	X        []float64   `json:"x"`
}

func problem(v cls) align.Problem {
	p := align.Problem{Gram: mat.NewSymDense(v.S, nil), VTq: make([]float64, v.S)}
	for i := range v.S {
		for d := range v.V {
			p.VTq[i] += v.V[d][i] * v.Q[d]
			for j := i; j < v.S; j++ {
				p.Gram.SetSym(i, j, p.Gram.At(i, j)+v.V[d][i]*v.V[d][j])
			}
		}
	}
	for i, weights := range v.C {
		row := align.Row{F: v.F[i]}
		for s, weight := range weights {
			if weight != 0 {
				row.Classes, row.Weights = append(row.Classes, uint32(s)), append(row.Weights, weight)
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

func TestCLSOfTheReferenceVectors(t *testing.T) {
	var vs []cls
	searchtest.ReadReference(t, "alignment", "cls.json", &vs)
	for _, v := range vs {
		got, err := align.CLS(t.Context(), problem(v), 0, 0)
		require.NoError(t, err, "%v", v.ID)
		if !v.Feasible {
			assert.True(t, got.Status == align.Ridge, "%s: contradicting constraints give status %s", v.ID, got.Status)
			continue
		}
		require.NotEqual(t, align.Ridge, got.Status, "%s: though the constraints hold", v.ID)
		scale := 1.0
		for _, x := range v.X {
			scale = max(scale, math.Abs(x))
		}
		for s, x := range v.X {
			if math.Abs(got.X[s]-x) > 1e-7*scale {
				t.Errorf("%s: x[%d] is %.9g, want %.9g (%s)", v.ID, s, got.X[s], x, got.Status)
				break
			}
		}
	}
}

func close6(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

// T1 to T4 of the specification.
func TestSpecification(t *testing.T) {
	t1 := [][]float64{{1, 0, 1}, {0, 1, 1}}
	prices, _ := align.MaximiseUtility(t.Context(), pool(t1, []float64{1, 1, 1}, []float64{1, 1}), 1e-3, 500)
	close6(t, "T1 x", prices.X, []float64{2. / 3, 2. / 3, 1. / 3})
	close6(t, "T1 lambda", prices.Lambda, []float64{1.5, 1.5})
	v := cls{V: [][]float64{{1, 0, .5}, {0, 1, .5}}, Q: []float64{1, 1}, C: t1, F: []float64{1, 1}, S: 3}
	least, _ := align.CLS(t.Context(), problem(v), 0, 0)
	close6(t, "T2 x", least.X, []float64{1, 1, 0})
	assert.True(t, least.Status == align.Exact, "T2 is %s", least.Status)
	p3 := pool([][]float64{{1, 1, 0}, {0, 1, 1}, {0, 0, 1}}, []float64{3, 1, 2}, []float64{1, 1, 1})
	prices, _ = align.MaximiseUtility(t.Context(), p3, 1e-8, 500)
	close6(t, "T3 x", prices.X, []float64{5. / 6, 1. / 6, 5. / 6})
	assert.True(t, prices.Rounds >= 85 && prices.Rounds <= 97, "T3 took %d rounds, want 91", prices.Rounds)
	v = cls{
		V: [][]float64{{1, 0}, {0, 1}},
		Q: []float64{1, 0},
		C: [][]float64{{1, 0}, {0, 1}, {1, 1}},
		F: []float64{1, 1, 1},
		S: 2,
	}
	least, _ = align.CLS(t.Context(), problem(v), 10, 0)
	close6(t, "T4 x", least.X, []float64{241. / 341, 210. / 341})
	assert.True(t, least.Status == align.Ridge, "T4 is %s", least.Status)
}
