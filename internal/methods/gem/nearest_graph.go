package gem

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Nearest are the options of NewNearest. The zero value of a field is what is said of it.
type Nearest struct {
	Neighbours int // that each node brings; 0: 20
	// Exact is up to how many nodes all pairs are compared; 0: 2048. Above, nodes are compared with those that share a
	// leaf of one of Trees random trees with them (0: 8), of at most Leaf nodes (0: 96), and then with the neighbours
	// of their neighbours.
	Exact, Trees, Leaf int
}

// linkWeight joins a node that is near to none to the one it is least far from: it is in the graph, and moves nothing.
const linkWeight = 1e-6

// near is a neighbour.
type near struct {
	to     int32
	weight float64
}

func compareNear(a, b near) int {
	return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.to, b.to))
}

// finder has the nearest of each node so far.
type finder struct {
	nodes   Nodes
	most    int
	blank   []bool   // nodes whose text has no direction: they are near to none
	best    [][]near // the nearest first, weights above 0
	closest []near   // of nodes with none of these, the least far
}

// NewNearest makes the graph of the nearest of each node: an edge is there where one of both has it among its nearest,
// with the weight that it has in Matrix. Isolated are only nodes without a direction.
func (n Nodes) NewNearest(o Nearest) (*Sparse, error) {
	if err := n.checkNodes(); err != nil {
		return nil, err
	}
	f := n.newFinder(cmp.Or(o.Neighbours, 20))
	if n.Len() <= cmp.Or(o.Exact, 2048) {
		f.compareAll()
	} else {
		for tree := range cmp.Or(o.Trees, 8) {
			f.compareLeaves(uint64(tree), max(2, cmp.Or(o.Leaf, 96)))
		}
		f.ofNeighbours()
	}
	return f.buildGraph()
}

func (n Nodes) newFinder(neighbours int) *finder {
	f := &finder{
		nodes: n, most: neighbours, blank: make([]bool, n.Len()), best: make([][]near, n.Len()),
		closest: make([]near, n.Len()),
	}
	for i := range f.closest {
		f.closest[i].to = -1
		f.blank[i] = !slices.ContainsFunc(n.Base.Row(i), func(x float32) bool { return x != 0 })
	}
	return f
}

// NearestTo returns the nodes that are nearest to one outside the graph, by its mean and its text vector: at most so
// many and only with weights above 0, by rising number.
func (n Nodes) NearestTo(mean, base []float32, most int) (to []int32, weights []float64) {
	found := make([]near, n.Len())
	wideMean, wideBase := toFloat64(mean), toFloat64(base)
	inBlocks(n.Len(), blockRows, func(_, from, end int) {
		for i := from; i < end; i++ {
			found[i] = near{int32(i), (dot(n.Base.Row(i), wideMean) + dot(n.Mean.Row(i), wideBase)) / 2}
		}
	})
	slices.SortFunc(found, compareNear)
	found = found[:min(most, len(found))]
	found = slices.DeleteFunc(found, func(x near) bool { return !(x.weight > 0) })
	slices.SortFunc(found, func(a, b near) int { return cmp.Compare(a.to, b.to) })
	for _, x := range found {
		to, weights = append(to, x.to), append(weights, x.weight)
	}
	return to, weights
}

func toFloat64(vector []float32) []float64 {
	out := make([]float64, len(vector))
	for k, x := range vector {
		out[k] = float64(x)
	}
	return out
}

// offerNeighbour takes x as a possible neighbour of node. A node is written to by one goroutine at a time. What it ends
// up with does not depend on the order of offers.
func (f *finder) offerNeighbour(node int, x near) {
	if f.blank[node] || f.blank[x.to] {
		return
	}
	if !(x.weight > 0) {
		if c := f.closest[node]; c.to < 0 || compareNear(x, c) < 0 {
			f.closest[node] = x
		}
		return
	}
	list := f.best[node]
	if len(list) == f.most && compareNear(x, list[f.most-1]) >= 0 {
		return
	}
	at, there := slices.BinarySearchFunc(list, x, compareNear)
	if there {
		return
	}
	if len(list) == f.most {
		list = list[:f.most-1]
	}
	f.best[node] = slices.Insert(list, at, x)
}

func (f *finder) compareAll() {
	n := f.nodes.Len()
	inBlocks(n, 16, func(_, from, to int) {
		for i := from; i < to; i++ {
			for j := range n {
				if i != j {
					f.offerNeighbour(i, near{int32(j), f.nodes.weighEdge(i, j)})
				}
			}
		}
	})
}

// compareLeaves cuts the nodes in halves by random directions until they fit into leaves, and compares those of a leaf.
func (f *finder) compareLeaves(seed uint64, leaf int) {
	random := rand.New(rand.NewPCG(29, seed))
	order := make([]int32, f.nodes.Len())
	for i := range order {
		order[i] = int32(i)
	}
	var leaves [][]int32
	side := make([]float64, len(order))
	for todo := [][]int32{order}; len(todo) > 0; {
		group := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if len(group) <= leaf {
			leaves = append(leaves, group)
			continue
		}
		f.projectGroup(group, side, random)
		slices.SortFunc(group, func(a, b int32) int { return cmp.Or(cmp.Compare(side[a], side[b]), cmp.Compare(a, b)) })
		todo = append(todo, group[len(group)/2:], group[:len(group)/2])
	}
	inBlocks(len(leaves), 1, func(block, _, _ int) {
		for at, a := range leaves[block] {
			for _, b := range leaves[block][:at] {
				w := f.nodes.weighEdge(int(a), int(b))
				f.offerNeighbour(int(a), near{b, w})
				f.offerNeighbour(int(b), near{a, w})
			}
		}
	})
}

// projectGroup reports each node of the group where it is between two of them, which are chosen at random, going by the
// sum of both its vectors.
func (f *finder) projectGroup(group []int32, side []float64, random *rand.Rand) {
	a := int(group[random.IntN(len(group))])
	b := int(group[random.IntN(len(group))])
	direction := make([]float64, f.nodes.Base.Dim)
	for k := range direction {
		direction[k] = float64(f.nodes.Mean.Row(a)[k]) + float64(f.nodes.Base.Row(a)[k]) -
			float64(f.nodes.Mean.Row(b)[k]) - float64(f.nodes.Base.Row(b)[k])
	}
	inBlocks(len(group), blockRows, func(_, from, to int) {
		for _, i := range group[from:to] {
			side[i] = dot(f.nodes.Mean.Row(int(i)), direction) + dot(f.nodes.Base.Row(int(i)), direction)
		}
	})
}

// ofNeighbours compares each node with the neighbours of its neighbours, as trees found them.
func (f *finder) ofNeighbours() {
	n := f.nodes.Len()
	before := make([][]int32, n)
	for i, list := range f.best {
		for _, x := range list {
			before[i] = append(before[i], x.to)
		}
	}
	inBlocks(n, 64, func(_, from, to int) {
		seen := make(map[int32]bool, f.most*f.most)
		for i := from; i < to; i++ {
			clear(seen)
			seen[int32(i)] = true
			for _, j := range before[i] {
				seen[j] = true
			}
			for _, j := range before[i] {
				for _, k := range before[j] {
					if !seen[k] {
						seen[k] = true
						f.offerNeighbour(i, near{k, f.nodes.weighEdge(i, int(k))})
					}
				}
			}
		}
	})
}

func (f *finder) buildGraph() (*Sparse, error) {
	var edges []Edge
	linked := make([]bool, len(f.best))
	for i, list := range f.best {
		for _, x := range list {
			edges = append(edges, Edge{i, int(x.to), x.weight})
			linked[i], linked[x.to] = true, true
		}
	}
	for i, x := range f.closest {
		if !linked[i] && x.to >= 0 {
			edges = append(edges, Edge{i, int(x.to), linkWeight})
		}
	}
	return NewSparse(len(f.best), edges)
}
