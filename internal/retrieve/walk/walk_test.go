package walk_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

type vector struct {
	ID       string       `json:"id"`
	Entities int          `json:"num_entities"`
	Chunks   int          `json:"num_chunks"`
	Edges    [][3]float64 `json:"edges"`
	Start    [][2]float64 `json:"personalization"`
	Zero     bool         `json:"zero_personalization"`
	Damping  float64      `json:"damping"`
	Scores   []float64    `json:"scores"`
}

func weighted(v vector) *walk.Graph {
	graph := new(walk.Graph)
	graph.ClassOff, graph.ChunkOff = make([]uint64, v.Entities+1), make([]uint64, v.Chunks+1)
	for c := range v.Entities {
		for _, e := range v.Edges {
			if int(e[0]) == c {
				graph.ClassTo, graph.ClassWeight = append(graph.ClassTo, uint32(e[1])), append(graph.ClassWeight, e[2])
			}
		}
		graph.ClassOff[c+1] = uint64(len(graph.ClassTo))
	}
	for k := range v.Chunks {
		for _, e := range v.Edges {
			if int(e[1]) == k {
				graph.ChunkTo, graph.ChunkWeight = append(graph.ChunkTo, uint32(e[0])), append(graph.ChunkWeight, e[2])
			}
		}
		graph.ChunkOff[k+1] = uint64(len(graph.ChunkTo))
	}
	return graph
}

func TestReferenceVectors(t *testing.T) {
	dir := "testdata"
	if d := os.Getenv("UNWEAVER_TEST_REFERENCE"); d != "" {
		dir = filepath.Join(d, "ppr")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "ppr.json"))
	require.NoError(t, err)
	var vs []vector
	err = json.Unmarshal(raw, &vs)
	require.True(t, err == nil && len(vs) >= 20, "%v %v", len(vs), err)
	for _, v := range vs {
		var start walk.Start
		for _, p := range v.Start {
			if int(p[0]) < v.Entities {
				start.Classes = append(start.Classes, walk.Weighted{ID: uint32(p[0]), Weight: p[1]})
			} else {
				start.Chunks = append(start.Chunks, walk.Weighted{ID: uint32(int(p[0]) - v.Entities), Weight: p[1]})
			}
		}
		mass := weighted(v).Run(start, v.Damping, 1e-16, walk.View{})
		if v.Zero { // no seed has weight: an empty result, not a uniform walk
			assert.True(t, len(mass.Chunks)+len(mass.Classes) == 0, "%s: mass from nowhere", v.ID)
			continue
		}
		got := make([]float64, v.Entities+v.Chunks)
		for _, x := range mass.Classes {
			got[x.ID] = x.Weight
		}
		for _, x := range mass.Chunks {
			got[v.Entities+int(x.ID)] = x.Weight
		}
		sum := mass.Left
		for i, x := range got {
			sum += x
			assert.True(t, math.Abs(x-v.Scores[i]) <= 1e-8, "%s: node %d has %g, want %g", v.ID, i, x, v.Scores[i])
		}
		assert.True(t, math.Abs(sum-1) <= 1e-9, "%s: the mass is %g", v.ID, sum)
	}
}

// T6 of the specification.
func TestSpecificationT6(t *testing.T) {
	graph := weighted(
		vector{
			Entities: 5,
			Chunks:   5,
			Edges: [][3]float64{
				{0, 0, 1},
				{0, 1, 1},
				{1, 0, 1},
				{1, 2, 1},
				{2, 0, 1},
				{2, 1, 1},
				{3, 3, 1},
				{4, 2, 1},
				{4, 3, 1},
				{4, 4, 1},
			},
		},
	)
	graph.ClassWeight, graph.ChunkWeight = nil, nil
	var start walk.Start
	for i, w := range []float64{.80, .70, .65, .60, .50} {
		start.Classes = append(start.Classes, walk.Weighted{ID: uint32(i), Weight: w})
	}
	want := []float64{0.109008, 0.074118, 0.054799, 0.075500, 0.019909}
	for _, x := range graph.Run(start, 0.5, 1e-14, walk.View{}).Chunks {
		assert.True(t, math.Abs(x.Weight-want[x.ID]) <= 1e-6, "c%d has %g, want %g", x.ID+1, x.Weight, want[x.ID])
	}
}

func TestAViewIsTheInducedSubgraph(t *testing.T) {
	// Without chunk 1 the class that has only it is alone; mass of the others equals that of the graph made without
	// them.
	full := weighted(
		vector{Entities: 3, Chunks: 3, Edges: [][3]float64{{0, 0, 1}, {0, 1, 1}, {1, 1, 1}, {2, 0, 1}, {2, 2, 1}}},
	)
	part := weighted(vector{Entities: 3, Chunks: 3, Edges: [][3]float64{{0, 0, 1}, {2, 0, 1}, {2, 2, 1}}})
	s := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 1}}}
	mass := full.Run(s, 0.7, 1e-14, walk.View{Chunk: func(k uint32) bool { return k != 1 }})
	b := part.Run(s, 0.7, 1e-14, walk.View{})
	require.True(t, len(mass.Chunks) == 2 && len(b.Chunks) == 2, "%v %v", mass, b)
	for i := range mass.Chunks {
		assert.True(t, mass.Chunks[i].ID == b.Chunks[i].ID && math.Abs(mass.Chunks[i].Weight-b.Chunks[i].Weight) <= 1e-12,
			"%v, want %v", mass.Chunks[i], b.Chunks[i])
	}
}

// tangle returns a graph of so many classes and chunks, each class in up to six chunks.
func tangle(classes, chunks int, seed uint64) *walk.Graph {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &walk.Graph{Adjacency: graph.Adjacency{ClassOff: []uint64{0}, ChunkOff: []uint64{0}}}
	of := make([][]uint32, chunks)
	for c := range classes {
		var to []uint32
		for range 1 + r.IntN(6) {
			to = append(to, uint32(r.IntN(chunks)))
		}
		slices.Sort(to)
		to = slices.Compact(to)
		for _, k := range to {
			of[k] = append(of[k], uint32(c))
		}
		g.ClassTo = append(g.ClassTo, to...)
		g.ClassOff = append(g.ClassOff, uint64(len(g.ClassTo)))
	}
	for _, to := range of {
		g.ChunkTo = append(g.ChunkTo, to...)
		g.ChunkOff = append(g.ChunkOff, uint64(len(g.ChunkTo)))
	}
	return g
}

// pushed does the walk with a number for every node of the graph; toChunks eliminates classes that have one chunk.
func pushed(g *walk.Graph, start []walk.Weighted, d, eps float64, toChunks bool) (chunks []walk.Weighted) {
	n := uint32(g.Classes())
	x, r, queued := make([]float64, g.Classes()+g.Chunks()), make([]float64, g.Classes()+g.Chunks()), map[uint32]bool{}
	eps *= 1 - d
	var queue, reached []uint32
	seen := map[uint32]bool{}
	add := func(u uint32, mass float64) {
		if !seen[u] {
			seen[u] = true
			reached = append(reached, u)
		}
		if r[u] += mass; r[u] > eps && !queued[u] {
			queued[u] = true
			queue = append(queue, u)
		}
	}
	for _, s := range start {
		add(s.ID, (1-d)*s.Weight)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		u := queue[0]
		queued[u] = false
		to, base := []uint32(nil), n
		if u < n {
			to = g.ChunksOf(u)
		} else {
			to, base = g.ClassesOf(u-n), 0
		}
		if mass := r[u]; mass > eps*float64(len(to)) {
			degree := float64(len(to))
			if toChunks && u >= n {
				to = slices.DeleteFunc(slices.Clone(to), func(c uint32) bool { return len(g.ChunksOf(c)) == 1 })
				mass /= 1 - d*d*(degree-float64(len(to)))/degree
			}
			x[u] += mass
			r[u] = 0
			for _, v := range to {
				add(base+v, d*mass/degree)
			}
		}
	}
	for _, u := range reached {
		if u >= n && x[u] > 0 {
			chunks = append(chunks, walk.Weighted{ID: u - n, Weight: x[u]})
		}
	}
	return chunks
}

func TestEveryWalkOfAGraphIsTheSameToTheBit(t *testing.T) {
	g := tangle(9000, 9000, 4) // more nodes than the first table has places
	for round := range 4 {     // what a walk leaves behind must not reach the next
		for _, class := range []uint32{17, 8000, uint32(round)} {
			start := []walk.Weighted{{ID: class, Weight: 1}}
			for _, eps := range []float64{1e-3, 1e-7} {
				got := g.Run(walk.Start{Classes: start}, 0.7, eps, walk.View{}).Chunks
				if want := pushed(g, start, 0.7, eps, false); len(want) == 0 || !slices.Equal(got, want) {
					t.Fatalf("round %d, class %d, eps %g: %d chunks, want %d", round, class, eps, len(got), len(want))
				}
				got = g.RunToChunks(walk.Start{Classes: start}, 0.7, eps, walk.Steps{}).Chunks
				if want := pushed(g, start, 0.7, eps, true); len(want) == 0 || !slices.Equal(got, want) {
					t.Fatalf("round %d, class %d, eps %g: %d chunks of all, want %d", round, class, eps, len(got), len(want))
				}
			}
		}
	}
}

func TestAWalkTakesMemoryForWhatItReaches(t *testing.T) {
	const classes = 2_000_000
	g := &walk.Graph{Adjacency: graph.Adjacency{
		ClassOff: make([]uint64, classes+1), ClassTo: []uint32{0},
		ChunkOff: []uint64{0, 1}, ChunkTo: []uint32{classes - 1},
	}}
	g.ClassOff[classes] = 1
	start := walk.Start{Classes: []walk.Weighted{{ID: classes - 1, Weight: 1}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mass := g.Run(start, 0.7, 1e-6, walk.View{})
	runtime.ReadMemStats(&after)
	require.True(t, len(mass.Chunks) == 1, "%v", mass)
	took := after.TotalAlloc - before.TotalAlloc
	assert.True(t, took <= 1<<20, "a walk over two nodes takes %d bytes", took)
}

func TestAWalkStopsWhereItIs(t *testing.T) {
	g := tangle(3000, 2000, 5)
	start := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 1}}}
	asked := 0
	whole := g.RunBy(start, 0.9, 1e-7, walk.View{}, walk.Steps{Stopped: func() bool { asked++; return false }})
	require.True(t, asked >= 3 && asked >= whole.Pushes>>16, "asked %d times in %d pushes", asked, whole.Pushes)
	for at := 1; at <= asked; at += 1 + asked/4 {
		now := 0
		mass := g.RunBy(start, 0.9, 1e-7, walk.View{}, walk.Steps{Stopped: func() bool { now++; return now == at }})
		assert.True(t, now == at && mass.Pushes <= at<<16 && mass.Pushes < whole.Pushes,
			"stopped when it was asked %d times: asked %d, %d of %d pushes", at, now, mass.Pushes, whole.Pushes)
	}
}
