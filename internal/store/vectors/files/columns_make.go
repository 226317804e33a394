package files

import (
	"context"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// rowsPerWrite is of how many rows the levels are turned and written at once.
const rowsPerWrite = 64 * rowsPerGroup

// makeColumns writes the levels of the rows of a part to their places in a file.
func makeColumns(ctx context.Context, p *part, fitted levels, file *os.File) error {
	if err := file.Truncate(int64(columnsSize(p))); err != nil {
		return err
	}
	var jobs []int // the first row of each
	for block := 0; block < p.n; block += rowsPerStripe {
		for low := block; low < min(p.n, block+rowsPerStripe); low += rowsPerWrite {
			jobs = append(jobs, low)
		}
	}
	workers := min(runtime.GOMAXPROCS(0), len(jobs))
	return parallel.Each(ctx, workers, workers, func(ctx context.Context, worker int) error {
		maker := columnMaker{
			part: p, fitted: fitted, file: file,
			out: make([]byte, p.dim*rowsPerWrite/2), group: make([]byte, rowsPerGroup*(p.dim+apart)),
		}
		for job := worker; job < len(jobs); job += workers {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := maker.writeLevels(jobs[job]); err != nil {
				return err
			}
		}
		return nil
	})
}

// apart is what lies between rows that are turned: at distances of a power of two they would fall on the same places of
// a cache.
const apart = 64

// columnMaker is one who makes stripes, with the room for those of a job.
type columnMaker struct {
	*part
	fitted levels
	file   *os.File
	group  []byte // the levels of the rows of a group
	out    []byte // a piece of each stripe
}

// writeLevels writes the levels of the rows of a job, which begins with a row.
func (m *columnMaker) writeLevels(low int) error {
	block := low / rowsPerStripe * rowsPerStripe
	high := min(m.n, block+rowsPerStripe, low+rowsPerWrite)
	length := (high - low + rowsPerGroup - 1) / rowsPerGroup * rowsAtOnce
	for first := low; first < high; first += rowsPerGroup {
		m.transposeGroup(first, high, (first-low)/2, length)
	}
	for dim := range m.dim {
		at := columnsHead + m.dim*block/2 + dim*stripeBytes(m.part, block) + (low-block)/2
		if _, err := m.file.WriteAt(m.out[dim*length:(dim+1)*length], int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// transposeGroup puts the levels of the rows of a group, which begins with a row, at a place in the pieces of the
// stripes.
func (m *columnMaker) transposeGroup(first, high, at, length int) {
	width := m.dim + apart
	clear(m.group) // what fills up the last group is zero
	for i := range min(rowsPerGroup, high-first) {
		row := m.group[i*width : i*width+m.dim]
		for j, code := range m.codesAt(first + i) {
			row[j] = m.fitted.level[byte(code)]
		}
	}
	for dim := range m.dim {
		out := m.out[dim*length+at:][:rowsAtOnce]
		for i := range out {
			out[i] = m.group[i*width+dim] | m.group[(i+rowsAtOnce)*width+dim]<<4
		}
	}
}

const (
	mixedRows    = 4  // of which a question is mixed
	mixedNumbers = 24 // of each
)

// columnsPerAsked are how many rows are looked at for each one asked for, at least, by the place in indexedAsks.
var columnsPerAsked = [len(indexedAsks)]int{20, 4, 4, 4}

// mixedQuestions returns questions such as people ask: of a few of the features of several rows.
func mixedQuestions(p *part) []question {
	n := min(p.n/mixedRows, measuredRows)
	var out []question
	for i := range n {
		asked := question{vector: make([]float32, p.dim)}
		for j := range mixedRows {
			row := (i*mixedRows + j) * p.n / (n * mixedRows)
			vector := p.exactOf(row)
			dims := selectDims(vector, 1)
			for _, dim := range dims[:min(mixedNumbers, len(dims))] {
				asked.vector[dim] += vector[dim]
			}
			asked.from = append(asked.from, row)
		}
		if slices.ContainsFunc(asked.vector, func(x float32) bool { return x != 0 && !math.IsNaN(float64(x)) }) {
			out = append(out, asked)
		}
	}
	return out
}
