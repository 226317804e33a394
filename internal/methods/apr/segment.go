package apr

import "math"

// Edge is one triple by the numbers of its head, relation and tail in a codebook.
type Edge struct{ Head, Relation, Tail uint32 }

// Line is an edge with the vector of its text, which is of unit length.
type Line struct {
	Edge Edge
	Unit []float32
}

// Segmenter cuts a stream of lines into runs. A line fits as well as its cosine with the run's centroid says, plus a
// bonus where it goes on from the line before.
type Segmenter struct {
	Threshold float64 // the least fit of a line that stays
	Chain     float64 // bonus where the head is the tail of the line before
	Reuse     float64 // bonus where head or tail is in the run already; not on top of Chain
	MaxLen    int     // lines that a run has at most; 0: no bound
}

// DefaultSegmenter has the published threshold and bonus, and a bound on the length.
var DefaultSegmenter = Segmenter{Threshold: 0.7, Chain: 0.05, Reuse: 0.02, MaxLen: 24}

// Cut gives the runs of lines: parts of the slice, none empty, in order.
func (s Segmenter) Cut(lines []Line) [][]Line {
	var runs [][]Line
	from := 0
	var open run
	for i, line := range lines {
		n := i - from
		switch {
		case n == 0:
			open = newRun(line)
		case open.scoreFit(s, lines[i-1], line) < s.Threshold, s.MaxLen > 0 && n >= s.MaxLen:
			runs = append(runs, lines[from:i:i])
			from, open = i, newRun(line)
		default:
			open.add(line)
		}
	}
	if from < len(lines) {
		runs = append(runs, lines[from:])
	}
	return runs
}

// Refine looks again at every border between neighbouring runs of one document, from left to right. A border at which
// the segmenter, begun at the left run, does not cut goes: the runs become one, or those that the segmenter makes.
// The result is that of Cut over the whole document, wherever the runs that it was given were parted for want of text.
func (s Segmenter) Refine(runs [][]Line) [][]Line {
	var out [][]Line
	for _, right := range runs {
		if len(right) == 0 {
			continue
		}
		if len(out) == 0 {
			out = append(out, right)
			continue
		}
		left := out[len(out)-1]
		both := append(append(make([]Line, 0, len(left)+len(right)), left...), right...)
		if again := s.Cut(both); len(again[0]) == len(left) {
			out = append(out, right)
		} else {
			out = append(out[:len(out)-1], again...)
		}
	}
	return out
}

// run is what the segmenter knows of the run that is open.
type run struct {
	sum   []float64 // of the unit vectors: it has the centroid's direction
	nodes map[uint32]bool
}

func newRun(line Line) run {
	open := run{sum: make([]float64, len(line.Unit)), nodes: map[uint32]bool{}}
	open.add(line)
	return open
}

func (r *run) add(line Line) {
	for k, x := range line.Unit {
		r.sum[k] += float64(x)
	}
	r.nodes[line.Edge.Head], r.nodes[line.Edge.Tail] = true, true
}

func (r *run) scoreFit(s Segmenter, before, line Line) float64 {
	var product, square float64
	for k, x := range r.sum {
		product += x * float64(line.Unit[k])
		square += x * x
	}
	fit := 0.0
	if square > 0 {
		fit = max(0, product/math.Sqrt(square))
	}
	switch {
	case before.Edge.Tail == line.Edge.Head:
		fit += s.Chain
	case r.nodes[line.Edge.Head] || r.nodes[line.Edge.Tail]:
		fit += s.Reuse
	}
	return fit
}
