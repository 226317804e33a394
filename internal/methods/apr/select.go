package apr

// SameAt is the cosine from which two runs or edges say the same.
const SameAt = 0.93

// SelectUnique selects from lists of edges, and gives one list. Edges of different lists of which same holds are one
// component, and so is an edge with itself; edges of one list are only so through others. Of a component the edge stays
// that prefer puts first: it says whether a is to stay rather than b, and must be a strict order. Pairs are asked for
// where nothing else has shown yet that they are one, so that what is selected from should be some hundred edges.
func SelectUnique(lists [][]uint32, same, prefer func(a, b uint32) bool) []uint32 {
	var flat []uint32
	var list []int
	for i, edges := range lists {
		for _, edge := range edges {
			flat, list = append(flat, edge), append(list, i)
		}
	}
	groups := newForest(len(flat))
	first := make(map[uint32]int, len(flat)) // of an edge, the place in flat
	for i, edge := range flat {
		if at, again := first[edge]; again {
			groups.joinTrees(at, i)
		} else {
			first[edge] = i
		}
	}
	for i := range flat {
		for j := range i {
			if list[i] != list[j] && groups.findRoot(i) != groups.findRoot(j) && same(flat[j], flat[i]) {
				groups.joinTrees(j, i)
			}
		}
	}
	stays := make(map[int]int, len(flat)) // of a component, the place in flat
	for i, edge := range flat {
		root := groups.findRoot(i)
		if kept, any := stays[root]; !any || prefer(edge, flat[kept]) {
			stays[root] = i
		}
	}
	var out []uint32
	for i, edge := range flat {
		if stays[groups.findRoot(i)] == i {
			out = append(out, edge)
		}
	}
	return out
}

// PreferNearest prefers edges that are nearer to the query, then longer texts, then lower numbers.
func PreferNearest(near func(uint32) float64, text func(uint32) string) func(a, b uint32) bool {
	return func(a, b uint32) bool {
		if na, nb := near(a), near(b); na != nb {
			return na > nb
		}
		if la, lb := len(text(a)), len(text(b)); la != lb {
			return la > lb
		}
		return a < b
	}
}

// SelectMedoids selects from runs, which stand in the order of their scores: of those that are linked by cosines of at
// least SameAt, the one whose cosines with its group sum up highest stays; of equal ones the better, then the shorter.
// It gives places in the order of the runs.
func SelectMedoids(scores []float64, lengths []int, cosine func(a, b int) float64) []int {
	groups := newForest(len(scores))
	for i := range scores {
		for j := range i {
			if cosine(j, i) >= SameAt {
				groups.joinTrees(j, i)
			}
		}
	}
	stays := map[int]int{}
	sums := make([]float64, len(scores))
	for i := range scores {
		for j := range scores {
			if i != j && groups.findRoot(i) == groups.findRoot(j) {
				sums[i] += cosine(min(i, j), max(i, j))
			}
		}
	}
	for i := range scores {
		root := groups.findRoot(i)
		kept, any := stays[root]
		if !any || sums[i] > sums[kept] || (sums[i] == sums[kept] && (scores[i] > scores[kept] ||
			(scores[i] == scores[kept] && lengths[i] < lengths[kept]))) {
			stays[root] = i
		}
	}
	var out []int
	for i := range scores {
		if stays[groups.findRoot(i)] == i {
			out = append(out, i)
		}
	}
	return out
}

// forest is union-find: the root of a group is its least member.
type forest []int

func newForest(n int) forest {
	f := make(forest, n)
	for i := range f {
		f[i] = i
	}
	return f
}

func (f forest) findRoot(i int) int {
	for f[i] != i {
		f[i] = f[f[i]]
		i = f[i]
	}
	return i
}

func (f forest) joinTrees(a, b int) {
	a, b = f.findRoot(a), f.findRoot(b)
	f[max(a, b)] = min(a, b)
}
