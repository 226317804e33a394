package retrieve_test

import (
	"context"
	"math"
	"slices"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/internal/text/names"
)

func (o opened) embedder() builtin.Embedder { return builtin.Embedder{IDF: o.generation.IDF.Weight} }

// query returns a question with the vectors and defaults that the API gives it.
func (o opened) query(t testing.TB, method, question string) retrieve.Query {
	t.Helper()
	m, err := methods.Registry().Method(method)
	require.NoError(t, err)
	spec := m.Spec()
	vector := o.embedder().Vector(question)
	query := retrieve.Query{
		Text: question, Method: method, TopEntities: spec.Entities, TopChunks: 4, MinSim: 0.05, Explain: true,
	}
	switch spec.Needs.Embedding {
	case retrieve.ByClassEmbedder:
		query.Vector = vector
	case retrieve.ByChunkEmbedder:
		query.ChunkVector = vector
	}
	if len(spec.Rules) > 0 {
		query.Rule = "weighted"
	}
	return query
}

func (o opened) searcher() retrieve.Searcher {
	return retrieve.Searcher{Vectors: o.stores.Vectors, Records: o.stores.Records, Methods: methods.Registry()}
}

func (o opened) run(t testing.TB, query retrieve.Query) retrieve.Result {
	t.Helper()
	result, err := o.searcher().Run(t.Context(), o.generation, query)
	require.NoError(t, err)
	return result
}

func (o opened) keys(result retrieve.Result) []string {
	var out []string
	for _, chunk := range result.Chunks {
		out = append(out, o.generation.Live.Key(int(chunk.Live.Document)))
	}
	return out
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEveryMethodPutsTheAnswerFirst(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range methods.Registry().ListPlain() {
		query := o.query(t, method, "Who reached the South Pole first?")
		query.TopEntities = 1
		result := o.run(t, query)
		assert.True(t, len(result.Chunks) == 4 && o.keys(result)[0] == "people/amundsen.txt" &&
			result.Chunks[0].Live.Ordinal == 0, "%s: %v", method, o.keys(result))
		seen := map[uint32]bool{}
		for _, chunk := range result.Chunks {
			assert.False(t, seen[chunk.Live.Number], "%s: a chunk comes twice", method)
			seen[chunk.Live.Number] = true
		}
		assert.True(t, result.Explain != nil, "%s explains nothing", method)
	}
}

func TestExplanationsAreOfTheTypesThatAMethodNames(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range methods.Registry().All() {
		spec := method.Spec()
		if spec.Needs.Enriched != "" { // a test of its own asks it
			continue
		}
		query := o.query(t, spec.Name, "ship of Norway")
		known := map[string]bool{}
		for _, shape := range spec.Explains {
			known[typeName(shape.Zero)] = true
		}
		got := typeName(o.run(t, query).Explain)
		assert.True(t, known[got], "%s explains by %s, it says %v", spec.Name, got, known)
		query.Explain = false
		assert.Equal(t, nil, o.run(t, query).Explain, "%s", spec.Name)
	}
}

func TestVectorRanksAllChunksBySimilarity(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.query(t, retrieve.Vector, "a trading post of the Hanseatic League")
	query.TopChunks = 9
	var want []float64
	for _, document := range retrievetest.Sample() {
		for _, chunk := range document.Chunks {
			want = append(want, dot(query.ChunkVector, o.embedder().Vector(embed.ChunkText(document.Title, chunk.Text))))
		}
	}
	sort.Sort(sort.Reverse(sort.Float64Slice(want)))
	for i, chunk := range o.run(t, query).Chunks {
		assert.True(t, math.Abs(chunk.Score-want[i]) <= 1e-5 && chunk.HasSim,
			"place %d has %g, want %g", i, chunk.Score, want[i])
	}
}

func TestWeightedVotingCountsTheBallotsOfTheNearestClasses(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.query(t, retrieve.Unweaver, "Oslo in Norway")
	query.TopEntities, query.TopChunks = 3, 9
	query.Params = retrieve.Params{"fill": false}
	result := o.run(t, query)
	type tally struct{ count, first int }
	tallies, votes := map[uint32]*tally{}, 0
	for voter, entity := range result.Entities {
		assert.True(t, voter <= 0 || entity.Similarity <= result.Entities[voter-1].Similarity, "voters stand out of order")
		for _, number := range entity.Votes {
			if tallies[number] == nil {
				tallies[number] = &tally{first: voter}
			}
			tallies[number].count++
			votes++
		}
	}
	require.True(t, len(result.Chunks) == len(tallies) && len(result.Entities) == 3,
		"%d chunks of %d with votes, by %d voters", len(result.Chunks), len(tallies), len(result.Entities))
	for _, chunk := range result.Chunks {
		counted := tallies[chunk.Live.Number]
		want := float64(counted.count) / float64(votes) * (1 - float64(counted.first)/3)
		assert.True(t, math.Abs(chunk.Score-want) <= 1e-12 && len(chunk.Why) == counted.count,
			"chunk %d: %g by %v, want %g", chunk.Live.Number, chunk.Score, chunk.Why, want)
	}
	explain := result.Explain.(retrieve.WeightedExplain)
	assert.True(t, explain.Votes == votes && explain.Voters == 3 && len(explain.Chunks) == len(result.Chunks),
		"%+v", explain)
}

func TestEveryRuleElectsWithReasons(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, rule := range methods.Registry().Rules() {
		for _, params := range []retrieve.Params{
			nil, {"weights": "similarity"}, {"weights": "rank"}, {"ties": "similarity"},
		} {
			query := o.query(t, retrieve.Unweaver, "Oslo, the capital of Norway")
			query.Rule, query.TopChunks, query.Params = rule, 3, params
			result := o.run(t, query)
			require.True(t, len(result.Chunks) == 3, "%s elects %d", rule, len(result.Chunks))
			for i, chunk := range result.Chunks {
				assert.True(t, i <= 0 || rule != "weighted" || chunk.Score <= result.Chunks[i-1].Score,
					"%s %v: scores rise", rule, params)
				for _, voter := range chunk.Why {
					assert.True(t, slices.Contains(result.Entities[voter].Votes, chunk.Live.Number),
						"%s: voter %d did not vote for chunk %d", rule, voter, chunk.Live.Number)
				}
			}
			if explain, ok := result.Explain.(retrieve.ElectionExplain); ok {
				assert.True(t, explain.Rule == rule && len(explain.Seats) == 3 && explain.RunnerUp != nil, "%s: %+v", rule, explain)
			}
		}
	}
	query := o.query(t, retrieve.Unweaver, "Oslo")
	query.Rule = "dice"
	_, err := o.searcher().Run(t.Context(), o.generation, query)
	assert.True(t, err != nil, "an unknown rule elects")
}

func TestAWalkGivesChunksTheMassOfAPowerIteration(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, damping := range []float64{0.2, 0.5, 0.85} {
		query := o.query(t, retrieve.PPR, "Edvard Grieg of Bergen")
		query.TopChunks, query.Params = 9, retrieve.Params{"damping": damping}
		result := o.run(t, query)
		want := iterate(o, result.Entities, damping)
		for _, chunk := range result.Chunks {
			assert.True(t, math.Abs(chunk.Score-want[chunk.Live.Number]) <= 1e-5,
				"damping %g, chunk %d: %g, want %g", damping, chunk.Live.Number, chunk.Score, want[chunk.Live.Number])
		}
	}
}

// iterate computes personalised PageRank by brute force.
func iterate(o opened, seeds []retrieve.Entity, damping float64) []float64 {
	adjacency := o.generation.Live.Graph
	classes, chunks := adjacency.Classes(), adjacency.Chunks()
	start := make([]float64, classes+chunks)
	sum := 0.0
	for _, seed := range seeds {
		sum += max(0, seed.Similarity)
	}
	for _, seed := range seeds {
		start[seed.Place] = max(0, seed.Similarity) / sum
	}
	mass := slices.Clone(start)
	for range 400 {
		next := make([]float64, len(mass))
		for i := range next {
			next[i] = (1 - damping) * start[i]
		}
		for class := range uint32(classes) {
			to := adjacency.ChunksOf(class)
			for _, chunk := range to {
				next[classes+int(chunk)] += damping * mass[class] / float64(len(to))
			}
		}
		for chunk := range uint32(chunks) {
			to := adjacency.ClassesOf(chunk)
			for _, class := range to {
				next[class] += damping * mass[classes+int(chunk)] / float64(len(to))
			}
		}
		mass = next
	}
	return mass[classes:]
}

func TestSharesOfHybridAddUp(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, filter := range []retrieve.Filter{{}, {Prefix: "cities/"}} {
		query := o.query(t, retrieve.Hybrid, "the opera house of Oslo")
		query.Filter = filter
		result := o.run(t, query)
		explain := result.Explain.(retrieve.HybridExplain)
		require.True(t, len(explain.Chunks) != 0 && len(explain.Entities) != 0 && explain.Lists["chunks_bm25"].Hits != 0,
			"%+v", explain)
		largestMass, largestFused := 0.0, 0.0
		for _, chunk := range explain.Chunks {
			largestMass, largestFused = max(largestMass, chunk.Mass), max(largestFused, chunk.Fused)
		}
		for i, chunk := range explain.Chunks {
			sum := chunk.Plain + chunk.Rest
			for _, share := range chunk.Shares {
				sum += share.Share
			}
			assert.True(t, math.Abs(sum-1) <= 1e-9, "%+v: shares of %s sum to %g", filter, chunk.ID, sum)
			if seeded := (1 - explain.Damping) * chunk.Seed; math.Abs(chunk.Plain*chunk.Mass-seeded) > 1e-5 {
				t.Errorf("%+v: %s has %g of its mass by itself, want %g: what came through classes is not reported",
					filter, chunk.ID, chunk.Plain*chunk.Mass, seeded)
			}
			want := math.Sqrt(chunk.Mass/largestMass) + explain.Mix*chunk.Fused/largestFused
			assert.True(t, math.Abs(result.Chunks[i].Score-want) <= 1e-6,
				"score %g, by its explanation %g", result.Chunks[i].Score, want)
		}
	}
}

func TestFillingUpStopsAtWhatIsAllowed(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.query(t, retrieve.Unweaver, "Tromsø")
	query.TopChunks, query.TopEntities = 9, 1
	result := o.run(t, query)
	filled := 0
	for _, chunk := range result.Chunks {
		if chunk.Filled {
			if filled++; chunk.Score != 0 {
				t.Errorf("a chunk that fills up has score %g", chunk.Score)
			}
		}
	}
	assert.True(t, len(result.Chunks) == 9 && filled != 0 && !result.Chunks[0].Filled,
		"%d chunks, %d of them to fill up", len(result.Chunks), filled)
	query.Filter.Prefix = "people/"
	if result := o.run(t, query); len(result.Chunks) != 3 {
		t.Errorf("the people have 3 chunks, got %v", o.keys(result))
	}
	query.Params = retrieve.Params{"fill": false}
	query.Filter.Prefix = ""
	if result := o.run(t, query); len(result.Chunks) != 1 {
		t.Errorf("without filling up: %v", o.keys(result))
	}
}

func TestNothingThatFitsIsNoMatch(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range methods.Registry().ListPlain() {
		query := o.query(t, method, "zzzq wxyv")
		query.MinSim = 0.99
		result := o.run(t, query)
		assert.True(t, result.Reason == retrieve.NoMatch && len(result.Chunks)+len(result.Entities) == 0 &&
			result.Explain == nil, "%s: %+v", method, result)
	}
}

func TestUnderParityABallotVotesAsOftenAsAChunkNamesItsEntityAndNothingIsAddedOrHeldBack(t *testing.T) {
	documents := []retrievetest.Document{
		{Key: "a", Title: "a", Chunks: []retrievetest.Chunk{{Text: "one. ", Entities: []string{"kvarn"}}}},
		{Key: "b", Title: "b", Chunks: []retrievetest.Chunk{{Text: "two. ", Entities: []string{"kvarn", "kvarn"}}}},
		{Key: "c", Title: "c", Chunks: []retrievetest.Chunk{{Text: "three. ", Entities: []string{"fjell"}}}},
	}
	for _, parity := range []bool{false, true} {
		o := openDocuments(t, documents, retrievetest.Options{Spec: func(spec *core.Spec) { spec.Parity = parity }})
		query := o.query(t, "unweaver", "kvarn")
		query.TopChunks, query.TopEntities, query.Explain = 3, 1, true
		result := o.run(t, query)
		first := result.Chunks[0].Live.ID
		counts := result.Explain.(retrieve.WeightedExplain)
		if !parity {
			assert.True(t, first == retrievetest.ChunkID(documents[0], 0) && len(result.Chunks) == 3 && counts.Votes == 2, "%+v",
				counts)
			continue
		}
		assert.True(t, first == retrievetest.ChunkID(documents[1], 0) && len(result.Chunks) == 2, "%v", o.keys(result))
		assert.True(t, counts.Votes == 3 && counts.Chunks[0].Count == 2, "%+v", counts)
		assert.InDelta(t, 2.0/3, result.Chunks[0].Score, 1e-12)
		query = o.query(t, "unweaver", "zzzq wxyv")
		query.MinSim = 0.99
		assert.Empty(t, o.run(t, query).Reason)
	}
}

func TestAnEmptyIndexSaysSo(t *testing.T) {
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", nil, retrievetest.Options{})
	generation, err := openBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	defer generation.Close()
	for _, method := range methods.Registry().ListPlain() {
		query := retrieve.Query{Text: "x", Method: method, TopChunks: 3, TopEntities: 3}
		result, err := opened{stores, built, generation}.searcher().Run(t.Context(), generation, query)
		assert.True(t, err == nil && result.Reason == retrieve.EmptyIndex, "%s: %+v %v", method, result, err)
	}
}

func TestHybridWithoutVectorsIsDegraded(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.query(t, retrieve.Hybrid, "opera house")
	query.Vector = nil
	result := o.run(t, query)
	assert.True(t, slices.Equal(result.Degraded, []string{"dense"}) && o.keys(result)[0] == "cities/oslo.txt",
		"%v %v", result.Degraded, o.keys(result))
}

func TestLostVectorsNameTheRepairAndWithoutRecordsNamesAreCanonical(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.query(t, retrieve.Aligned, "Oslo in Norway")
	query.Params = retrieve.Params{"solver": "cls"}
	searcher := o.searcher()
	searcher.Vectors = forgetful{o.stores.Vectors}
	_, err := searcher.Run(t.Context(), o.generation, query)
	assert.True(t, fault.Is(err, fault.StoreDown), "a vector that is found and cannot be fetched: %v", err)
	searcher.Vectors = vectorsmemory.New()
	_, err = searcher.Run(t.Context(), o.generation, query)
	assert.True(t, fault.Is(err, fault.StoreDown), "a collection that was lost: %v", err)
	for _, method := range []string{retrieve.Hybrid, retrieve.Unweaver, retrieve.PPR, retrieve.Aligned} {
		query := o.query(t, method, "Oslo in Norway")
		whole := o.run(t, query)
		for says, records := range map[string]retrieve.Records{
			"lost": retrievetest.NewRecords(), "slow": sleeping{}, "away": refusing(),
		} {
			synctest.Test(t, func(t *testing.T) {
				searcher := o.searcher()
				searcher.Records = records
				begun := time.Now()
				result, err := searcher.Run(t.Context(), o.generation, query)
				require.True(t, err == nil && time.Since(begun) <= time.Second,
					"%s, %s: %v after %s", method, says, err, time.Since(begun))
				assert.Equal(t, o.keys(whole), o.keys(result), "%s, %s", method, says)
				assert.Equal(t, []string{"records"}, result.Degraded, "%s, %s", method, says)
				for i, entity := range result.Entities {
					assert.Equal(t, names.Key(whole.Entities[i].Name, false), entity.Name, "%s, %s", method, says)
				}
			})
		}
	}
}

// sleeping never answers.
type sleeping struct{}

func (sleeping) GetRecords(ctx context.Context, _ []string) ([][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func refusing() retrieve.Records {
	records := retrievetest.NewRecords()
	records.Fail(fault.StoreDown.At("connect", "redis"))
	return records
}

// forgetful finds rows that it cannot fetch.
type forgetful struct{ vectors.Store }

func (forgetful) Fetch(_ context.Context, _ string, keys []string) ([][]float32, error) {
	return make([][]float32, len(keys)), nil
}

func TestRowsOfOtherGenerationsDoNotCount(t *testing.T) {
	o := open(t, retrievetest.Options{})
	question := "What is the capital of Norway?"
	want := o.keys(o.run(t, o.query(t, retrieve.Unweaver, question)))
	documents := retrievetest.Sample()
	documents[1].Chunks[0].Text = "Bergen was the capital of Norway before Oslo. "
	documents[1].Chunks[0].Entities = append(documents[1].Chunks[0].Entities, "capital of Norway")
	retrievetest.Build(t, o.stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
	got := o.keys(o.run(t, o.query(t, retrieve.Unweaver, question)))
	assert.True(t, slices.Equal(got, want), "after another generation was written: %v, before %v", got, want)
}

func TestAnUnknownMethodIsRefused(t *testing.T) {
	o := open(t, retrievetest.Options{})
	_, err := o.searcher().Run(t.Context(), o.generation, retrieve.Query{Text: "x", Method: "magic"})
	assert.True(t, fault.Is(err, fault.InvalidParam), "%v", err)
}
