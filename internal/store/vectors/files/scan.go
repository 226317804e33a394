package files

import (
	"context"
	"math"
	mathbits "math/bits"
	"runtime"
	"slices"

	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// A scan multiplies the question with int8 rows, and knows of each the range in which its exact score lies. A row whose
// range ends below where those of n others begin is not among the n best; all others are candidates.

// candidate is a row that may be among the best; high is the most that its score can be.
type candidate struct {
	part, row int
	high      float64
}

// run is a stretch of rows of one part. Where keep is not 0 the rows are looked at by the part's index, and so many of
// all rows of the part are kept.
type run struct{ part, low, high, keep int }

const (
	rowsPerRun   = 8192
	rowsPerBlock = 256 // their products are looked at while they are in the cache
	rowsPerLook  = 512 // that lie anywhere are worth another worker
)

// findCandidates gives the rows that may be among the n best of those whose codes are looked at: of a part without an
// index, or where that is of no use, all; of another those that are best by the index.
func (c *collection) findCandidates(ctx context.Context, question []float32, n int) ([]candidate, error) {
	query := coarseQuestion(question)
	var turned tables
	columns, floors := make([]columnTables, len(c.parts)), make([]floors, len(c.parts))
	var runs []run
	rows := 0
	for i, p := range c.parts {
		of := p.splitRuns(i, n)
		switch {
		case of[0].keep == 0:
		case p.index.Load().byDim:
			columns[i] = p.index.Load().columns.prepareTables(question, n)
		case turned.bytes == nil:
			turned = c.rotation().buildTables(question)
		}
		runs = append(runs, of...)
		rows += p.n
	}
	workers := min(runtime.GOMAXPROCS(0), len(runs), 1+rows/rowsPerRun)
	scans := make([]*scan, workers)
	err := parallel.Each(ctx, workers, workers, func(ctx context.Context, w int) error {
		scans[w] = &scan{
			query: &query, turned: &turned, columns: columns, floors: floors, best: newSmallest(n),
			sketched: map[int]*best{},
		}
		for j := w; j < len(runs) && ctx.Err() == nil; j += workers {
			scans[w].scanRun(c.parts[runs[j].part], runs[j])
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return c.joinScans(ctx, scans, n)
}

// joinScans puts together what the workers found, and looks at the codes of the rows that are best by an index, as many
// beside each other. Whatever the number of workers, the same rows are left.
func (c *collection) joinScans(ctx context.Context, scans []*scan, n int) ([]candidate, error) {
	if len(scans) == 0 {
		return nil, nil
	}
	all := scans[0]
	for _, other := range scans[1:] {
		all.takeScan(other)
	}
	kept, rows := make([][]ranked, len(c.parts)), 0
	for number, sketched := range all.sketched {
		kept[number] = sketched.keptRows()
		rows += len(kept[number])
	}
	workers := min(len(scans), 1+rows/rowsPerLook)
	looks := make([]*scan, workers)
	err := parallel.Each(ctx, workers, workers, func(_ context.Context, w int) error {
		looks[w] = &scan{query: all.query, best: newSmallest(n)}
		for number, rows := range kept {
			looks[w].lookAt(c.parts[number], number, rows[len(rows)*w/workers:len(rows)*(w+1)/workers])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, look := range looks {
		all.takeScan(look)
	}
	return dropWorse(all.found, all.best), nil
}

// takeScan adds what another worker found.
func (s *scan) takeScan(other *scan) {
	for _, low := range other.best.values {
		s.best.add(low)
	}
	s.found = append(s.found, other.found...)
	for number, more := range other.sketched {
		if s.sketched[number] == nil {
			s.sketched[number] = more
			continue
		}
		for _, row := range more.keptRows() {
			s.sketched[number].add(row.row, row.estimate)
		}
	}
}

// lookAt looks at the codes of rows that lie anywhere in a part.
func (s *scan) lookAt(p *part, number int, rows []ranked) {
	var product [1]int32
	for i, row := range rows {
		ahead := int(rows[min(i+2, len(rows)-1)].row-row.row) * p.dim // each waits for memory
		dotsAhead(s.query.numbers, p.codesAt(int(row.row)), product[:], ahead)
		s.considerRow(p, number, int(row.row), product[0])
	}
}

// splitRuns splits the rows of a part into runs.
func (p *part) splitRuns(number, n int) []run {
	keep := p.index.Load().countKept(n)
	length := rowsPerRun
	switch {
	case keep == 0:
	case p.index.Load().byDim:
		length = rowsPerStripe // one block
	default:
		length = 4 * rowsPerRun
	}
	var out []run
	for low := 0; low < p.n; low += length {
		out = append(out, run{part: number, low: low, high: min(low+length, p.n), keep: keep})
	}
	return out
}

// scan is what one worker found.
type scan struct {
	query    *coarse
	turned   *tables
	columns  []columnTables // by the number of the part
	floors   []floors       // too, those of all workers
	best     smallest       // the least that the scores of the best rows can be
	found    []candidate
	sift     int           // how many are looked through again
	sketched map[int]*best // by the number of the part, the rows that are best by its index
}

func (s *scan) scanRun(p *part, r run) {
	if r.keep > 0 {
		kept := s.sketched[r.part]
		if kept == nil {
			kept = newBest(r.keep, &s.floors[r.part])
			s.sketched[r.part] = kept
		}
		if x := p.index.Load(); x.byDim {
			s.overColumns(p, r, x.columns, kept)
		} else {
			s.overSigns(p, r, x, kept)
		}
		return
	}
	var products [rowsPerBlock]int32
	for low := r.low; low < r.high; low += rowsPerBlock {
		high := min(low+rowsPerBlock, r.high)
		dotRows(s.query.numbers, p.q[low*p.dim:high*p.dim], products[:high-low])
		for i, product := range products[:high-low] {
			s.considerRow(p, r.part, low+i, product)
		}
	}
}

// overSigns keeps the rows of a run that are best by their signs.
func (s *scan) overSigns(p *part, r run, x *index, kept *best) {
	width := rowsAtOnce * signBytes(p.dim)
	var summed [rowsAtOnce]uint16
	for low := r.low; low < r.high; low += rowsAtOnce {
		at := low / rowsAtOnce * width
		sumTables(s.turned.bytes, x.signs[at:at+width], &summed)
		kept.raiseFloor()
		s.turned.keepRows(p, low, x.factors[low:min(low+rowsAtOnce, r.high)], &summed, kept)
	}
}

// overColumns keeps the rows of a run that are best by columns.
func (s *scan) overColumns(p *part, r run, x *columned, kept *best) {
	asked := &s.columns[r.part]
	reader := columnReaders.Get().(*columnReader)
	defer columnReaders.Put(reader)
	for i, summed := range x.sumGroups(reader, asked, r.low) {
		kept.raiseFloor()
		for half := range summed {
			if low := r.low + i*rowsPerGroup + half*rowsAtOnce; low < r.high {
				asked.keepRows(p, low, p.scales[low:min(low+rowsAtOnce, r.high)], &summed[half], kept)
			}
		}
	}
}

// keepRows adds those of 32 rows, which begin with one, to the best ones that belong to them.
func (t *tables) keepRows(p *part, low int, factors []float32, summed *[rowsAtOnce]uint16, kept *best) {
	for over := t.rowsOver(summed, factors, kept.floor); over != 0; over &= over - 1 {
		i := mathbits.TrailingZeros32(over)
		if !p.dead.hasBit(low + i) {
			kept.add(int32(low+i), t.estimateScore(summed[i], factors[i]))
		}
	}
}

// considerRow takes a row for a candidate, unless it cannot be one.
func (s *scan) considerRow(p *part, number, row int, product int32) {
	least, most := s.query.boundScore(product, p.scales[row])
	if s.best.isFull() && most < s.best.leastValue() || p.dead.hasBit(row) {
		return
	}
	s.best.add(least)
	s.found = append(s.found, candidate{number, row, most})
	if len(s.found) > max(s.sift, 4*rowsPerBlock) {
		s.found = dropWorse(s.found, s.best)
		s.sift = 2 * len(s.found) // where many rows are equal, they are not looked through for each one more
	}
}

// dropWorse leaves those candidates that may be among the best.
func dropWorse(found []candidate, best smallest) []candidate {
	if !best.isFull() {
		return found
	}
	return slices.DeleteFunc(found, func(k candidate) bool { return k.high < best.leastValue() })
}

// smallest keeps the n largest of the numbers that it is given; the smallest of them is at hand.
type smallest struct {
	most   int
	values []float64 // a heap, least first
}

func newSmallest(n int) smallest { return smallest{most: n} }

func (s *smallest) isFull() bool { return len(s.values) == s.most }

// leastValue returns the smallest of those that are kept.
func (s *smallest) leastValue() float64 {
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
