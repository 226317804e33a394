package files

import (
	"context"
	"math"
	"runtime"
	"slices"

	"github.com/unweaver/unweaver/internal/stream/par"
)

// A scan multiplies the question with int8 rows, and knows of each the range in which its exact score lies. A row whose
// range ends below where those of n others begin is not among the n best; all others are candidates.

// candidate is a row that may be among the best; high is the most that its score can be.
type candidate struct {
	part, row int
	high      float64
}

// run is a stretch of rows of one part whose codes follow each other.
type run struct {
	part   int
	first  int // the number of the first row
	scales []float32
	codes  []int8
}

const (
	rowsPerRun   = 8192
	rowsPerBlock = 256 // their products are looked at while they are in the cache
)

// candidates gives the rows that may be among the n best.
func (c *collection) candidates(ctx context.Context, query *coarse, n int) ([]candidate, error) {
	var runs []run
	rows := 0
	for i, p := range c.parts {
		runs = append(runs, p.runs(i)...)
	}
	for _, r := range runs {
		rows += len(r.scales)
	}
	workers := min(runtime.GOMAXPROCS(0), len(runs), 1+rows/rowsPerRun)
	scans := make([]*scan, workers)
	err := par.Each(ctx, workers, workers, func(ctx context.Context, w int) error {
		scans[w] = &scan{query: query, best: newSmallest(n)}
		for j := w; j < len(runs) && ctx.Err() == nil; j += workers {
			scans[w].over(c.parts[runs[j].part], runs[j])
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	best := newSmallest(n)
	var found []candidate
	for _, s := range scans {
		for _, low := range s.best.values {
			best.add(low)
		}
		found = append(found, s.found...)
	}
	return within(found, best), nil
}

// runs of all rows of a part.
func (p *part) runs(number int) []run {
	var out []run
	for low := 0; low < p.n; low += rowsPerRun {
		high := min(low+rowsPerRun, p.n)
		codes := p.q[low*p.dim : high*p.dim]
		out = append(out, run{part: number, first: low, scales: p.scales[low:high], codes: codes})
	}
	return out
}

// scan is what one worker found.
type scan struct {
	query *coarse
	best  smallest // the least that the scores of the best rows can be
	found []candidate
	sift  int // how many are looked through again
}

func (s *scan) over(p *part, r run) {
	var products [rowsPerBlock]int32
	for low := 0; low < len(r.scales); low += rowsPerBlock {
		high := min(low+rowsPerBlock, len(r.scales))
		dots(s.query.numbers, r.codes[low*p.dim:high*p.dim], products[:high-low])
		for i := low; i < high; i++ {
			s.look(p, r, i, products[i-low])
		}
	}
}

// look takes row i of a run for a candidate, unless it cannot be one.
func (s *scan) look(p *part, r run, i int, product int32) {
	least, most := s.query.bounds(product, r.scales[i])
	if s.best.full() && most < s.best.least() {
		return
	}
	row := r.first + i
	if p.dead.has(row) {
		return
	}
	s.best.add(least)
	s.found = append(s.found, candidate{r.part, row, most})
	if len(s.found) > max(s.sift, 4*rowsPerBlock) {
		s.found = within(s.found, s.best)
		s.sift = 2 * len(s.found) // where many rows are alike, they are not looked through for each one more
	}
}

// within leaves those candidates that may be among the best.
func within(found []candidate, best smallest) []candidate {
	if !best.full() {
		return found
	}
	return slices.DeleteFunc(found, func(k candidate) bool { return k.high < best.least() })
}

// smallest keeps the n largest of the numbers that it is given; the smallest of them is at hand.
type smallest struct {
	most   int
	values []float64 // a heap, least first
}

func newSmallest(n int) smallest { return smallest{most: n} }

func (s *smallest) full() bool { return len(s.values) == s.most }

// least is the smallest of those that are kept.
func (s *smallest) least() float64 {
	if len(s.values) == 0 {
		return math.Inf(-1)
	}
	return s.values[0]
}

func (s *smallest) add(value float64) {
	v := s.values
	if len(v) < s.most {
		v = append(v, value)
		for i := len(v) - 1; i > 0 && v[(i-1)/2] > v[i]; i = (i - 1) / 2 {
			v[i], v[(i-1)/2] = v[(i-1)/2], v[i]
		}
		s.values = v
		return
	}
	if value <= v[0] {
		return
	}
	v[0] = value
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(v) {
			return
		}
		if child+1 < len(v) && v[child+1] < v[child] {
			child++
		}
		if v[i] <= v[child] {
			return
		}
		v[i], v[child] = v[child], v[i]
		i = child
	}
}
