package walk_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

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
		full := g.RunBy(start, 0.7, 1e-15, walk.View{}, steps)
		eliminated := g.RunToChunks(start, 0.7, 1e-15, steps)
		alone := g.Run(start, 0.7, 1e-15, walk.View{})
		differ := 0.0
		check := func(what string, node int, got float64) {
			t.Helper()
			assert.True(t, math.Abs(got-want[node]) <= 1e-10,
				"seed %d, %s: node %d has %g, want %g", seed, what, node, got, want[node])
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
			mass := g.RunBy(start, d, eps, walk.View{}, counted)
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
			if bound := mass.Left / (1 - d); sum > bound*(1+1e-9) || sum <= 0 {
				t.Errorf("seed %d, eps %g: %g is missing, of %g that may", seed, eps, sum, bound)
			}
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
		got, exact := g.RunBy(start, 0.7, 1e-12, walk.View{}, steps), dense(g, start, 0.7, preferring(seed))
		require.True(t, got.Pushes >= 10*(g.Classes()+chunks), "%d pushes: nothing is pushed again", got.Pushes)
		for class := range uint32(g.Classes()) {
			assert.True(t, asked[class] == 1,
				"round %d: class %d of %d chunks is weighed %d times", round, class, len(g.ChunksOf(class)), asked[class])
		}
		for _, one := range got.Chunks {
			if want := exact[g.Classes()+int(one.ID)]; math.Abs(one.Weight-want) > 1e-9 {
				t.Fatalf("round %d: chunk %d has %g, want %g", round, one.ID, one.Weight, want)
			}
		}
	}
}

// hubs returns classes of which each is in many chunks: the first in all, the second in every other, and so on.
func hubs(chunks int) *walk.Graph {
	g := &walk.Graph{}
	g.ClassOff, g.ChunkOff = []uint64{0}, []uint64{0}
	const classes = 8
	for class := range classes {
		for chunk := 0; chunk < chunks; chunk += class + 1 {
			g.ClassTo = append(g.ClassTo, uint32(chunk))
		}
		g.ClassOff = append(g.ClassOff, uint64(len(g.ClassTo)))
	}
	for chunk := range chunks {
		for class := range classes {
			if chunk%(class+1) == 0 {
				g.ChunkTo = append(g.ChunkTo, uint32(class))
			}
		}
		g.ChunkOff = append(g.ChunkOff, uint64(len(g.ChunkTo)))
	}
	return g
}
