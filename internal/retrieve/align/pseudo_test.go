package align

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"gonum.org/v1/gonum/mat"

	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

func TestASolverStopsAtTheFirstLookAfterTheEnd(t *testing.T) {
	const n = 300
	contradicting, holding := Problem{Gram: mat.NewSymDense(n, nil), VTq: make([]float64, n)}, Problem{}
	pool := Pool{Gamma: make([]float64, n), Columns: make([][]uint32, n), F: []float64{1, 1, 1}}
	for i := range n {
		contradicting.Gram.SetSym(i, i, 1)
		contradicting.VTq[i] = float64(i)
		contradicting.Rows = append(contradicting.Rows, Row{Classes: []uint32{uint32(i)}, F: 1})
		pool.Gamma[i], pool.Columns[i] = 1, []uint32{uint32(i % 2), 2}
	}
	holding = contradicting
	contradicting.Rows = append(contradicting.Rows, Row{Classes: []uint32{0, 1}, F: 1})
	pool.Columns[0] = []uint32{0, 1}
	for name, test := range map[string]struct {
		least int // looks of a whole run
		run   func(ctx context.Context) error
	}{
		"ridge":   {n + 1, func(ctx context.Context) error { _, err := CLS(ctx, contradicting, 0, 0); return err }},
		"holding": {n + 1, func(ctx context.Context) error { _, err := CLS(ctx, holding, 0, 0); return err }},
		"utility": {20, func(ctx context.Context) error { _, err := MaximiseUtility(ctx, pool, 1e-9, 20); return err }},
	} {
		searchtest.CheckEnds(t, name, test.least, 1, 8, test.run)
	}
}

func TestAProblemBeyondTheBoundsIsRefused(t *testing.T) {
	problem := func(classes, rows int) Problem {
		out := Problem{Gram: mat.NewSymDense(classes, nil), VTq: make([]float64, classes)}
		for i := range rows {
			first := uint32(i % classes)
			row := Row{Classes: []uint32{first}, F: 1}
			if by := uint32(i / classes); by > 0 && first+by < uint32(classes) {
				row.Classes = append(row.Classes, first+by)
			}
			out.Rows = append(out.Rows, row)
		}
		return out
	}
	for _, test := range []struct{ classes, rows int }{
		{MostUnknowns + 1, 1}, {MostUnknowns/2 + 1, MostUnknowns / 2}, {200, 20_000},
	} {
		var large TooLarge
		_, err := CLS(t.Context(), problem(test.classes, test.rows), 0, 0)
		assert.True(t, errors.As(err, &large), "%d classes, %d rows: %v", test.classes, test.rows, err)
	}
	weighed := problem(20, 10)
	full, asked := errors.New("full"), 0
	weighed.Admit = func(unknowns int) error { asked = unknowns; return full }
	_, err := CLS(t.Context(), weighed, 0, 0)
	assert.True(t, errors.Is(err, full) && asked == 30, "%d unknowns: %v", asked, err)
}
