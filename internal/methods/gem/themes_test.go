package gem_test

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/unweaver/unweaver/internal/methods/gem"
)

func spectrum(t *testing.T, g gem.Graph, o gem.Options) gem.Spectrum {
	t.Helper()
	s, err := gem.Compute(context.Background(), g, o)
	if err != nil || s.Missing > 0 {
		t.Fatal(err, s.Missing)
	}
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
	for _, c := range []struct {
		choice gem.Choice
		want   [][]int
	}{
		{gem.Choice{Count: 2, Members: 2}, [][]int{{2, 1}, {0, 1}}}, // 1 and 3 are equal in the overview
		{gem.Choice{Count: 3, Members: 2, Side: gem.Both}, [][]int{{2, 1}, {0, 1}, {3, 2}}},
		{gem.Choice{Count: 9, Members: 4}, [][]int{{2, 1, 3, 0}, {0, 1}, {1, 3}, {3, 0}}},
		{gem.Choice{Count: 9, Members: 4, Side: gem.Absolute}, [][]int{{2, 1, 3, 0}}},
	} {
		if got := members(gem.Themes(s, c.choice)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, should be %v", c.choice, got, c.want)
		}
	}
	themes := gem.Themes(s, gem.Choice{Count: 3, Members: 2, Side: gem.Both})
	near(t, "loadings", themes[2].Loadings, []float64{-.5080848, -.4681387}, 1e-7)
	near(t, "beta", []float64{themes[2].Beta}, []float64{.36617923}, 1e-7)
	if themes[1].Opposite || !themes[2].Opposite {
		t.Error("the third is the other side of the second")
	}
	if n := gem.CountThemes(s.Values(), 0.05); n != 2 {
		t.Errorf("%d themes are estimated", n)
	}
}

func TestThemesAreCounted(t *testing.T) {
	for _, c := range []struct {
		values            []float64
		nodes, fixed      int
		estimate, decided int
	}{
		{[]float64{1, 0.97, 0.95, 0.4, 0.39}, 100, 5, 3, 3},
		{[]float64{1, 0.97, 0.95, 0.4, 0.39}, 8, 5, 3, 2},
		{[]float64{1, 0.2, 0.19, 0.18}, 100, 2, 0, 2},
		{[]float64{1, 0.2, 0.19, 0.18}, 100, 40, 0, 12},
		{[]float64{1}, 1, 2, 0, 1},
		{nil, 0, 2, 0, 1},
		{[]float64{0, 0, -1}, 10, 2, 0, 2},
	} {
		if got := gem.CountThemes(c.values, 0.05); got != c.estimate {
			t.Errorf("%v: %d, should be %d", c.values, got, c.estimate)
		}
		if got := gem.AutoThemes(c.values, c.nodes, c.fixed, 12); got != c.decided {
			t.Errorf("%v of %d nodes: %d, should be %d", c.values, c.nodes, got, c.decided)
		}
	}
}

func TestNearestNodesOfFewAreThoseOfTheMatrix(t *testing.T) {
	nodes := random(200, 8, 3, 3, 4)
	g, err := nodes.NewNearest(gem.Nearest{Neighbours: 5})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := nodes.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	w := stored.Weights()
	expected := map[[2]int]bool{}
	for i := range 200 {
		row := w[i*200 : (i+1)*200]
		order := make([]int, 200)
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
			if !expected[[2]int{i, int(j)}] || math.Abs(weights[at]-w[i*200+int(j)]) > 1e-12 {
				t.Fatalf("edge %d to %d of %g, weight %g", i, j, weights[at], w[i*200+int(j)])
			}
		}
	}
	if count != len(expected) || g.Edges()*2 != count {
		t.Errorf("%d edges, should be %d", count, len(expected))
	}
}

func TestTreesFindNearlyAllNearestNodes(t *testing.T) {
	nodes := random(1500, 24, 2, 10, 5)
	exact, err := nodes.NewNearest(gem.Nearest{Neighbours: 10, Exact: 1500})
	if err != nil {
		t.Fatal(err)
	}
	run := func(processors int) *gem.Sparse {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		g, err := nodes.NewNearest(gem.Nearest{Neighbours: 10, Exact: 1000, Leaf: 48})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	found := run(1)
	if !reflect.DeepEqual(found, run(5)) {
		t.Error("the graph depends on the number of processors")
	}
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
	if share := float64(common) / float64(all); share < 0.97 { // 0.99 when this was written
		t.Errorf("%.3f of the edges are found", share)
	}
}

func TestANodeNearToNoneIsLinkedAndOneWithoutDirectionIsIsolated(t *testing.T) {
	var nodes gem.Nodes
	for _, v := range [][]float32{{1, 0}, {1, 0.1}, {-1, 0}, {0, 0}} {
		nodes.Base.Append(gem.Unit(v))
		nodes.Mean.Append(gem.Mean(gem.Unit(v), nil))
	}
	g, err := nodes.NewNearest(gem.Nearest{})
	if err != nil {
		t.Fatal(err)
	}
	if to, _ := g.Neighbours(2); !slices.Equal(to, []int32{1}) { // by both others' least distance
		t.Errorf("the opposite is linked to %v", to)
	}
	s := spectrum(t, g, gem.Options{Pairs: 4})
	if s.Isolated != 1 || s.Parts != 2 || s.Small != 1 || len(s.Pairs) != 3 {
		t.Errorf("%d isolated, %d parts, %d in small ones, %d pairs", s.Isolated, s.Parts, s.Small, len(s.Pairs))
	}
}

// Groups of texts that have nothing in common are parts: each has the eigenvalue 1, with a vector on its own nodes.
func TestEveryPartOfAGraphHasAnOverviewOfItsOwn(t *testing.T) {
	var nodes gem.Nodes
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 400 { // of 200, 120 and 80
		v := make([]float32, 12)
		group := 0
		if i%10 >= 5 {
			group = 1
		}
		if i%10 >= 8 {
			group = 2
		}
		for k := range 4 {
			v[4*group+k] = float32(1 + r.Float64())
		}
		nodes.Base.Append(gem.Unit(v))
		nodes.Mean.Append(gem.Mean(gem.Unit(v), nil))
	}
	g, err := nodes.NewNearest(gem.Nearest{Neighbours: 40})
	if err != nil {
		t.Fatal(err)
	}
	for _, direct := range []int{256, -1} {
		s := spectrum(t, g, gem.Options{Pairs: 5, Direct: direct})
		if s.Parts != 3 {
			t.Fatalf("%d parts", s.Parts)
		}
		near(t, "first values", s.Values()[:3], []float64{1, 1, 1}, 1e-9)
		for k, p := range s.Pairs[:3] {
			if !p.Overview || p.Part != k {
				t.Errorf("pair %d is of part %d", k, p.Part)
			}
			for node, x := range p.Vector {
				if of := [10]int{0, 0, 0, 0, 0, 1, 1, 1, 2, 2}[node%10]; (x != 0) != (of == k) {
					t.Fatalf("component %d of pair %d is %g", node, k, x)
				}
			}
		}
		if len(s.Pairs) != 5 || s.Values()[3] > 0.9 || gem.CountThemes(s.Values(), 0.05) != 3 {
			t.Errorf("values %v", s.Values())
		}
	}
}

func TestThemesOfClustersAreClusters(t *testing.T) {
	const clusters = 4
	nodes := random(1000, 32, 2, clusters, 6)
	g, err := nodes.NewNearest(gem.Nearest{Neighbours: 40})
	if err != nil {
		t.Fatal(err)
	}
	s := spectrum(t, g, gem.Options{Pairs: 8})
	themes := gem.Themes(s, gem.Choice{Count: clusters + 1, Members: 8, Side: gem.Both})
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
	if n := gem.CountThemes(s.Values(), 0.05); n != clusters {
		t.Errorf("%d themes are estimated of %v", n, s.Values())
	}
}

func TestInputThatIsNoGraphIsRefused(t *testing.T) {
	rows := func(values ...float32) gem.Rows { return gem.Rows{Dim: 2, Data: values} }
	nan := float32(math.NaN())
	for _, nodes := range []gem.Nodes{
		{Mean: rows(1, 0), Base: rows(1, 0, 0, 1)},
		{Mean: rows(1, 0), Base: gem.Rows{Dim: 1, Data: []float32{1, 0}}},
		{Mean: rows(1, 0, 1), Base: rows(1, 0, 1)},
		{Mean: rows(1, 0), Base: rows(1, nan)},
		{Mean: rows(1, float32(math.Inf(1))), Base: rows(1, 0)},
	} {
		if _, err := nodes.NewNearest(gem.Nearest{}); err == nil {
			t.Errorf("%v is accepted", nodes)
		}
		if _, err := nodes.NewImplicit(gem.Shift); err == nil {
			t.Errorf("%v is accepted", nodes)
		}
	}
	opposite := gem.Nodes{Mean: rows(1, 0, -1, 0), Base: rows(1, 0, -1, 0)}
	if _, err := opposite.NewImplicit(gem.Keep); err == nil {
		t.Error("degrees below 0 are accepted")
	}
	if _, err := opposite.NewImplicit(gem.Clip); err == nil {
		t.Error("clipped weights that are not stored are accepted")
	}
	if _, err := opposite.MatrixBy(gem.Keep); err == nil {
		t.Error("degrees below 0 are accepted")
	}
	for _, e := range []gem.Edge{{0, 0, 1}, {0, 2, 1}, {0, 1, 0}, {-1, 1, 1}} {
		if _, err := gem.NewSparse(2, []gem.Edge{e}); err == nil {
			t.Errorf("%v is accepted", e)
		}
	}
	if _, err := gem.NewMatrix(2, []float64{1}); err == nil {
		t.Error("a matrix that is not square is accepted")
	}
}

func TestNearestNodesOfAMatrixAreThoseOfNodes(t *testing.T) {
	nodes := random(120, 8, 3, 3, 4)
	all, err := nodes.NewNearest(gem.Nearest{Neighbours: 6})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := nodes.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	ofMatrix, err := stored.Nearest(6)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 120 { // sums of the matrix are taken in another order
		to, weights := ofMatrix.Neighbours(i)
		wantTo, want := all.Neighbours(i)
		if !slices.Equal(to, wantTo) {
			t.Fatalf("node %d: %v, should be %v", i, to, wantTo)
		}
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
		if most == 3 && (len(to) != 3 || !slices.Contains(to, 7)) {
			t.Errorf("%v", to)
		}
		if most == 500 && slices.ContainsFunc(weights, func(w float64) bool { return w <= 0 }) {
			t.Error("what is not near is among the nearest")
		}
	}
}
