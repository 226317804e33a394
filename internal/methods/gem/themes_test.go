package gem_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func spectrum(t *testing.T, g gem.Graph, o gem.Options) gem.Spectrum {
	s, err := gem.Compute(context.Background(), g, o)
	require.True(t, err == nil && s.Missing <= 0, "%v %v", err, s.Missing)
	return s
}

func members(themes []gem.Theme) (out [][]int) {
	for _, t := range themes {
		out = append(out, t.Members)
	}
	return out
}

func TestThemesOfTheWorkedExample(t *testing.T) {
	s := spectrum(t, g1(t), gem.Options{Pairs: 4})
	assert.Equal(t, [][]int{{2, 1, 3, 0}, {0, 1}}, members(gem.SelectThemes(s, 2))) // 1 and 3 are equal in the overview
	themes := gem.SelectThemes(s, 9)
	assert.Equal(t, [][]int{{2, 1, 3, 0}, {0, 1}, {1, 3}, {3, 0}}, members(themes))
	near(t, "loadings", themes[1].Loadings, []float64{.5301858, .4915273}, 1e-7)
	near(t, "beta", []float64{themes[1].Beta}, []float64{.36617923}, 1e-7)
	assert.Equal(t, 2, gem.CountThemes(s.Values(), 0.05))
	s.Pairs = append(s.Pairs[:1:1], s.Pairs...)
	assert.Equal(t, [][]int{{2, 1, 3, 0}, {0, 1}}, members(gem.SelectThemes(s, 2)), "one that says the same goes")
}

func TestThemesAreCounted(t *testing.T) {
	for _, c := range []struct {
		values                          []float64
		nodes, fixed, estimate, decided int
	}{
		{[]float64{1, 0.97, 0.95, 0.4, 0.39}, 100, 5, 3, 3}, {[]float64{1, 0.97, 0.95, 0.4, 0.39}, 8, 5, 3, 2},
		{[]float64{1, 0.2, 0.19, 0.18}, 100, 2, 0, 2}, {[]float64{1, 0.2, 0.19, 0.18}, 100, 40, 0, 12},
		{[]float64{1}, 1, 2, 0, 1}, {nil, 0, 2, 0, 1}, {[]float64{0, 0, -1}, 10, 2, 0, 2},
	} {
		assert.Equal(t, c.estimate, gem.CountThemes(c.values, 0.05), "%v", c.values)
		assert.Equal(t, c.decided, gem.AutoThemes(c.values, c.nodes, c.fixed, 12), "%v of %d nodes", c.values, c.nodes)
	}
}

func TestNearestNodesOfFewAreThoseOfTheMatrix(t *testing.T) {
	nodes := random(200, 8, 3, 3, 4)
	g := musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 5}))(t)
	stored := musttest.Get(nodes.Matrix())(t)
	w, expected := stored.Weights(), map[[2]int]bool{}
	for i := range 200 {
		row, order := w[i*200:(i+1)*200], make([]int, 200)
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if row[a] > row[b] {
				return -1
			}
			return 1
		})
		for _, j := range order[:5] {
			expected[[2]int{i, j}], expected[[2]int{j, i}] = true, true
		}
	}
	count := 0
	for i := range 200 {
		to, weights := g.Neighbours(i)
		count += len(to)
		for at, j := range to {
			require.True(t, expected[[2]int{i, int(j)}] && math.Abs(weights[at]-w[i*200+int(j)]) <= 1e-12,
				"edge %d to %d of %g, weight %g", i, j, weights[at], w[i*200+int(j)])
		}
	}
	assert.Positive(t, gem.Distinctness(g))
	assert.True(t, count == len(expected) && g.Edges()*2 == count, "%d edges, should be %d", count, len(expected))
}

func TestTreesFindNearlyAllNearestNodes(t *testing.T) {
	nodes := random(1500, 24, 2, 10, 5)
	exact := musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 10, Exact: 1500}))(t)
	run := func(processors int) *gem.Sparse {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		return musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 10, Exact: 1000, Leaf: 48}))(t)
	}
	found := run(1)
	assert.Equal(t, run(5), found, "the graph depends on the number of processors")
	common, all := 0, 0
	for i := range 1500 {
		want, _ := exact.Neighbours(i)
		got, _ := found.Neighbours(i)
		for _, j := range want {
			all++
			if slices.Contains(got, j) {
				common++
			}
		}
	}
	share := float64(common) / float64(all)
	assert.True(t, share >= 0.97, "%.3f of the edges are found", share) // 0.99 when this was written
}

func TestANodeNearToNoneIsLinkedAndOneWithoutDirectionIsIsolated(t *testing.T) {
	var nodes gem.Nodes
	for _, v := range [][]float32{{1, 0}, {1, 0.1}, {-1, 0}, {0, 0}} {
		nodes.Base.Append(gem.ToUnit(v))
		nodes.Mean.Append(gem.Mean(gem.ToUnit(v), nil))
	}
	g := musttest.Get(nodes.NewNearest(gem.Nearest{}))(t)
	to, _ := g.Neighbours(2)
	assert.True(t, slices.Equal(to, []int32{1}), "the opposite is linked to %v", to) // by both others' least distance
	s := spectrum(t, g, gem.Options{Pairs: 4})
	assert.Len(t, s.Pairs, 3, "one without a direction has pairs of its own")
}

// Groups of texts that have nothing in common are parts: each has the eigenvalue 1, with a vector on its own nodes.
func TestEveryPartOfAGraphHasAnOverviewOfItsOwn(t *testing.T) {
	var nodes gem.Nodes
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 400 { // of 200, 120 and 80
		v, group := make([]float32, 12), 0
		if i%10 >= 5 {
			group = 1
		}
		if i%10 >= 8 {
			group = 2
		}
		for k := range 4 {
			v[4*group+k] = float32(1 + r.Float64())
		}
		nodes.Base.Append(gem.ToUnit(v))
		nodes.Mean.Append(gem.Mean(gem.ToUnit(v), nil))
	}
	g := musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 40}))(t)
	for _, direct := range []int{256, -1} {
		s := spectrum(t, g, gem.Options{Pairs: 5, Direct: direct})
		near(t, "first values", s.Values()[:3], []float64{1, 1, 1}, 1e-9)
		for k, p := range s.Pairs[:3] {
			assert.True(t, p.Overview && p.Part == k, "pair %d is of part %d", k, p.Part)
			for node, x := range p.Vector {
				of := [10]int{0, 0, 0, 0, 0, 1, 1, 1, 2, 2}[node%10]
				require.True(t, (x != 0) == (of == k), "component %d of pair %d is %g", node, k, x)
			}
		}
		assert.True(t, len(s.Pairs) == 5 && s.Values()[3] <= 0.9 && gem.CountThemes(s.Values(), 0.05) == 3, "%v", s.Values())
	}
}

func TestThemesOfClustersAreClusters(t *testing.T) {
	const clusters = 4
	nodes := random(1000, 32, 2, clusters, 6)
	s := spectrum(t, musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 40}))(t), gem.Options{Pairs: 8})
	themes := gem.SelectThemes(s, clusters+1)
	for _, theme := range themes {
		if s.Pairs[theme.Pair].Overview {
			continue
		}
		for _, node := range theme.Members {
			if node%clusters != theme.Members[0]%clusters {
				t.Errorf("theme of pair %d mixes clusters: %v", theme.Pair, theme.Members)
				break
			}
		}
	}
	assert.Equal(t, clusters, gem.CountThemes(s.Values(), 0.05), "%v", s.Values())
}

func TestInputThatIsNoGraphIsRefused(t *testing.T) {
	rows := func(values ...float32) gem.Rows { return gem.Rows{Dim: 2, Data: values} }
	nan := float32(math.NaN())
	for _, nodes := range []gem.Nodes{
		{Mean: rows(1, 0), Base: rows(1, 0, 0, 1)}, {Mean: rows(1, 0), Base: gem.Rows{Dim: 1, Data: []float32{1, 0}}},
		{Mean: rows(1, 0, 1), Base: rows(1, 0, 1)}, {Mean: rows(1, 0), Base: rows(1, nan)},
		{Mean: rows(1, float32(math.Inf(1))), Base: rows(1, 0)},
	} {
		assert.Error(t, musttest.Err(nodes.NewNearest(gem.Nearest{})), "%v is accepted", nodes)
		assert.Error(t, musttest.Err(nodes.Matrix()), "%v is accepted", nodes)
	}
	for _, e := range []gem.Edge{{0, 0, 1}, {0, 2, 1}, {0, 1, 0}, {-1, 1, 1}} {
		assert.Error(t, musttest.Err(gem.NewSparse(2, []gem.Edge{e})), "%v is accepted", e)
	}
	assert.Error(t, musttest.Err(gem.NewMatrix(2, []float64{1})), "a matrix that is not square is accepted")
}

func TestNearestNodesOfAMatrixAreThoseOfNodes(t *testing.T) {
	nodes := random(120, 8, 3, 3, 4)
	all := musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 6}))(t)
	stored := musttest.Get(nodes.Matrix())(t)
	ofMatrix := musttest.Get(stored.NearestGraph(6))(t)
	for i := range 120 { // sums of the matrix are taken in another order
		to, weights := ofMatrix.Neighbours(i)
		wantTo, want := all.Neighbours(i)
		require.True(t, slices.Equal(to, wantTo), "node %d: %v, should be %v", i, to, wantTo)
		near(t, "weights", weights, want, 1e-12)
	}
	for _, most := range []int{3, 500} {
		to, weights := nodes.NearestTo(nodes.Mean.Row(7), nodes.Base.Row(7), most)
		for at, j := range to {
			if j == 7 {
				continue
			}
			forth, back := 0.0, 0.0
			for k := range 8 {
				forth += float64(nodes.Mean.Row(7)[k]) * float64(nodes.Base.Row(int(j))[k])
				back += float64(nodes.Base.Row(7)[k]) * float64(nodes.Mean.Row(int(j))[k])
			}
			near(t, "weight", weights[at:at+1], []float64{(forth + back) / 2}, 1e-12)
		}
		assert.True(t, most != 3 || len(to) == 3 && slices.Contains(to, 7), "%v", to)
		assert.True(t, most != 500 || !slices.ContainsFunc(weights, func(w float64) bool { return w <= 0 }),
			"what is not near is among the nearest")
	}
}

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
func along(ranked []gem.Match, graph gem.Neighbourhood, alpha float64, summaries gem.MembersOf) gem.Search {
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

type reference struct {
	ID       string               `json:"id"`
	N        int                  `json:"n"`
	E        int                  `json:"e"`
	S        [][]float64          `json:"S"`
	Variants map[string]*expected `json:"variants"`
}

type expected struct {
	Degrees []float64 `json:"degrees"`
	Values  []float64 `json:"eigenvalues"`
	Vectors []struct {
		Index      int       `json:"index"`
		Comparable bool      `json:"comparable"`
		RankUnique bool      `json:"rank_unique"`
		Vector     []float64 `json:"vector"`
		Top        []int     `json:"top_e"`
		TopUnique  bool      `json:"top_e_set_unique"`
	} `json:"eigenvectors"`
}

func references(t *testing.T) []reference {
	data := musttest.Get(os.ReadFile("testdata/spectral.json"))(t)
	var out []reference
	err := json.Unmarshal(data, &out)
	require.True(t, err == nil && len(out) == 59, "%v %v", len(out), err)
	return out
}

// graph returns S of the reference less its diagonal of ones, with the degrees of a variant.
func (r reference) graph(t *testing.T, variant string) gem.Graph {
	w, degrees := make([]float64, r.N*r.N), make([]float64, r.N)
	for i := range r.N {
		for j := range r.N {
			y := (r.S[i][j] + r.S[j][i]) / 2
			w[i*r.N+j] = y
			if i == j {
				w[i*r.N+j]--
			}
			if variant == "degree_of_S" {
				degrees[i] += y
			} else {
				degrees[i] += w[i*r.N+j]
			}
		}
	}
	for i, d := range degrees {
		require.InDelta(t, r.Variants[variant].Degrees[i], d, 1e-9, "%d", i)
	}
	return gem.NewFixed(r.N, w, degrees)
}

func TestSpectraOfTheReference(t *testing.T) {
	for _, r := range references(t) {
		for variant, want := range r.Variants {
			for name, direct := range map[string]int{"direct": 256, "lanczos": -1} {
				t.Run(r.ID+"/"+variant+"/"+name, func(t *testing.T) {
					options := gem.Options{Pairs: r.N, Tolerance: 1e-10, Direct: direct}
					want.compare(t, spectrum(t, r.graph(t, variant), options), r.E)
				})
			}
		}
	}
}

func (want *expected) compare(t *testing.T, got gem.Spectrum, e int) {
	require.Len(t, got.Pairs, len(want.Values))
	sortByMagnitude(got.Pairs)
	sum := 0.0
	for i, p := range got.Pairs {
		assert.InDelta(t, want.Values[i], p.Lambda, 1e-9, "%d", i)
		assert.False(t, p.Residual > 1e-10, "residual %d: %g", i, p.Residual)
		sum += p.Lambda * p.Lambda
	}
	for _, v := range want.Vectors {
		if !v.Comparable || !v.RankUnique {
			continue
		}
		vector := got.Pairs[v.Index].Vector
		same, turned := 0.0, 0.0 // up to sign where two components are largest
		for i, x := range v.Vector {
			same, turned = max(same, math.Abs(vector[i]-x)), max(turned, math.Abs(vector[i]+x))
		}
		assert.True(t, min(same, turned) <= 1e-7, "eigenvector %d is off by %g", v.Index, min(same, turned))
		for i, x := range vector {
			vector[i] = math.Abs(x)
		}
		top := gem.SelectTop(vector, e)
		slices.Sort(top)
		expected := slices.Sorted(slices.Values(v.Top)) // which fills up with components of 0
		expected = slices.DeleteFunc(expected, func(node int) bool { return math.Abs(v.Vector[node]) <= 1e-9 })
		assert.True(t, !v.TopUnique || slices.Equal(top, expected), "%d, %d, %v, %v", e, v.Index, top, expected)
	}
}

// sortByMagnitude puts pairs in the order of the reference: the largest absolute values first, of equal ones the
// positive one.
func sortByMagnitude(pairs []gem.Pair) {
	slices.SortStableFunc(pairs, func(a, b gem.Pair) int {
		if x, y := math.Abs(a.Lambda), math.Abs(b.Lambda); math.Abs(x-y) > 1e-9 {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(b.Lambda, a.Lambda)
	})
}

func g1(t *testing.T) *gem.Matrix {
	m, err := gem.NewMatrix(4, []float64{1.0, 0.8, 0.2, 0.1, 0.6, 1.0, 0.3, 0.1, 0.2, 0.1, 1.0, 0.7, 0.1, 0.3, 0.9, 1.0})
	require.NoError(t, err)
	return m
}

func near(t *testing.T, what string, got, want []float64, within float64) {
	require.Len(t, got, len(want), "%s: %v, should be %v", what, got, want)
	for i := range got {
		require.True(t, math.Abs(got[i]-want[i]) <= within, "%s: %v, should be %v", what, got, want)
	}
}

func TestTheWorkedExample(t *testing.T) {
	g := g1(t)
	near(t, "W", g.Weights(), []float64{0, .7, .2, .1, .7, 0, .2, .2, .2, .2, 0, .8, .1, .2, .8, 0}, 1e-15)
	near(t, "degrees", g.Degrees(), []float64{1, 1.1, 1.2, 1.1}, 1e-12)
	for _, direct := range []int{0, -1} {
		s := spectrum(t, g, gem.Options{Pairs: 4, Direct: direct})
		near(t, "all", s.Values(), []float64{1, 0.36617923, -0.63376295, -0.73241628}, 1e-8)
		near(t, "Lambda", []float64{gem.Distinctness(g)}, []float64{2.0721763}, 1e-7)
		s = spectrum(t, g, gem.Options{Pairs: 2, Direct: direct})
		near(t, "algebraic", s.Values(), []float64{1, 0.36617923}, 1e-8)
		near(t, "overview", s.Pairs[0].Vector, []float64{.4767313, .5, .522233, .5}, 1e-7)
		near(t, "theme", s.Pairs[1].Vector, []float64{.5301858, .4915273, -.4681387, -.5080848}, 1e-7)
		assert.True(t, s.Pairs[0].Overview && !s.Pairs[1].Overview, "the first alone is the overview")
	}
	s := spectrum(t, gem.NewFixed(4, g.Weights(), []float64{2, 2.1, 2.2, 2.1}), gem.Options{Pairs: 4})
	near(t, "degrees of S", s.Values(), []float64{.524339, .190895, -.329000, -.386234}, 1e-6)
}

func random(n, dim, questions, clusters int, seed uint64) gem.Nodes {
	r := rand.New(rand.NewPCG(seed, 1))
	direction := func(around []float32, spread float64) []float32 {
		out := make([]float32, dim)
		for k := range out {
			out[k] = float32(r.NormFloat64() * spread)
			if around != nil {
				out[k] += around[k]
			}
		}
		return gem.ToUnit(out)
	}
	centres := make([][]float32, clusters)
	for c := range centres {
		centres[c] = direction(nil, 1)
	}
	var nodes gem.Nodes
	for i := range n {
		spread := 0.5 / math.Sqrt(float64(dim))
		var around []float32
		if clusters > 0 {
			around = centres[i%clusters]
		}
		text := direction(around, spread)
		var averaged [][]float32
		for range questions {
			averaged = append(averaged, gem.AverageQuestion(direction(text, spread), text))
		}
		nodes.Base.Append(text)
		nodes.Mean.Append(gem.Mean(text, averaged))
	}
	return nodes
}

func matrix(t *testing.T, nodes gem.Nodes) *gem.Matrix { return musttest.Get(nodes.Matrix())(t) }

func TestLanczosFindsWhatTheDirectSolverFinds(t *testing.T) {
	for _, clusters := range []int{1, 4, 9} {
		graph := matrix(t, random(260, 12, 2, clusters, uint64(clusters)))
		want := spectrum(t, graph, gem.Options{Pairs: 10, Direct: 1000})
		got := spectrum(t, graph, gem.Options{Pairs: 10, Direct: -1})
		near(t, "values", got.Values(), want.Values(), 1e-6)
		for i, p := range got.Pairs {
			assert.LessOrEqual(t, p.Residual, 1e-6, "residual %d", i)
		}
	}
}

// Two copies of one graph have every eigenvalue twice, of which a basis that grows from one vector has one.
func TestAnEigenvalueIsFoundAsOftenAsItIsThere(t *testing.T) {
	const size = 150
	stored := matrix(t, random(size, 60, 1, 1, 11))
	once, s := stored.Weights(), make([]float64, 4*size*size)
	for i := range size {
		for j := range size {
			s[2*size*i+j], s[2*size*(size+i)+size+j] = once[i*size+j], once[i*size+j]
		}
	}
	g := musttest.Get(gem.NewMatrix(2*size, s))(t)
	v := spectrum(t, stored, gem.Options{Pairs: 4}).Values()
	got := spectrum(t, g, gem.Options{Pairs: 4, Direct: -1})
	near(t, "values", got.Values(), []float64{v[0], v[0], v[1], v[1]}, 1e-7)
}

func TestNodesInAnotherOrderHaveTheSameComponents(t *testing.T) {
	nodes, order := random(300, 12, 3, 4, 9), rand.New(rand.NewPCG(2, 3)).Perm(300)
	var moved gem.Nodes
	for _, from := range order {
		moved.Base.Append(nodes.Base.Row(from))
		moved.Mean.Append(nodes.Mean.Row(from))
	}
	options := gem.Options{Pairs: 4, Tolerance: 1e-10, Direct: -1}
	a, b := spectrum(t, matrix(t, nodes), options), spectrum(t, matrix(t, moved), options)
	near(t, "values", a.Values(), b.Values(), 1e-10)
	for k := range a.Pairs {
		for to, from := range order {
			require.InDelta(t, b.Pairs[k].Vector[to], a.Pairs[k].Vector[from], 1e-7, "%d %d", from, k)
		}
	}
}

func TestASpectrumHasTheSameBitsOnAnyNumberOfProcessors(t *testing.T) {
	nodes := random(1100, 16, 2, 4, 10)
	run := func(processors int) []gem.Pair {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		g := musttest.Get(nodes.NewNearest(gem.Nearest{Neighbours: 40}))(t)
		return spectrum(t, g, gem.Options{Pairs: 4}).Pairs
	}
	assert.Equal(t, run(7), run(1), "the bits differ")
}

// Promises: 93.
func TestWhatDoesNotConvergeIsLeftOutAndCounted(t *testing.T) {
	const n = 3000 // a path: its eigenvalues near 1 lie too close for one basis
	var edges []gem.Edge
	for i := range n - 1 {
		edges = append(edges, gem.Edge{A: i, B: i + 1, Weight: 1})
	}
	g := musttest.Get(gem.NewSparse(n, edges))(t)
	got := musttest.Get(gem.Compute(context.Background(), g, gem.Options{Pairs: 6, Products: 60, Tolerance: 1e-9}))(t)
	assert.True(t, got.Missing != 0 && got.Missing+len(got.Pairs) == 6, "%d, %d", len(got.Pairs), got.Missing)
	for _, p := range got.Pairs {
		assert.False(t, p.Residual > 1e-9, "a pair of residual %g is given", p.Residual)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := gem.Compute(ended, g, gem.Options{})
	assert.True(t, errors.Is(err, context.Canceled), "a computation that was cancelled gives: %v", err)
}

func TestFewNodesGiveFewPairs(t *testing.T) {
	for n := range 4 {
		for _, direct := range []int{-1, 256} {
			s := spectrum(t, matrix(t, random(n, 4, 2, 1, 1)), gem.Options{Pairs: 9, Direct: direct})
			assert.Len(t, s.Pairs, n, "direct %d", direct)
		}
	}
}

// A solver of small matrices that does not converge leaves what is known without it; the rest counts as missing.
// Promises: 93.
func TestASolverThatDoesNotConvergeLeavesPairsOutAndEnds(t *testing.T) {
	defer gem.Unsolved()()
	stored := matrix(t, random(40, 6, 3, 2, 3))
	for _, direct := range []int{-1, 256} {
		s, err := gem.Compute(context.Background(), stored, gem.Options{Pairs: 5, Direct: direct})
		assert.True(t, err == nil && len(s.Pairs) == 1 && s.Missing == 4 && s.Pairs[0].Overview,
			"direct %d: %d pairs, %d missing (%v)", direct, len(s.Pairs), s.Missing, err)
		assert.Len(t, gem.SelectThemes(s, 3), 1)
	}
}

func TestSimilaritiesThatAreNoNumbersAreRefused(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := gem.NewMatrix(2, []float64{1, x, 0.5, 1})
		assert.True(t, fault.Is(err, fault.InvalidParam) && strings.Contains(err.Error(), "nodes 0 and 1"), "%v: %v", x, err)
	}
}
