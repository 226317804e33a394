package gem_test

import (
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
	data, err := os.ReadFile("testdata/spectral.json")
	require.NoError(t, err)
	var out []reference
	err = json.Unmarshal(data, &out)
	require.True(t, err == nil && len(out) == 59, "%v %v", len(out), err)
	return out
}

// graph returns S of the reference less its diagonal of ones, with the degrees of a variant.
func (r reference) graph(t *testing.T, variant string) gem.Graph {
	w := make([]float64, r.N*r.N)
	degrees := make([]float64, r.N)
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
					options := gem.Options{Pairs: r.N, Order: gem.Magnitude, Tolerance: 1e-10, Direct: direct}
					want.compare(t, spectrum(t, r.graph(t, variant), options), r.E)
				})
			}
		}
	}
}

func (want *expected) compare(t *testing.T, got gem.Spectrum, e int) {
	require.Len(t, got.Pairs, len(want.Values))
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
		top := gem.SelectTop(vector, e, gem.Absolute)
		slices.Sort(top)
		expected := slices.Sorted(slices.Values(v.Top)) // which fills up with components of 0
		expected = slices.DeleteFunc(expected, func(node int) bool { return math.Abs(v.Vector[node]) <= 1e-9 })
		assert.True(t, !v.TopUnique || slices.Equal(top, expected), "%d, %d, %v, %v", e, v.Index, top, expected)
	}
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
		s := spectrum(t, g, gem.Options{Pairs: 4, Order: gem.Magnitude, Direct: direct})
		near(t, "by magnitude", s.Values(), []float64{1, -0.73241628, -0.63376295, 0.36617923}, 1e-8)
		near(t, "Lambda", []float64{gem.Distinctness(g)}, []float64{2.0721763}, 1e-7)
		s = spectrum(t, g, gem.Options{Pairs: 2, Direct: direct})
		near(t, "algebraic", s.Values(), []float64{1, 0.36617923}, 1e-8)
		near(t, "overview", s.Pairs[0].Vector, []float64{.4767313, .5, .522233, .5}, 1e-7)
		near(t, "theme", s.Pairs[1].Vector, []float64{.5301858, .4915273, -.4681387, -.5080848}, 1e-7)
		assert.True(t, s.Pairs[0].Overview && !s.Pairs[1].Overview, "the first alone is the overview")
	}
	bySimilarity := gem.NewFixed(4, g.Weights(), []float64{2, 2.1, 2.2, 2.1})
	s := spectrum(t, bySimilarity, gem.Options{Pairs: 4})
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

func matrix(t *testing.T, nodes gem.Nodes) *gem.Matrix {
	g := musttest.Get(nodes.Matrix())(t)
	return g
}

func TestLanczosFindsWhatTheDirectSolverFinds(t *testing.T) {
	for _, clusters := range []int{1, 4, 9} {
		graph := matrix(t, random(260, 12, 2, clusters, uint64(clusters)))
		for _, order := range []gem.Order{gem.Algebraic, gem.Magnitude} {
			options := gem.Options{Pairs: 10, Order: order, Direct: 1000}
			want := spectrum(t, graph, options)
			options.Direct = -1
			got := spectrum(t, graph, options)
			near(t, "values", got.Values(), want.Values(), 1e-6)
			for i, p := range got.Pairs {
				assert.LessOrEqual(t, p.Residual, 1e-6, "residual %d", i)
			}
		}
	}
}

// Two copies of one graph have every eigenvalue twice, of which a basis that grows from one vector has one.
func TestAnEigenvalueIsFoundAsOftenAsItIsThere(t *testing.T) {
	const size = 150
	stored := matrix(t, random(size, 60, 1, 1, 11))
	once := stored.Weights()
	s := make([]float64, 4*size*size)
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
	nodes := random(300, 12, 3, 4, 9)
	order := rand.New(rand.NewPCG(2, 3)).Perm(300)
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
	got, err := gem.Compute(context.Background(), g, gem.Options{Pairs: 6, Products: 60, Tolerance: 1e-9})
	require.NoError(t, err)
	assert.True(t, got.Missing != 0 && got.Missing+len(got.Pairs) == 6, "%d, %d", len(got.Pairs), got.Missing)
	for _, p := range got.Pairs {
		assert.False(t, p.Residual > 1e-9, "a pair of residual %g is given", p.Residual)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = gem.Compute(ended, g, gem.Options{})
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
		assert.Len(t, gem.SelectThemes(s, gem.Choice{Count: 3}), 1)
	}
}

func TestSimilaritiesThatAreNoNumbersAreRefused(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := gem.NewMatrix(2, []float64{1, x, 0.5, 1})
		assert.True(t, fault.Is(err, fault.InvalidParam) && strings.Contains(err.Error(), "nodes 0 and 1"), "%v: %v", x, err)
	}
}
