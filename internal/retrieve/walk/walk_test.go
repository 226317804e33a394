package walk_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

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
				graph.ClassTo, graph.ClassWeight = append(
					graph.ClassTo,
					uint32(e[1]),
				), append(
					graph.ClassWeight,
					e[2],
				)
			}
		}
		graph.ClassOff[c+1] = uint64(len(graph.ClassTo))
	}
	for k := range v.Chunks {
		for _, e := range v.Edges {
			if int(e[1]) == k {
				graph.ChunkTo, graph.ChunkWeight = append(
					graph.ChunkTo,
					uint32(e[0]),
				), append(
					graph.ChunkWeight,
					e[2],
				)
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
	if err != nil {
		t.Fatal(err)
	}
	var vs []vector
	if err := json.Unmarshal(raw, &vs); err != nil || len(vs) < 20 {
		t.Fatal(len(vs), err)
	}
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
			if len(mass.Chunks)+len(mass.Classes) != 0 {
				t.Errorf("%s: mass from nowhere", v.ID)
			}
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
			if math.Abs(x-v.Scores[i]) > 1e-8 {
				t.Errorf("%s: node %d has %g, want %g", v.ID, i, x, v.Scores[i])
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s: the mass is %g", v.ID, sum)
		}
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
		if math.Abs(x.Weight-want[x.ID]) > 1e-6 {
			t.Errorf("c%d has %g, want %g", x.ID+1, x.Weight, want[x.ID])
		}
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
	if len(mass.Chunks) != 2 || len(b.Chunks) != 2 {
		t.Fatal(mass, b)
	}
	for i := range mass.Chunks {
		if mass.Chunks[i].ID != b.Chunks[i].ID || math.Abs(mass.Chunks[i].Weight-b.Chunks[i].Weight) > 1e-12 {
			t.Errorf("%v, want %v", mass.Chunks[i], b.Chunks[i])
		}
	}
}
