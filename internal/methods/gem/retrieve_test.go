package gem_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func nodesOf(matches []gem.Match) []int {
	var out []int
	for _, m := range matches {
		out = append(out, m.Node)
	}
	return out
}

func TestANodeIsAsNearAsItsBestQuestion(t *testing.T) {
	matches := []gem.Match{
		{Node: 3, Question: 0, Score: .5}, {Node: 1, Question: 2, Score: .9}, {Node: 1, Question: 0, Score: .1},
		{Node: 2, Question: 1, Score: .5}, {Node: 2, Question: 0, Score: .5}, {Node: 0, Question: 0, Score: .5},
		{Node: 1, Question: 2, Score: .9}, // once more
	}
	summaries := gem.MembersOf{0: {1, 3}}
	got := gem.Rank(matches, gem.Best, summaries)
	want := []gem.Match{{1, 2, .9}, {2, 0, .5}, {3, 0, .5}, {0, 0, .5}}
	assert.Equal(t, want, got)
	got = gem.Rank(matches, gem.BestTwo, summaries)
	want = []gem.Match{{1, 2, .5}, {2, 0, .5}, {3, 0, .5}, {0, 0, .5}}
	assert.Equal(t, want, got, "by two")
}

func TestNodesAreTakenWithinTheBudget(t *testing.T) {
	cost := []int{100, 300, 50, 100, 100, 60}
	ranked := []gem.Match{{Node: 0}, {Node: 1}, {Node: 2}, {Node: 3}, {Node: 4}, {Node: 5}}
	for _, c := range []struct {
		name      string
		budget    gem.Budget
		summaries gem.MembersOf
		want      []int
	}{
		{"what does not fit is passed over", gem.Budget{Tokens: 310}, nil, []int{0, 2, 3, 5}},
		{"nothing fits", gem.Budget{Tokens: 49}, nil, nil},
		{"as many nodes as allowed", gem.Budget{Tokens: 1000, Nodes: 2}, nil, []int{0, 1}},
		{"a summary of what is taken makes room", gem.Budget{Tokens: 310}, gem.MembersOf{0: {2, 3}}, []int{2, 3, 4, 5}},
		{"a summary of what is not all taken stays", gem.Budget{Tokens: 310}, gem.MembersOf{0: {1, 3}}, []int{0, 2, 3, 5}},
		{"a node less for a summary", gem.Budget{Tokens: 1000, Nodes: 3}, gem.MembersOf{0: {1, 2}}, []int{1, 2, 3}},
	} {
		c.budget.Cost = func(node int) int { return cost[node] }
		assert.Equal(t, c.want, nodesOf(gem.Fill(ranked, c.budget, c.summaries)), "%s", c.name)
	}
}

func TestASearchGoesAlongEdges(t *testing.T) {
	g := musttest.Get(gem.NewSparse(6, []gem.Edge{{0, 1, .5}, {1, 2, 1}, {0, 4, .1}}))(t)
	ranked := []gem.Match{{Node: 0, Score: .9}, {Node: 3, Score: .8}, {Node: 4, Score: .3}, {Node: 1, Score: .2}}
	for alpha, want := range map[float64][]int{
		1:   {0, 4, 1, 2, 3}, // 2 is not ranked: 0
		0:   {0, 1, 2, 4, 3},
		0.7: {0, 1, 2, 4, 3}, // 1: .14 + .15, 4: .21 + .03
	} {
		assert.Equal(t, want, nodesOf(matchesOf(along(ranked, g, alpha, gem.MembersOf{}).OrderNodes(ranked, 9))), "%g", alpha)
	}
	assert.Equal(t, []int{0, 4}, nodesOf(matchesOf(along(ranked, g, 1, gem.MembersOf{}).OrderNodes(ranked, 2))), "two nodes")
	steps := along(ranked, g, 0.7, gem.MembersOf{}).OrderNodes(ranked, 9)
	near(t, "priorities", []float64{steps[0].Priority, steps[1].Priority, steps[2].Priority, steps[4].Priority},
		[]float64{.9, .29, .3, .8}, 1e-12)
	assert.True(t, steps[0].From == -1 && steps[1].From == 0 && steps[1].Weight == .5 && steps[2].From == 1 &&
		steps[4].From == -1, "%+v", steps)
	closed := along(ranked, g, 0.7, gem.MembersOf{})
	all := closed.Match
	closed.Match = func(node int) (gem.Match, bool) { m, ok := all(node); return m, ok && node != 1 }
	assert.Equal(t, []int{0, 4, 3}, nodesOf(matchesOf(closed.OrderNodes(ranked[:3], 9))), "around a node that is left out")
}

// along returns a search in which a node that is not ranked scores 0.
func along(ranked []gem.Match, graph gem.Neighbourhood, alpha float64, summaries gem.Summaries) gem.Search {
	return gem.Search{
		Graph: graph, Heaviest: 1, Alpha: alpha, Summaries: summaries,
		Match: func(node int) (gem.Match, bool) {
			at := slices.IndexFunc(ranked, func(m gem.Match) bool { return m.Node == node })
			if at < 0 {
				return gem.Match{Node: node, Question: -1}, true
			}
			return ranked[at], true
		},
	}
}

func matchesOf(steps []gem.Step) []gem.Match {
	var out []gem.Match
	for _, step := range steps {
		out = append(out, step.Match)
	}
	return out
}

// The search is compared with one that looks at every pair of nodes at every step.
// Promises: 92.
func TestASearchAlongEdgesIsThatOfAllPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 11))
	for round := range 40 {
		n := 5 + r.IntN(40)
		w := make([]float64, n*n)
		var edges []gem.Edge
		heaviest := 0.0
		for i := range n {
			for j := range i {
				if r.Float64() < 3/float64(n) {
					weight := math.Round(1+9*r.Float64()) / 10
					w[i*n+j], w[j*n+i] = weight, weight
					edges = append(edges, gem.Edge{A: i, B: j, Weight: weight})
					heaviest = max(heaviest, weight)
				}
			}
		}
		g := musttest.Get(gem.NewSparse(n, edges))(t)
		score, closed := make([]float64, n), make([]bool, n)
		summaries := gem.MembersOf{}
		var flat []gem.Match
		for i := range n {
			score[i], closed[i] = math.Round(10*r.Float64())/10, r.Float64() < 0.1 // many are equal
			if r.Float64() < 0.1 {
				summaries[i] = []int{(i + 1) % n}
			}
			if !closed[i] {
				flat = append(flat, gem.Match{Node: i, Score: score[i]})
			}
		}
		flat = gem.Rank(flat, gem.Best, summaries)
		alpha, most := float64(round%5)/4, 1+r.IntN(n)
		search := gem.Search{
			Graph: g, Heaviest: heaviest, Alpha: alpha, Summaries: summaries,
			Match: func(node int) (gem.Match, bool) { return gem.Match{Node: node, Score: score[node]}, !closed[node] },
		}
		got := nodesOf(matchesOf(search.OrderNodes(flat[:min(most, len(flat))], most)))

		var want []int
		for len(want) < min(most, len(flat)) {
			best, priority := -1, 0.0
			for _, m := range flat { // in the order in which equal ones are taken
				u, weight := m.Node, 0.0
				for _, c := range want {
					weight = max(weight, w[c*n+u])
				}
				if slices.Contains(want, u) || weight == 0 {
					continue
				}
				value := float64(alpha*score[u]) + float64((1-alpha)*weight/heaviest)
				if best < 0 || value > priority {
					best, priority = u, value
				}
			}
			for _, m := range flat {
				if best < 0 && !slices.Contains(want, m.Node) {
					best = m.Node
				}
			}
			want = append(want, best)
		}
		require.True(t, slices.Equal(got, want), "round %d, alpha %g: %v, over all pairs %v", round, alpha, got, want)
	}
}

func TestVectorsOfQuestionsAreOfUnitLength(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	for range 200 {
		q, b := make([]float32, 7), make([]float32, 7)
		for k := range q {
			q[k], b[k] = float32(r.NormFloat64()*30), float32(r.NormFloat64()/30)
		}
		v := gem.AverageQuestion(q, b)
		sum, toQuestion, toText := 0.0, 0.0, 0.0
		unitQ, unitB := gem.ToUnit(q), gem.ToUnit(b)
		for k, x := range v {
			sum += float64(x) * float64(x)
			toQuestion += float64(x) * float64(unitQ[k])
			toText += float64(x) * float64(unitB[k])
		}
		near(t, "length, and as near to the one as to the other", []float64{sum, toQuestion}, []float64{1, toText}, 1e-6)
	}
	assert.Equal(t, []float32{0, 0}, gem.AverageQuestion([]float32{0, 0}, []float32{0, 0}), "of nothing")
}
