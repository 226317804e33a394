package retrieve

import (
	"math"
	"sort"
	"time"

	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// PPR is the name of the method.
const PPR = "ppr"

// pprEps is the precision of the product's walk.
const pprEps = 1e-7

// PPRExplain is the explanation of ppr: each seed's share of the start.
type PPRExplain struct {
	Damping float64     `json:"damping"`
	Seeds   []ListScore `json:"seeds"`
	Chunks  []ListScore `json:"chunks"` // stationary mass
	Pushes  int         `json:"pushes"`
}

// pprMethod is personalised PageRank: a walk from the most similar classes over the whole graph.
type pprMethod struct{}

// Spec implements Method.
func (pprMethod) Spec() Spec {
	return Spec{
		Name:     PPR,
		Doc:      "random walk over the graph from the most similar entities",
		Entities: 10,
		Params:   []Param{NewNumber("damping", "probability of following an edge", 0.01, 0.99, 0.5)},
		Needs:    Needs{Embedding: ByClassEmbedder},
		Explains: []Shape{{"ExplainPPR", "ppr", PPRExplain{}}},
	}
}

// Run implements Method.
func (pprMethod) Run(r *Request) (Explanation, error) {
	if err := r.findVoters(r.Query.TopEntities); err != nil || r.MatchesNothing() {
		return nil, err
	}
	begin := time.Now()
	var start walk.Start
	sum := 0.0
	for _, entity := range r.Result.Entities {
		if weight := max(0, entity.Similarity); weight > 0 {
			start.Classes = append(start.Classes, walk.Weighted{ID: entity.Place, Weight: weight})
			sum += weight
		}
	}
	damping := r.Query.Params.Float("damping")
	mass, err := r.walkGraph(start, damping, pprEps, walk.Steps{})
	if err != nil {
		return nil, err
	}
	r.rankByMass(mass.Chunks)
	for _, node := range mass.Chunks[:min(r.Query.TopChunks, len(mass.Chunks))] {
		chunk := Chunk{Live: r.Generation.Live.ByNumber(int(node.ID)), Score: node.Weight}
		r.Result.Chunks = append(r.Result.Chunks, chunk)
	}
	r.noteReasons()
	r.Result.Timing.Election = time.Since(begin)
	return func() any {
		explain := PPRExplain{
			Damping: damping, Pushes: mass.Pushes, Chunks: explainList("", r.Result.Chunks).Chunks,
		}
		for _, entity := range r.Result.Entities {
			share := max(0, entity.Similarity) / max(sum, 1e-300)
			explain.Seeds = append(explain.Seeds, ListScore{entity.ID.String(), share})
		}
		return explain
	}, nil
}

// rankByMass sorts chunks by mass; ties go as in an election of the same voters.
func (r *Request) rankByMass(nodes []walk.Weighted) {
	field := r.orderCandidates(false)
	rank := func(number uint32) int {
		if place, ok := field.at[number]; ok {
			return int(place)
		}
		return len(field.numbers) + int(number) // chunks that no voter approves come after those, in chunk order
	}
	sort.Slice(nodes, func(i, j int) bool {
		a, b := nodes[i], nodes[j]
		if diff := a.Weight - b.Weight; math.Abs(diff) > 1e-9*max(a.Weight, b.Weight) {
			return diff > 0
		}
		return rank(a.ID) < rank(b.ID)
	})
}
