package gem

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// Edge joins two nodes.
type Edge struct {
	A, B   int
	Weight float64
}

// Sparse is a graph of the edges that it has: 12 bytes of each, both ways.
type Sparse struct {
	offsets []int // of every node, where its edges begin
	to      []int32
	weights []float64
}

// NewSparse makes a graph of n nodes. An edge that is given twice counts once, with the larger weight.
func NewSparse(n int, edges []Edge) (*Sparse, error) {
	both := make([]Edge, 0, 2*len(edges))
	for _, e := range edges {
		if e.A == e.B || min(e.A, e.B) < 0 || max(e.A, e.B) >= n || !(e.Weight > 0) {
			return nil, fault.InvalidParam.At("make a graph of edges", "edge "+strconv.Itoa(e.A)+" to "+strconv.Itoa(e.B)).
				Advise("give edges between different nodes of the graph, of weights above 0")
		}
		both = append(both, e, Edge{e.B, e.A, e.Weight})
	}
	slices.SortFunc(both, func(x, y Edge) int {
		return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B), cmp.Compare(y.Weight, x.Weight))
	})
	both = slices.CompactFunc(both, func(x, y Edge) bool { return x.A == y.A && x.B == y.B })
	s := &Sparse{offsets: make([]int, n+1), to: make([]int32, len(both)), weights: make([]float64, len(both))}
	for i, e := range both {
		s.offsets[e.A+1] = i + 1
		s.to[i], s.weights[i] = int32(e.B), e.Weight
	}
	for i := range n {
		s.offsets[i+1] = max(s.offsets[i+1], s.offsets[i])
	}
	return s, nil
}

// Len returns the number of nodes.
func (s *Sparse) Len() int { return len(s.offsets) - 1 }

// Edges returns the number of edges; each joins two nodes.
func (s *Sparse) Edges() int { return len(s.to) / 2 }

// Neighbours returns the neighbours of a node, and the weights of the edges to them.
func (s *Sparse) Neighbours(node int) ([]int32, []float64) {
	from, to := s.offsets[node], s.offsets[node+1]
	return s.to[from:to], s.weights[from:to]
}

// Degrees returns the sums of weights.
func (s *Sparse) Degrees() []float64 {
	out := make([]float64, s.Len())
	for i := range out {
		_, weights := s.Neighbours(i)
		for _, w := range weights {
			out[i] += w
		}
	}
	return out
}

// Multiply writes W x to out.
func (s *Sparse) Multiply(out, x []float64) {
	inBlocks(s.Len(), blockRows, func(_, from, to int) {
		for i := from; i < to; i++ {
			neighbours, weights := s.Neighbours(i)
			sum := 0.0
			for at, j := range neighbours {
				sum += float64(weights[at] * x[j])
			}
			out[i] = sum
		}
	})
}

func (s *Sparse) sumSquares(scale []float64) float64 {
	sum := 0.0
	for i := range s.Len() {
		neighbours, weights := s.Neighbours(i)
		for at, j := range neighbours {
			l := scale[i] * weights[at] * scale[j]
			sum += float64(l * l)
		}
	}
	return sum
}

// findParts returns the connected parts, the largest first, of equal ones that of the lowest node.
func (s *Sparse) findParts() []part {
	of := make([]int32, s.Len()) // 1 + the part of each node
	var found [][]int32
	for start := range of {
		if of[start] != 0 {
			continue
		}
		nodes := []int32{int32(start)}
		of[start] = int32(len(found) + 1)
		for at := 0; at < len(nodes); at++ {
			neighbours, _ := s.Neighbours(int(nodes[at]))
			for _, j := range neighbours {
				if of[j] == 0 {
					of[j] = of[start]
					nodes = append(nodes, j)
				}
			}
		}
		slices.Sort(nodes)
		found = append(found, nodes)
	}
	if len(found) == 1 {
		return []part{{graph: s}}
	}
	slices.SortStableFunc(found, func(a, b []int32) int { return len(b) - len(a) })
	out := make([]part, len(found))
	place := make([]int32, s.Len())
	for i, nodes := range found {
		for at, node := range nodes {
			place[node] = int32(at)
		}
		out[i] = part{nodes: nodes, graph: s.newSubgraph(nodes, place)}
	}
	return out
}

// newSubgraph returns the graph of a connected part; place has the new number of each of its nodes.
func (s *Sparse) newSubgraph(nodes, place []int32) *Sparse {
	out := &Sparse{offsets: make([]int, 1, len(nodes)+1)}
	for _, node := range nodes {
		neighbours, weights := s.Neighbours(int(node))
		for _, j := range neighbours {
			out.to = append(out.to, place[j])
		}
		out.weights = append(out.weights, weights...)
		out.offsets = append(out.offsets, len(out.to))
	}
	return out
}
