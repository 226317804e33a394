// Package walk computes the random walk with restart on the bipartite graph of classes and chunks, by push:
// x = (1 - d) s + d T^t x, where T is the row-normalised adjacency, or what Steps make of it. It visits only the nodes
// that mass reaches, and its memory is in proportion to them (scratch.go).
//
// A node is pushed while its residual is above eps * (1 - d) * deg(u), deg its number of neighbours. So a walk pushes
// along 1 / (eps * (1 - d)) edges at most, whatever the graph. No x_u is above the exact one, and together they are
// below by at most Mass.Left / (1 - d). Where steps go both ways equally (no Steps: then the walk is reversible, and
// deg is stationary) every |x_u - exact| is at most eps * deg(u) besides. With Steps that does not hold of a single
// node: what steps prefer can gather the residuals of many.
package walk

import (
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/index/graph"
)

// Graph is what is walked on. One graph serves many walks at once. It has at most graph.MaxNodes nodes.
type Graph struct {
	graph.Adjacency

	shared     []uint64 // bits of the classes that have several chunks (sharedClasses)
	sharedOnce sync.Once
}

// sharedClasses says by bits which classes have several chunks. An elimination asks that of each class of a chunk, and
// they lie anywhere: the bits of a million classes stay in the cache beside a core, their offsets do not.
func (g *Graph) sharedClasses() []uint64 {
	g.sharedOnce.Do(func() {
		g.shared = make([]uint64, (g.Classes()+63)/64)
		for class := range g.Classes() {
			if g.ClassOff[class+1]-g.ClassOff[class] > 1 {
				g.shared[class/64] |= 1 << (class % 64)
			}
		}
	})
	return g.shared
}

// Weighted is a node with a weight.
type Weighted struct {
	ID     uint32
	Weight float64
}

// Start is where mass comes from: weights of classes and chunks, made to sum to 1.
type Start struct{ Classes, Chunks []Weighted }

// View narrows the graph to a subgraph; nil functions allow everything.
type View struct{ Class, Chunk func(uint32) bool }

// Steps weigh the steps from a node to each of its neighbours: mass parts in proportion. They are filled in beside the
// neighbours, must be above 0, and must be the same whenever they are asked for in one walk. Nil: all are equal.
type Steps struct {
	ToChunks, ToClasses func(from uint32, to []uint32, weights []float64)
	// Stopped ends the walk where it is; it is asked once for every 65,536 edges. Nil: nothing does.
	Stopped func() bool
}

// lookEvery is after how many edges a walk asks whether it is stopped.
const lookEvery = 1 << 16

// Mass is a stationary distribution: nodes that mass reached.
type Mass struct {
	Chunks, Classes []Weighted
	Pushes          int
	Left            float64 // mass that was not pushed on
}

// Run walks. d is the probability of following an edge. A node without an allowed neighbour gives its mass back to the
// start. No weight at the start gives an empty result.
//
// Where the view allows everything, classes with one chunk, nine of ten, are eliminated. What a chunk gives to such
// classes, a share s of what it gives on, comes back: it settles r / (1 - d^2 s) at once. Their own mass is left out;
// it is d * x(chunk) * share + (1 - d) * start.
func (g *Graph) Run(start Start, d, eps float64, view View, steps Steps) Mass {
	sum := 0.0
	for _, l := range [][]Weighted{start.Classes, start.Chunks} {
		for _, w := range l {
			sum += w.Weight
		}
	}
	if !(sum > 0) {
		return Mass{}
	}
	w := walker{
		g:        g,
		s:        scratches.Get().(*scratch),
		v:        view,
		steps:    steps,
		d:        d,
		eps:      eps * (1 - d),
		n:        uint32(g.Classes()),
		toChunks: view.Chunk == nil && view.Class == nil,
	} // mass that is left spreads to 1 / (1 - d) of itself
	if w.toChunks {
		w.shared = g.sharedClasses()
	}
	for _, c := range start.Classes {
		w.start = append(w.start, Weighted{c.ID, c.Weight / sum})
	}
	for _, k := range start.Chunks {
		w.start = append(w.start, Weighted{w.n + k.ID, k.Weight / sum})
	}
	for _, x := range w.start {
		w.add(x.ID, (1-d)*x.Weight)
	}
	mass := w.pushQueue()
	w.s.releaseScratch() // not where it falls: what it leaves would be another walk's
	return mass
}

type walker struct {
	g     *Graph
	s     *scratch
	v     View
	steps Steps
	d     float64
	eps   float64
	n     uint32 // classes come first
	start []Weighted
	m     Mass

	toChunks bool
	shared   []uint64  // bits of the classes that have several chunks
	several  []uint32  // those of the chunk at hand
	parts    []float64 // of what it gives, by Steps
}

// neighboursOf returns the neighbours of a node: ids, where they begin among nodes, and the test of the other side.
func (w *walker) neighboursOf(u uint32) (to []uint32, base uint32, ok func(uint32) bool) {
	if u < w.n {
		return w.g.ChunksOf(u), w.n, w.v.Chunk
	}
	return w.g.ClassesOf(u - w.n), 0, w.v.Class
}

// weighSteps gives the weights of the steps from a node, valid until it is called again, and the sum of those that the
// test of the other side leaves; nil: all equal. Nodes with many neighbours are pushed again and again in one walk, so
// that theirs are remembered.
func (w *walker) weighSteps(u uint32, to []uint32, ok func(uint32) bool) ([]float64, float64) {
	by, from := w.steps.ToChunks, u
	if u >= w.n {
		by, from = w.steps.ToClasses, u-w.n
	}
	if by == nil {
		return nil, 0
	}
	if known, there := w.s.weighed[u]; there {
		return w.s.weights[known.from : int(known.from)+len(to)], known.sum
	}
	end := len(w.s.weights)
	w.s.weights = slices.Grow(w.s.weights, len(to))
	weights := w.s.weights[end : end+len(to)]
	by(from, to, weights)
	sum := degreeOf(to, weights, ok)
	if len(to) >= fewestKept && end+len(to) <= mostKept {
		w.s.weights = w.s.weights[:end+len(to)]
		w.s.weighed[u] = weighed{uint32(end), sum}
	}
	return weights, sum
}

// degreeOf returns the degree of a node under the view: how many neighbours ok lets in, or the sum of their weights.
func degreeOf(to []uint32, weight []float64, ok func(uint32) bool) float64 {
	if ok == nil && weight == nil {
		return float64(len(to))
	}
	n := 0.0
	for i, x := range to {
		if ok != nil && !ok(x) {
			continue
		}
		if weight == nil {
			n++
		} else {
			n += weight[i]
		}
	}
	return n
}

func (w *walker) add(u uint32, mass float64) {
	at := w.s.placeNode(u)
	node := &w.s.nodes[at]
	node.r += mass
	if !node.queued && node.r > w.eps {
		node.queued = true
		w.s.queue = append(w.s.queue, at)
	}
}

// eliminateClasses pushes a chunk past its classes that have no other chunk, by the weights of steps (nil: all 1) and
// their sum.
func (w *walker) eliminateClasses(node *node, to []uint32, weights []float64, sum float64) {
	w.several, w.parts = w.several[:0], w.parts[:0]
	alone := 0.0
	for i, c := range to {
		weight := 1.0
		if weights != nil {
			weight = weights[i]
		}
		if w.shared[c/64]>>(c%64)&1 == 1 {
			w.several, w.parts = append(w.several, c), append(w.parts, weight)
		} else {
			alone += weight
		}
	}
	r := node.r / (1 - w.d*w.d*(alone/sum))
	node.x += r
	node.r = 0
	for i, c := range w.several {
		w.add(c, w.d*r*w.parts[i]/sum)
	}
}

func (w *walker) pushQueue() Mass {
	s := w.s
	edges := 0
	for head := 0; head < len(s.queue); head++ {
		node := &s.nodes[s.queue[head]]
		node.queued = false
		if head > 1<<16 && head*2 > len(s.queue) { // the queue's used front goes
			s.queue = append(s.queue[:0], s.queue[head+1:]...)
			head = -1
		}
		to, base, ok := w.neighboursOf(node.id)
		if edges += len(to) + 1; edges >= lookEvery && w.steps.Stopped != nil {
			if edges = 0; w.steps.Stopped() {
				break
			}
		}
		deg := degreeOf(to, nil, ok)
		if node.r <= w.eps*max(deg, 1) {
			continue
		}
		w.m.Pushes++
		weight, sum := w.weighSteps(node.id, to, ok) // not before: most that are looked at are not pushed
		if weight != nil {
			deg = sum
		}
		if w.toChunks && node.id >= w.n && deg > 0 {
			w.eliminateClasses(node, to, weight, deg)
			continue
		}
		r := node.r
		node.x += r
		node.r = 0
		if deg == 0 {
			for _, x := range w.start {
				w.add(x.ID, w.d*r*x.Weight)
			}
			continue
		}
		each := w.d * r / deg
		for i, x := range to {
			if ok != nil && !ok(x) {
				continue
			}
			if weight == nil {
				w.add(base+x, each)
			} else if weight[i] > 0 {
				w.add(base+x, each*weight[i])
			}
		}
	}
	for i := range s.nodes {
		node := &s.nodes[i]
		w.m.Left += node.r
		switch {
		case node.x == 0:
		case node.id < w.n:
			w.m.Classes = append(w.m.Classes, Weighted{node.id, node.x})
		default:
			w.m.Chunks = append(w.m.Chunks, Weighted{node.id - w.n, node.x})
		}
	}
	return w.m
}
