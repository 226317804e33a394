package retrieve_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func TestAlignedKeepsToCapacities(t *testing.T) {
	o := open(t, retrievetest.Options{})
	capacities := []retrieve.Capacity{{Prefix: "cities/", Value: 0.5}, {Document: "cities/oslo.txt", Value: 2}}
	for _, solver := range []string{"utility", "cls"} {
		query := o.query(t, retrieve.Aligned, "Oslo and Bergen in Norway")
		query.TopChunks = 9
		query.Params = retrieve.Params{"solver": solver, "capacities": capacities, "classes": 4}
		explain := o.run(t, query).Explain.(retrieve.AlignedExplain)
		kept := 0
		for _, entity := range explain.Entities {
			if entity.Kept {
				kept++
			}
		}
		assert.True(t, explain.Solver == solver && kept == 4 && len(explain.Chunks) != 0, "%s: %+v", solver, explain)
		for _, chunk := range explain.Chunks {
			id, err := core.ParseID(chunk.ID)
			require.NoError(t, err)
			key := o.generation.Live.Key(int(o.generation.Live.FindChunk(id).Document))
			want := 1.0
			switch {
			case key == "cities/oslo.txt":
				want = 2
			case strings.HasPrefix(key, "cities/"):
				want = 0.5
			}
			assert.True(t, chunk.Capacity == want && (solver != "utility" || chunk.Load <= want*(1+1e-6)),
				"%s: %s has capacity %g and load %g, want %g", solver, key, chunk.Capacity, chunk.Load, want)
			assert.True(t, (chunk.Price == nil) == (solver == "cls"), "%s: price %v", solver, chunk.Price)
		}
	}
}

func TestAlignedLetsTheMostSimilarOfItsPoolVote(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, solver := range []string{"utility", "cls"} {
		query := o.query(t, retrieve.Aligned, "Oslo and Bergen in Norway")
		query.Params = retrieve.Params{"solver": solver, "classes": 3}
		result := o.run(t, query)
		explain := result.Explain.(retrieve.AlignedExplain)
		least, most, stronger := 2.0, -2.0, false
		for i, entity := range explain.Entities {
			if entity.Kept {
				least = min(least, result.Entities[i].Similarity)
			} else {
				most = max(most, result.Entities[i].Similarity)
			}
		}
		for _, kept := range explain.Entities {
			for _, left := range explain.Entities {
				stronger = stronger || kept.Kept && !left.Kept && left.X > kept.X
			}
		}
		assert.True(t, len(explain.Entities) >= 5 && least >= most && stronger,
			"%s: votes from %g on, left out up to %g, a stronger one left out: %v", solver, least, most, stronger)
	}
}

// Promises: 128.
func TestAClassLeadsToTheChunkWhoseTitleItIs(t *testing.T) {
	var documents []retrievetest.Document
	for _, name := range []string{"Lyra", "Vega (star)", "Zeta"} { // all say the same of Vega, and of nothing else
		documents = append(documents, retrievetest.Document{Key: name, Title: name, Chunks: []retrievetest.Chunk{
			{Text: "Something bright is told here. ", Entities: []string{"Vega"}},
		}})
	}
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "stars", documents, retrievetest.Options{})
	generation, err := retrieve.Open(t.Context(), stores.Blobs, stores.Cache, stores.Vectors, "stars", built.SHA, 1)
	require.NoError(t, err)
	t.Cleanup(generation.Close)
	o := opened{stores, built, generation}
	query := o.query(t, retrieve.Hybrid, "bright") // no word of a title: what distinguishes them is the walk
	query.TopChunks = 3
	explain := o.run(t, query).Explain.(retrieve.HybridExplain)
	mass := map[string]float64{}
	for i, key := range o.keys(o.run(t, query)) {
		mass[key] = explain.Chunks[i].Mass
	}
	assert.True(t, len(mass) == 3 && mass["Vega (star)"] > 1.2*max(mass["Lyra"], mass["Zeta"]), "masses %v", mass)
}
