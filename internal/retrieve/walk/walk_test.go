package walk_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
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

// whole allows everything, so that no class is eliminated.
var whole = walk.View{Chunk: func(uint32) bool { return true }}

// weighted returns the graph of a vector, and the steps that its weights are.
func weighted(v vector) (*walk.Graph, walk.Steps) {
	graph := new(walk.Graph)
	var classWeight, chunkWeight []float64
	graph.ClassOff, graph.ChunkOff = make([]uint64, v.Entities+1), make([]uint64, v.Chunks+1)
	for c := range v.Entities {
		for _, e := range v.Edges {
			if int(e[0]) == c {
				graph.ClassTo, classWeight = append(graph.ClassTo, uint32(e[1])), append(classWeight, e[2])
			}
		}
		graph.ClassOff[c+1] = uint64(len(graph.ClassTo))
	}
	for k := range v.Chunks {
		for _, e := range v.Edges {
			if int(e[1]) == k {
				graph.ChunkTo, chunkWeight = append(graph.ChunkTo, uint32(e[0])), append(chunkWeight, e[2])
			}
		}
		graph.ChunkOff[k+1] = uint64(len(graph.ChunkTo))
	}
	return graph, walk.Steps{
		ToChunks: func(class uint32, _ []uint32, weights []float64) { copy(weights, classWeight[graph.ClassOff[class]:]) },
		ToClasses: func(chunk uint32, _ []uint32, weights []float64) {
			copy(weights, chunkWeight[graph.ChunkOff[chunk]:])
		},
	}
}

func TestReferenceVectors(t *testing.T) {
	var vs []vector
	searchtest.ReadReference(t, "ppr", "ppr.json", &vs)
	require.GreaterOrEqual(t, len(vs), 20)
	for _, v := range vs {
		var start walk.Start
		for _, p := range v.Start {
			if int(p[0]) < v.Entities {
				start.Classes = append(start.Classes, walk.Weighted{ID: uint32(p[0]), Weight: p[1]})
			} else {
				start.Chunks = append(start.Chunks, walk.Weighted{ID: uint32(int(p[0]) - v.Entities), Weight: p[1]})
			}
		}
		graph, steps := weighted(v)
		mass := graph.Run(start, v.Damping, 1e-16, whole, steps)
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

func TestAViewIsTheInducedSubgraph(t *testing.T) {
	// Without chunk 1 the class that has only it is alone; mass of the others equals that of the graph made without
	// them.
	full, _ := weighted(
		vector{Entities: 3, Chunks: 3, Edges: [][3]float64{{0, 0, 1}, {0, 1, 1}, {1, 1, 1}, {2, 0, 1}, {2, 2, 1}}},
	)
	part, _ := weighted(vector{Entities: 3, Chunks: 3, Edges: [][3]float64{{0, 0, 1}, {2, 0, 1}, {2, 2, 1}}})
	s := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 1}}}
	mass := full.Run(s, 0.7, 1e-14, walk.View{Chunk: func(k uint32) bool { return k != 1 }}, walk.Steps{})
	b := part.Run(s, 0.7, 1e-14, whole, walk.Steps{})
	require.True(t, len(mass.Chunks) == 2 && len(b.Chunks) == 2, "%v %v", mass, b)
	for i := range mass.Chunks {
		assert.True(t, mass.Chunks[i].ID == b.Chunks[i].ID && math.Abs(mass.Chunks[i].Weight-b.Chunks[i].Weight) <= 1e-12,
			"%v, want %v", mass.Chunks[i], b.Chunks[i])
	}
}

// tangle returns a graph of so many classes and chunks, each class in up to six chunks.
func tangle(classes, chunks int, seed uint64) *walk.Graph {
	r := rand.New(rand.NewPCG(seed, 1))
	lists := make([][]uint32, classes)
	for c := range lists {
		for range 1 + r.IntN(6) {
			lists[c] = append(lists[c], uint32(r.IntN(chunks)))
		}
		slices.Sort(lists[c])
		lists[c] = slices.Compact(lists[c])
	}
	return &walk.Graph{Adjacency: searchtest.MakeGraph(lists, chunks)}
}

func TestEveryWalkOfAGraphIsTheSameToTheBit(t *testing.T) {
	g := tangle(9000, 9000, 4) // more nodes than the first table has places
	even := func(_ uint32, to []uint32, weights []float64) {
		for i := range to {
			weights[i] = 1
		}
	}
	for _, class := range []uint32{17, 8000, 3} {
		start := walk.Start{Classes: []walk.Weighted{{ID: class, Weight: 1}}}
		exact := dense(g, start, 0.7, walk.Steps{ToChunks: even, ToClasses: even})
		for _, eps := range []float64{1e-3, 1e-7} {
			all := g.Run(start, 0.7, eps, whole, walk.Steps{}).Chunks
			toChunks := g.Run(start, 0.7, eps, walk.View{}, walk.Steps{}).Chunks
			for _, one := range append(slices.Clone(all), toChunks...) {
				require.InDelta(t, exact[9000+int(one.ID)], one.Weight, eps*float64(len(g.ClassesOf(one.ID))), "chunk %d", one.ID)
			}
			for range 3 { // what a walk leaves behind must not reach the next
				g.Run(walk.Start{Classes: []walk.Weighted{{ID: 99, Weight: 1}}}, 0.7, eps, whole, walk.Steps{})
				require.Equal(t, all, g.Run(start, 0.7, eps, whole, walk.Steps{}).Chunks)
				require.Equal(t, toChunks, g.Run(start, 0.7, eps, walk.View{}, walk.Steps{}).Chunks)
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
	mass := g.Run(start, 0.7, 1e-6, whole, walk.Steps{})
	runtime.ReadMemStats(&after)
	require.True(t, len(mass.Chunks) == 1, "%v", mass)
	took := after.TotalAlloc - before.TotalAlloc
	assert.True(t, took <= 1<<20, "a walk over two nodes takes %d bytes", took)
}

func TestAWalkStopsWhereItIs(t *testing.T) {
	g := tangle(3000, 2000, 5)
	start := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 1}}}
	asked := 0
	all := g.Run(start, 0.9, 1e-7, whole, walk.Steps{Stopped: func() bool { asked++; return false }})
	require.True(t, asked >= 3 && asked >= all.Pushes>>16, "asked %d times in %d pushes", asked, all.Pushes)
	for at := 1; at <= asked; at += 1 + asked/4 {
		now := 0
		mass := g.Run(start, 0.9, 1e-7, whole, walk.Steps{Stopped: func() bool { now++; return now == at }})
		assert.True(t, now == at && mass.Pushes <= at<<16 && mass.Pushes < all.Pushes,
			"stopped when it was asked %d times: asked %d, %d of %d pushes", at, now, mass.Pushes, all.Pushes)
	}
}

// Two classes share chunk 1: a walk that starts at class 0 reaches chunk 2, which does not mention it.
func ExampleGraph_Run() {
	var g walk.Graph
	g.Adjacency = graph.Adjacency{
		ClassOff: []uint64{0, 2, 4}, ClassTo: []uint32{0, 1, 1, 2}, // class 0: chunks 0, 1; class 1: chunks 1, 2
		ChunkOff: []uint64{0, 1, 3, 4}, ChunkTo: []uint32{0, 0, 1, 1},
	}
	start := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 1}}}
	mass := g.Run(start, 0.5, 1e-9, walk.View{}, walk.Steps{})
	for _, chunk := range mass.Chunks {
		fmt.Printf("chunk %d: %.2f\n", chunk.ID, chunk.Weight)
	}
	// Output:
	// chunk 0: 0.15
	// chunk 1: 0.17
	// chunk 2: 0.01
}

// preferring returns steps that prefer some neighbours to others by up to 25 times, as the question chooses.
func preferring(seed uint64) walk.Steps {
	weigh := func(side uint64) func(uint32, []uint32, []float64) {
		return func(from uint32, to []uint32, weights []float64) {
			for i, one := range to {
				r := rand.New(rand.NewPCG(seed+side, uint64(from)<<32|uint64(one)))
				weights[i] = 0.1 + r.Float64()
				if r.IntN(3) == 0 {
					weights[i] += 1.4
				}
			}
		}
	}
	return walk.Steps{ToChunks: weigh(0), ToClasses: weigh(1)}
}

// dense does the walk by power iteration over all nodes, classes first, until nothing goes on any more.
func dense(g *walk.Graph, start walk.Start, d float64, steps walk.Steps) []float64 {
	n := g.Classes()
	mass := make([]float64, n+g.Chunks())
	for _, one := range start.Classes {
		mass[one.ID] = one.Weight
	}
	for _, one := range start.Chunks {
		mass[n+int(one.ID)] = one.Weight
	}
	from, exact := slices.Clone(mass), make([]float64, len(mass))
	for left := 1.0; left > 1e-18; left *= d {
		next := make([]float64, len(mass))
		for u := range mass {
			exact[u] += (1 - d) * mass[u]
			to, base, by, id := []uint32(nil), n, steps.ToChunks, uint32(u)
			if u < n {
				to = g.ChunksOf(id)
			} else {
				id -= uint32(n)
				to, base, by = g.ClassesOf(id), 0, steps.ToClasses
			}
			if len(to) == 0 { // it gives its mass back to the start
				for v := range from {
					next[v] += d * mass[u] * from[v]
				}
				continue
			}
			weights, sum := make([]float64, len(to)), 0.0
			by(id, to, weights)
			for _, weight := range weights {
				sum += weight
			}
			for i, v := range to {
				next[base+int(v)] += d * mass[u] * weights[i] / sum
			}
		}
		mass = next
	}
	return exact
}

// several returns a start of some classes and chunks.
func several(g *walk.Graph, seed uint64) walk.Start {
	r := rand.New(rand.NewPCG(seed, 3))
	var start walk.Start
	for range 3 {
		start.Classes = append(start.Classes, walk.Weighted{ID: uint32(r.IntN(g.Classes())), Weight: 0.1})
		start.Chunks = append(start.Chunks, walk.Weighted{ID: uint32(r.IntN(g.Chunks())), Weight: 0.7 / 3})
	}
	slices.SortFunc(start.Classes, func(a, b walk.Weighted) int { return int(a.ID) - int(b.ID) })
	slices.SortFunc(start.Chunks, func(a, b walk.Weighted) int { return int(a.ID) - int(b.ID) })
	return start
}

func distinct(list []walk.Weighted) bool {
	for i := range list[1:] {
		if list[i].ID == list[i+1].ID {
			return false
		}
	}
	return true
}

// Promises: 126.
func TestAWalkByStepsHasTheMassOfAPowerIteration(t *testing.T) {
	for seed := range uint64(8) {
		g := tangle(120, 40+40*int(seed%3), seed) // of 120 chunks some have no class
		steps, start := preferring(seed), several(g, seed)
		if !distinct(start.Classes) || !distinct(start.Chunks) {
			continue
		}
		want := dense(g, start, 0.7, steps)
		full := g.Run(start, 0.7, 1e-15, whole, steps)
		eliminated := g.Run(start, 0.7, 1e-15, walk.View{}, steps)
		alone := g.Run(start, 0.7, 1e-15, whole, walk.Steps{})
		differ := 0.0
		check := func(what string, node int, got float64) {
			t.Helper()
			assert.InDelta(t, want[node], got, 1e-10, "%d %s %d", seed, what, node)
		}
		for _, one := range full.Classes {
			check("class", int(one.ID), one.Weight)
		}
		for _, one := range full.Chunks {
			check("chunk", g.Classes()+int(one.ID), one.Weight)
		}
		for _, one := range eliminated.Chunks {
			check("chunk past its own classes", g.Classes()+int(one.ID), one.Weight)
		}
		for _, one := range alone.Chunks {
			differ = max(differ, math.Abs(one.Weight-want[g.Classes()+int(one.ID)]))
		}
		assert.True(t, len(full.Chunks) >= 10 && len(eliminated.Chunks) == len(full.Chunks) && differ >= 1e-3,
			"seed %d: %d and %d chunks reached, steps change %g", seed, len(full.Chunks), len(eliminated.Chunks), differ)
	}
}

// A rough walk by steps keeps to what the package says of it.
// Promises: 126.
func TestWhatAWalkByStepsLeavesBoundsItsError(t *testing.T) {
	const d = 0.7
	for seed := range uint64(8) {
		g := tangle(3000, 2000, seed)
		steps, start := preferring(seed), several(g, seed)
		want := dense(g, start, d, steps)
		for _, eps := range []float64{1e-3, 1e-4, 1e-5} {
			edges := 0
			counted := walk.Steps{
				ToChunks: func(from uint32, to []uint32, weights []float64) {
					edges += len(to)
					steps.ToChunks(from, to, weights)
				},
				ToClasses: func(from uint32, to []uint32, weights []float64) {
					edges += len(to)
					steps.ToClasses(from, to, weights)
				},
			}
			mass := g.Run(start, d, eps, whole, counted)
			missing := slices.Clone(want)
			for _, one := range mass.Classes {
				missing[one.ID] -= one.Weight
			}
			for _, one := range mass.Chunks {
				missing[g.Classes()+int(one.ID)] -= one.Weight
			}
			sum := 0.0
			for node, less := range missing {
				sum += less
				assert.True(t, less >= -1e-12, "seed %d, eps %g: node %d has %g too much", seed, eps, node, -less)
			}
			bound := mass.Left / (1 - d)
			assert.True(t, sum <= bound*(1+1e-9) && sum > 0, "seed %d, eps %g: %g is missing, of %g that may", seed, eps, sum, bound)
			most := 1 / (eps * (1 - d))
			assert.True(t, float64(edges) <= most, "seed %d, eps %g: %d edges, of %g that there may be", seed, eps, edges, most)
		}
	}
}

// What is remembered of a node is that of this walk: another walk, whose question weighs otherwise, asks again.
func TestANodeOfManyNeighboursIsWeighedOnceInAWalk(t *testing.T) {
	const chunks = 400
	g := hubs(chunks)
	start := walk.Start{Classes: []walk.Weighted{{ID: 0, Weight: 0.5}}, Chunks: []walk.Weighted{{ID: 3, Weight: 0.5}}}
	for round, seed := range []uint64{5, 6, 5} {
		steps, asked := preferring(seed), map[uint32]int{}
		plain := steps.ToChunks
		steps.ToChunks = func(from uint32, to []uint32, weights []float64) {
			asked[from]++
			plain(from, to, weights)
		}
		got, exact := g.Run(start, 0.7, 1e-12, whole, steps), dense(g, start, 0.7, preferring(seed))
		require.True(t, got.Pushes >= 10*(g.Classes()+chunks), "%d pushes: nothing is pushed again", got.Pushes)
		for class := range uint32(g.Classes()) {
			assert.EqualValues(t, 1, asked[class], "%d %d %d", round, class, len(g.ChunksOf(class)))
		}
		for _, one := range got.Chunks {
			require.InDelta(t, exact[g.Classes()+int(one.ID)], one.Weight, 1e-9, "round %d: chunk %d", round, one.ID)
		}
	}
}

// hubs returns classes of which each is in many chunks: the first in all, the second in every other, and so on.
func hubs(chunks int) *walk.Graph {
	lists := make([][]uint32, 8)
	for class := range lists {
		for chunk := 0; chunk < chunks; chunk += class + 1 {
			lists[class] = append(lists[class], uint32(chunk))
		}
	}
	return &walk.Graph{Adjacency: searchtest.MakeGraph(lists, chunks)}
}
