package fuse_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

type list struct {
	Kind string       `json:"kind"`
	Hits [][2]float64 `json:"hits"`
}

type vector struct {
	ID     string `json:"id"`
	Params struct {
		List     int     `json:"list"`
		Classes  int     `json:"k_entities"`
		Chunks   int     `json:"k_chunks"`
		PClass   float64 `json:"p_entities"`
		PChunk   float64 `json:"p_chunks"`
		W        float64 `json:"w"`
		D        float64 `json:"d"`
		Mix      float64 `json:"mix"`
		VetFloor float64 `json:"floor"`
	} `json:"params"`
	NumClasses int        `json:"num_classes"`
	NumChunks  int        `json:"num_chunks"`
	Classes    [][]uint32 `json:"classes"`
	ClassLists []list     `json:"class_lists"`
	ChunkLists []list     `json:"chunk_lists"`
	Expected   struct {
		ClassSeeds map[string]float64 `json:"class_seeds"`
		ChunkSeeds map[string]float64 `json:"chunk_seeds"`
		Mass       []float64          `json:"mass"`
		Score      []float64          `json:"score"`
		Ranking    []uint32           `json:"ranking"`
		MinGap     *float64           `json:"min_gap"`
	} `json:"expected"`
}

func lists(ls []list) []fuse.List {
	var out []fuse.List
	for _, l := range ls {
		x := fuse.List{Lexical: l.Kind == "lexical"}
		for _, h := range l.Hits {
			x.Hits = append(x.Hits, fuse.Hit{ID: uint32(h[0]), Score: h[1]})
		}
		out = append(out, x)
	}
	return out
}

func (v vector) params() fuse.Params {
	p := v.Params
	return fuse.Params{
		List: p.List, Classes: p.Classes, Chunks: p.Chunks, PowClass: p.PClass, PowChunk: p.PChunk, Share: p.W,
		Damping: p.D, Mix: p.Mix, VetFloor: p.VetFloor, Tolerance: 1e-9,
	}
}

func seeds(t *testing.T, id string, got []walk.Weighted, want map[string]float64) {
	t.Helper()
	for _, w := range got {
		assert.InDelta(t, want[strconv.Itoa(int(w.ID))], w.Weight, 1e-9, "%s %d", id, w.ID)
	}
	assert.True(t, len(got) >= len(want), "%s: %d seeds, want %d", id, len(got), len(want))
}

func TestReferenceVectors(t *testing.T) {
	agree, all := 0, 0
	var vs []vector
	searchtest.ReadReference(t, "hybrid", "hybrid.json", &vs)
	require.GreaterOrEqual(t, len(vs), 20)
	for _, v := range vs {
		g := walk.Graph{Adjacency: searchtest.MakeGraph(v.Classes, v.NumChunks)}
		params := v.params()
		s := fuse.MakeSeeds(params, lists(v.ChunkLists), lists(v.ClassLists), g.ChunksOf, fuse.Titles{})
		seeds(t, v.ID, s.Start.Classes, v.Expected.ClassSeeds)
		seeds(t, v.ID, s.Start.Chunks, v.Expected.ChunkSeeds)
		whole := walk.View{Chunk: func(uint32) bool { return true }}
		m := g.Run(s.Start, params.Damping, 1e-14, whole, walk.Steps{})
		mass := make([]float64, v.NumChunks)
		for _, x := range m.Chunks {
			mass[x.ID] = x.Weight
		}
		ranking := fuse.Rank(params, m.Chunks, s.P, 0)
		if best := fuse.Rank(params, m.Chunks, s.P, 3); len(best) < min(3, len(ranking)) ||
			!slices.Equal(best[:min(3, len(ranking))], ranking[:min(3, len(ranking))]) {
			t.Errorf("%s: the best three are %v, of all %v", v.ID, best, ranking)
		}
		score := make([]float64, v.NumChunks)
		for _, h := range ranking {
			score[h.ID] = h.Score
		}
		for k := range mass {
			assert.True(t, math.Abs(mass[k]-v.Expected.Mass[k]) <= 1e-6 && math.Abs(score[k]-v.Expected.Score[k]) <= 1e-6,
				"%s: chunk %d has mass %g and score %g, want %g and %g", v.ID, k, mass[k], score[k], v.Expected.Mass[k],
				v.Expected.Score[k])
		}
		order(t, v, ranking)
		for _, x := range g.Run(s.Start, params.Damping, 1e-14, walk.View{}, walk.Steps{}).Chunks {
			assert.InDelta(t, v.Expected.Mass[x.ID], x.Weight, 1e-9, "%s %d", v.ID, x.ID)
		}
		// The shipped precision: its bound, and the same best ten.
		rough := g.Run(s.Start, params.Damping, fuse.Eps, walk.View{}, walk.Steps{})
		for _, x := range rough.Chunks {
			e := math.Abs(x.Weight - v.Expected.Mass[x.ID])
			assert.True(t, e <= fuse.Eps*float64(len(g.ClassesOf(x.ID)))+1e-12, "%s: chunk %d is off by %g", v.ID, x.ID, e)
		}
		top := map[uint32]bool{}
		for _, k := range v.Expected.Ranking[:min(10, len(v.Expected.Ranking))] {
			top[k] = true
		}
		r := fuse.Rank(params, rough.Chunks, s.P, 10)
		for _, h := range r[:min(10, len(r))] {
			all++
			if top[h.ID] {
				agree++
			}
		}
	}
	assert.True(t, float64(agree) >= 0.99*float64(all), "%d of %d of the best ten at the shipped precision", agree, all)
}

func order(t *testing.T, v vector, got []fuse.Hit) {
	t.Helper()
	require.Len(t, got, len(v.Expected.Ranking), v.ID)
	for i, k := range v.Expected.Ranking {
		if got[i].ID != k && math.Abs(v.Expected.Score[got[i].ID]-v.Expected.Score[k]) > 1e-6 {
			t.Errorf("%s: place %d is %d, want %d", v.ID, i, got[i].ID, k)
			return
		}
	}
}

func TestNothingFoundIsNothing(t *testing.T) {
	s := fuse.MakeSeeds(fuse.Default, nil, []fuse.List{{Lexical: true}}, func(uint32) []uint32 { return nil },
		fuse.Titles{})
	assert.True(t, len(s.Start.Chunks)+len(s.Start.Classes) == 0 && len(fuse.Rank(fuse.Default, nil, nil, 5)) == 0,
		"%+v", s)
}

func TestAmongTheBestAreThoseThatTieWithTheLast(t *testing.T) {
	mass := []walk.Weighted{{ID: 5, Weight: 1}, {ID: 3, Weight: 0.25}, {ID: 4, Weight: 0.25 + 1e-11}}
	got := fuse.Rank(fuse.Default, mass, nil, 2)
	assert.True(t, len(got) == 3 && got[1].ID == 3, "%v", got)
}

func TestAListCountsByItsWeight(t *testing.T) {
	words := fuse.List{Lexical: true, Hits: []fuse.Hit{{ID: 1, Score: 4}, {ID: 2, Score: 2}}}
	other := fuse.List{Hits: []fuse.Hit{{ID: 3, Score: 0.9}, {ID: 2, Score: 0.5}, {ID: 4, Score: 0.1}}}
	for weight, want := range map[float64][]fuse.Hit{
		0:   {{ID: 1, Score: 1}, {ID: 2, Score: 1}, {ID: 3, Score: 1}},
		1:   {{ID: 1, Score: 1}, {ID: 2, Score: 1}, {ID: 3, Score: 1}},
		0.3: {{ID: 1, Score: 1}, {ID: 2, Score: 0.65}, {ID: 3, Score: 0.3}},
	} {
		other.Weight = weight
		got := fuse.Fuse([]fuse.List{words, other}, 10)
		require.True(t, len(got) == len(want), "weight %g: %v", weight, got)
		for i := range want {
			assert.True(t, got[i].ID == want[i].ID && math.Abs(got[i].Score-want[i].Score) <= 1e-12,
				"weight %g: %v, want %v", weight, got, want)
		}
	}
}

func TestTitlesAreSeedsAndLeadAStepFurther(t *testing.T) {
	list := fuse.List{Lexical: true, Hits: []fuse.Hit{{ID: 1, Score: 4}, {ID: 2, Score: 3}, {ID: 3, Score: 1}}}
	named := map[uint32][]walk.Weighted{
		3: {{ID: 7, Weight: 0.5}}, 9: {{ID: 7, Weight: 0.1}, {ID: 3, Weight: 0.2}}, 2: {{ID: 8, Weight: 1}},
	}
	titles := fuse.Titles{Asked: []uint32{3, 9}, Named: func(chunk uint32) []walk.Weighted { return named[chunk] }}
	params := fuse.ParamsFor(fuse.Linked, true)
	got := map[uint32]float64{}
	for _, seed := range fuse.MakeSeeds(params, []fuse.List{list}, nil, nil, titles).Start.Chunks {
		got[seed.ID] = seed.Weight
	}
	weights := map[uint32]float64{ // best: 0.25 by words, and 1 for its title
		3: 1 + 0.2, 9: 1, 7: 0.6, 1: math.Pow(1/1.25, 12), 2: math.Pow(0.75/1.25, 12), // too light to lead on
	}
	sum := 0.0
	for _, weight := range weights {
		sum += weight
	}
	for chunk, weight := range weights {
		assert.True(t, math.Abs(got[chunk]-weight/sum) <= 1e-12, "chunk %d weighs %g, want %g", chunk, got[chunk], weight/sum)
	}
	assert.True(t, len(got) == len(weights), "seeds %v", got)
}

// Only linked indexes whose chunks a model embeds have sharper seeds.
func TestSeedsAreSharperWhereAModelEmbedsLinkedChunks(t *testing.T) {
	for _, kind := range []string{fuse.Linked, fuse.Short, fuse.Long} {
		hashed, byModel := fuse.ParamsFor(kind, true), fuse.ParamsFor(kind, false)
		assert.Equal(t, kind == fuse.Linked, byModel.PowChunk > hashed.PowChunk, kind)
		byModel.PowChunk = hashed.PowChunk
		assert.Equal(t, hashed, byModel, kind)
	}
}
