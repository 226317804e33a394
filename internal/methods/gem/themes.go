package gem

import (
	"cmp"
	"slices"
)

// SelectTop returns the nodes of the count largest components above 0, the largest first. Components that are equal to
// 1e-9 are in order of nodes.
func SelectTop(vector []float64, count int) []int {
	nodes := make([]int, 0, len(vector))
	for i, x := range vector {
		if x > same {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(vector[b], vector[a]) })
	for from := 0; from < len(nodes) && from < count; {
		to := from + 1
		for to < len(nodes) && vector[nodes[to-1]]-vector[nodes[to]] <= same {
			to++
		}
		slices.Sort(nodes[from:to])
		from = to
	}
	return nodes[:min(count, len(nodes))]
}

// Theme is a group of nodes that an eigenvector puts together: those of its largest components.
type Theme struct {
	Pair     int       // of the spectrum
	Lambda   float64   // the eigenvalue
	Beta     float64   // the eigenvalue as a share of the first
	Members  []int     // nodes, those of the largest components first
	Loadings []float64 // their components
}

const (
	mostMembers = 5   // of a theme
	mostOverlap = 0.6 // with an earlier theme, above which one is left out for the next (Jaccard)
)

// SelectThemes takes at most count themes from the pairs of a spectrum, in their order, the overview included. There
// are fewer where there are fewer pairs, or the rest say what others said.
func SelectThemes(s Spectrum, count int) []Theme {
	var out []Theme
	for i, p := range s.Pairs {
		t := Theme{Pair: i, Lambda: p.Lambda, Beta: computeBeta(s, i), Members: SelectTop(p.Vector, mostMembers)}
		if len(out) == count || len(t.Members) == 0 || slices.ContainsFunc(out, func(o Theme) bool {
			return computeOverlap(o.Members, t.Members) > mostOverlap
		}) {
			continue
		}
		for _, node := range t.Members {
			t.Loadings = append(t.Loadings, p.Vector[node])
		}
		out = append(out, t)
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
