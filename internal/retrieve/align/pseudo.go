package align

import (
	"context"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	lapackgo "gonum.org/v1/gonum/lapack/gonum"

	blasgo "gonum.org/v1/gonum/blas/gonum"
)

// Sizes of what is worked on between two looks at the context.
const (
	panel    = 32  // columns that are made bidiagonal together: gonum's own, so that numbers are those of mat.SVD
	unpanned = 128 // columns from the last that are not: gonum's own
	strip    = 128 // columns that are rotated together: they fit into the cache beside a core
)

// solvePseudo solves a x = b in the sense of least squares and least norm, by the singular values of a square matrix a
// of n rows, which it overwrites. The numbers are those of mat.SVD to the bit. Singular vectors are never stored:
// rotations of one column of theirs do not depend on another column, so that they are made strip by strip and used at
// once. It returns the context's error when the context ends.
func solvePseudo(ctx context.Context, a []float64, n int, b []float64) (x, values []float64, err error) {
	x = make([]float64, n)
	if n == 0 {
		return x, nil, nil
	}
	var lapacks lapackgo.Implementation
	d, e, tauQ, tauP := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	work := make([]float64, 2*panel*n)
	if err := reduceBidiagonal(ctx, a, n, d, e, tauQ, tauP, work); err != nil {
		return nil, nil, err
	}
	basis := append([]float64(nil), a...)
	lapacks.Dorgbr(lapack.GenerateQ, n, n, n, basis, n, tauQ, work, len(work))
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	dots := make([]float64, n)
	values, err = rotateBasis(ctx, n, d, e, basis, false, func(from, to int, rows []float64) {
		for j := range n {
			for i, left := range rows[j*(to-from) : (j+1)*(to-from)] {
				dots[j] += left * b[from+i]
			}
		}
	})
	if err != nil || values == nil {
		return x, nil, err
	}
	lapacks.Dorgbr(lapack.GeneratePT, n, n, n, a, n, tauP, work, len(work))
	_, err = rotateBasis(ctx, n, d, e, a, true, func(from, to int, rows []float64) {
		for j, s := range values {
			if s <= rank*values[0] || s == 0 {
				break
			}
			for i, right := range rows[j*(to-from) : (j+1)*(to-from)] {
				x[from+i] += right * dots[j] / s
			}
		}
	})
	return x, values, err
}

// reduceBidiagonal does what LAPACK's dgebrd does with a square matrix, with a look at the context before each panel.
func reduceBidiagonal(ctx context.Context, a []float64, n int, d, e, tauQ, tauP, work []float64) error {
	var lapacks lapackgo.Implementation
	var blases blasgo.Implementation
	i := 0
	for ; i < n-unpanned; i += panel {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, y, left := work[:n*panel], work[n*panel:], n-i-panel
		lapacks.Dlabrd(n-i, n-i, panel, a[i*n+i:], n, d[i:], e[i:], tauQ[i:], tauP[i:], x, panel, y, panel)
		corner := a[(i+panel)*n+i+panel:]
		blases.Dgemm(blas.NoTrans, blas.Trans, left, left, panel, -1, a[(i+panel)*n+i:], n, y[panel*panel:], panel, 1,
			corner, n)
		blases.Dgemm(blas.NoTrans, blas.NoTrans, left, left, panel, -1, x[panel*panel:], panel, a[i*n+i+panel:], n, 1,
			corner, n)
		for j := i; j < i+panel; j++ {
			a[j*n+j], a[j*n+j+1] = d[j], e[j]
		}
	}
	lapacks.Dgebd2(n-i, n-i, a[i*n+i:], n, d[i:], e[i:], tauQ[i:], tauP[i:], work)
	return ctx.Err()
}

// rotateBasis turns the bidiagonal matrix of d and e into singular values, and gives each strip of its vectors: of the
// right ones as columns of basis, of the left ones as rows of it. Row j of a strip is of the j-th value. No values:
// they do not converge.
func rotateBasis(
	ctx context.Context, n int, d, e, basis []float64, right bool, give func(from, to int, rows []float64),
) (values []float64, err error) {
	var lapacks lapackgo.Implementation
	values, off, work := make([]float64, n), make([]float64, n), make([]float64, 4*n)
	rows := make([]float64, n*strip)
	for from := 0; from < n; from += strip {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		to := min(from+strip, n)
		width := to - from
		copy(values, d)
		copy(off, e)
		vt, c, ncvt, ncc := rows, []float64(nil), width, 0
		if right {
			for j := range n {
				copy(rows[j*width:(j+1)*width], basis[j*n+from:])
			}
		} else {
			for i := range width {
				for j, value := range basis[(from+i)*n : (from+i+1)*n] {
					rows[j*width+i] = value
				}
			}
			vt, c, ncvt, ncc = nil, rows, 0, width
		}
		if !lapacks.Dbdsqr(blas.Upper, n, ncvt, 0, ncc, values, off, vt, max(1, ncvt), nil, 1, c, max(1, ncc), work) {
			return nil, nil
		}
		give(from, to, rows)
	}
	return values, nil
}
