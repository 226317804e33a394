package gem

import (
	"cmp"
	"math"
	"slices"
)

// Side says which components of an eigenvector belong to its theme.
type Side int

// The sides: each eigenvector but the overview separates two groups. Positive takes the group of its largest
// component, Both takes each group as a theme where the second has enough of the vector's mass, Absolute mixes them.
const (
	Positive Side = iota
	Both
	Absolute
)

// SelectTop returns the nodes of the count largest components. Components that are equal to 1e-9 are in order of nodes.
// Positive and Both leave out components at or below 0, Absolute those of 0.
func SelectTop(vector []float64, count int, side Side) []int {
	key := func(node int) float64 { return vector[node] }
	if side == Absolute {
		key = func(node int) float64 { return math.Abs(vector[node]) }
	}
	nodes := make([]int, 0, len(vector))
	for i := range vector {
		if key(i) > same {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(key(b), key(a)) })
	for from := 0; from < len(nodes) && from < count; {
		to := from + 1
		for to < len(nodes) && key(nodes[to-1])-key(nodes[to]) <= same {
			to++
		}
		slices.Sort(nodes[from:to])
		from = to
	}
	return nodes[:min(count, len(nodes))]
}

// Theme is a group of nodes that an eigenvector puts together.
type Theme struct {
	Pair     int       // of the spectrum
	Opposite bool      // the group of the negative components
	Lambda   float64   // the eigenvalue
	Beta     float64   // the eigenvalue as a share of the first
	Members  []int     // nodes, those of the largest components first
	Loadings []float64 // their components
}

// Choice says which themes Themes gives. The zero value of a field is what is said of it.
type Choice struct {
	Count   int     // themes, the overview included; 0: 2
	Members int     // of each; 0: 5
	Side    Side    //
	Least   float64 // the share of mass, the sum of squares, from which Both takes the other group; 0: 0.3
	Overlap float64 // with an earlier theme, above which one is left out for the next (Jaccard); 0: 0.6
}

// SelectThemes takes themes from the pairs of a spectrum, in their order. There are fewer than asked for where there
// are fewer pairs, or the rest say what others said.
func SelectThemes(s Spectrum, c Choice) []Theme {
	count, members := cmp.Or(c.Count, 2), cmp.Or(c.Members, 5)
	var out []Theme
	take := func(t Theme) {
		if len(out) < count && len(t.Members) > 0 && !slices.ContainsFunc(out, func(o Theme) bool {
			return computeOverlap(o.Members, t.Members) > cmp.Or(c.Overlap, 0.6)
		}) {
			out = append(out, t)
		}
	}
	for i, p := range s.Pairs {
		t := Theme{Pair: i, Lambda: p.Lambda, Beta: computeBeta(s, i), Members: SelectTop(p.Vector, members, c.Side)}
		for _, node := range t.Members {
			t.Loadings = append(t.Loadings, p.Vector[node])
		}
		take(t)
		if c.Side == Both && !p.Overview {
			turned := make([]float64, len(p.Vector))
			mass := 0.0
			for node, x := range p.Vector {
				turned[node] = -x
				mass += min(x, 0) * min(x, 0)
			}
			if mass < cmp.Or(c.Least, 0.3) {
				continue
			}
			t.Opposite, t.Members, t.Loadings = true, SelectTop(turned, members, Positive), nil
			for _, node := range t.Members {
				t.Loadings = append(t.Loadings, p.Vector[node])
			}
			take(t)
		}
	}
	return out
}

// computeOverlap returns the Jaccard index of two sets of nodes.
func computeOverlap(a, b []int) float64 {
	common := 0
	for _, x := range a {
		if slices.Contains(b, x) {
			common++
		}
	}
	return float64(common) / float64(len(a)+len(b)-common)
}

func computeBeta(s Spectrum, i int) float64 {
	if s.Pairs[0].Lambda == 0 {
		return 0
	}
	return s.Pairs[i].Lambda / s.Pairs[0].Lambda
}

// CountThemes estimates the number of themes from eigenvalues in algebraic order: the first d from 2 on after whose
// share of the first eigenvalue there is a gap of more than least. It is 0 where there is no such gap.
func CountThemes(values []float64, least float64) int {
	if len(values) == 0 || !(values[0] > 0) {
		return 0
	}
	for d := 2; d < len(values); d++ {
		if (values[d-1]-values[d])/values[0] > least {
			return d
		}
	}
	return 0
}

// AutoThemes returns CountThemes with a gap of 0.05, or fixed where there is no gap: at least 1, at most most and a
// quarter of the nodes. The spectrum should have a pair more than most.
func AutoThemes(values []float64, nodes, fixed, most int) int {
	return max(1, min(cmp.Or(CountThemes(values, 0.05), fixed), most, nodes/4))
}
