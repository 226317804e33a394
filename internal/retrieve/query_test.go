package retrieve_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/internal/text/names"
)

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEveryMethodPutsTheAnswerFirst(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrievetest.ListPlain() {
		query := o.Query(t, method, "Who reached the South Pole first?")
		query.TopEntities = 1
		result := o.Run(t, query)
		assert.True(t, len(result.Chunks) == 4 && o.Keys(result)[0] == "people/amundsen.txt" &&
			result.Chunks[0].Live.Ordinal == 0, "%s: %v", method, o.Keys(result))
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
		query := o.Query(t, spec.Name, "ship of Norway")
		known := map[string]bool{}
		for _, shape := range spec.Explains {
			known[fmt.Sprintf("%T", shape.Zero)] = true
		}
		got := fmt.Sprintf("%T", o.Run(t, query).Explain)
		assert.True(t, known[got], "%s explains by %s, it says %v", spec.Name, got, known)
		query.Explain = false
		assert.Nil(t, o.Run(t, query).Explain, "%s", spec.Name)
	}
}

func TestVectorRanksAllChunksBySimilarity(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, retrieve.Vector, "a trading post of the Hanseatic League")
	query.TopChunks = 9
	var want []float64
	for _, document := range retrievetest.Sample() {
		for _, chunk := range document.Chunks {
			want = append(want, dot(query.ChunkVector, o.Embedder().Vector(embed.ChunkText(document.Title, chunk.Text))))
		}
	}
	sort.Sort(sort.Reverse(sort.Float64Slice(want)))
	for i, chunk := range o.Run(t, query).Chunks {
		assert.True(t, math.Abs(chunk.Score-want[i]) <= 1e-5 && chunk.HasSim,
			"place %d has %g, want %g", i, chunk.Score, want[i])
	}
}

func TestWeightedVotingCountsTheBallotsOfTheNearestClasses(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, retrieve.Unweaver, "Oslo in Norway")
	query.TopEntities, query.TopChunks = 3, 9
	query.Params = retrieve.Params{"fill": false}
	result := o.Run(t, query)
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
			query := o.Query(t, retrieve.Unweaver, "Oslo, the capital of Norway")
			query.Rule, query.TopChunks, query.Params = rule, 3, params
			result := o.Run(t, query)
			require.True(t, len(result.Chunks) == 3, "%s elects %d", rule, len(result.Chunks))
			for i, chunk := range result.Chunks {
				assert.True(t, i <= 0 || rule != "weighted" || chunk.Score <= result.Chunks[i-1].Score,
					"%s %v: scores rise", rule, params)
				for _, voter := range chunk.Why {
					assert.True(t, slices.Contains(result.Entities[voter].Votes, chunk.Live.Number),
						"%s: voter %d did not vote for chunk %d", rule, voter, chunk.Live.Number)
				}
			}
			explain, ok := result.Explain.(retrieve.ElectionExplain)
			assert.True(t, !ok || explain.Rule == rule && len(explain.Seats) == 3 && explain.RunnerUp != nil, "%s", rule)
		}
	}
	query := o.Query(t, retrieve.Unweaver, "Oslo")
	query.Rule = "dice"
	_, err := o.Searcher().Run(t.Context(), o.Generation, query)
	assert.True(t, err != nil, "an unknown rule elects")
}

func TestPPRGivesChunksTheMassOfAWalkFromTheNearestClasses(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, damping := range []float64{0.2, 0.5, 0.85} {
		query := o.Query(t, retrieve.PPR, "Edvard Grieg of Bergen")
		query.TopChunks, query.Params = 9, retrieve.Params{"damping": damping}
		result := o.Run(t, query)
		start, sum := walk.Start{}, 0.0
		for _, seed := range result.Entities {
			sum += max(0, seed.Similarity)
		}
		for _, seed := range result.Entities {
			start.Classes = append(start.Classes, walk.Weighted{ID: uint32(seed.Place), Weight: max(0, seed.Similarity) / sum})
		}
		graph, want := walk.Graph{Adjacency: o.Generation.Live.Graph}, map[uint32]float64{}
		for _, chunk := range graph.Run(start, damping, 1e-12, walk.View{}, walk.Steps{}).Chunks {
			want[chunk.ID] = chunk.Weight
		}
		assert.NotEmpty(t, result.Chunks)
		for _, chunk := range result.Chunks {
			assert.InDelta(t, want[chunk.Live.Number], chunk.Score, 1e-5, "damping %g, chunk %d", damping, chunk.Live.Number)
		}
	}
}

func TestSharesOfHybridAddUp(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, filter := range []retrieve.Filter{{}, {Prefix: "cities/"}} {
		query := o.Query(t, retrieve.Hybrid, "the opera house of Oslo")
		query.Filter = filter
		result := o.Run(t, query)
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
			assert.InDelta(t, (1-explain.Damping)*chunk.Seed, chunk.Plain*chunk.Mass, 1e-5, "what came through classes is told")
			assert.InDelta(t, math.Sqrt(chunk.Mass/largestMass)+explain.Mix*chunk.Fused/largestFused, result.Chunks[i].Score,
				1e-6, "score")
		}
	}
}

func TestFillingUpStopsAtWhatIsAllowed(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, retrieve.Unweaver, "Tromsø")
	query.TopChunks, query.TopEntities = 9, 1
	result := o.Run(t, query)
	for _, chunk := range result.Chunks {
		assert.True(t, !chunk.Filled || chunk.Score == 0, "of a chunk that fills up")
	}
	assert.True(t, len(result.Chunks) == 9 && result.Chunks[8].Filled && !result.Chunks[0].Filled, "%+v", result.Chunks)
	query.Filter.Prefix = "people/"
	assert.Len(t, o.Run(t, query).Chunks, 3, "the people have three")
	query.Params = retrieve.Params{"fill": false}
	query.Filter.Prefix = ""
	assert.Len(t, o.Run(t, query).Chunks, 1, "without filling up")
}

func TestNothingThatFitsIsNoMatch(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrievetest.ListPlain() {
		query := o.Query(t, method, "zzzq wxyv")
		query.MinSim = 0.99
		result := o.Run(t, query)
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
		o := retrievetest.Open(t, documents, retrievetest.Options{Spec: func(spec *core.Spec) { spec.Parity = parity }})
		query := o.Query(t, "unweaver", "kvarn")
		query.TopChunks, query.TopEntities, query.Explain = 3, 1, true
		result := o.Run(t, query)
		first := result.Chunks[0].Live.ID
		counts := result.Explain.(retrieve.WeightedExplain)
		if !parity {
			assert.True(t, first == retrievetest.ChunkID(documents[0], 0) && len(result.Chunks) == 3 && counts.Votes == 2, "%+v",
				counts)
			continue
		}
		assert.True(t, first == retrievetest.ChunkID(documents[1], 0) && len(result.Chunks) == 2, "%v", o.Keys(result))
		assert.True(t, counts.Votes == 3 && counts.Chunks[0].Count == 2, "%+v", counts)
		assert.InDelta(t, 2.0/3, result.Chunks[0].Score, 1e-12)
		query = o.Query(t, "unweaver", "zzzq wxyv")
		query.MinSim = 0.99
		assert.Empty(t, o.Run(t, query).Reason)
	}
}

func TestAnEmptyIndexSaysSo(t *testing.T) {
	o := retrievetest.Open(t, nil, retrievetest.Options{})
	for _, method := range retrievetest.ListPlain() {
		assert.Equal(t, retrieve.EmptyIndex, o.Run(t, retrieve.Query{Text: "x", Method: method, TopChunks: 3}).Reason, method)
	}
}

func TestLostVectorsNameTheRepairAndWithoutRecordsNamesAreCanonical(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, retrieve.Aligned, "Oslo in Norway")
	query.Params = retrieve.Params{"solver": "cls"}
	searcher := o.Searcher()
	searcher.Vectors = forgetful{o.Stores.Vectors}
	_, err := searcher.Run(t.Context(), o.Generation, query)
	assert.True(t, fault.Is(err, fault.StoreDown), "a vector that is found and cannot be fetched: %v", err)
	searcher.Vectors = vectorsmemory.New()
	_, err = searcher.Run(t.Context(), o.Generation, query)
	assert.True(t, fault.Is(err, fault.StoreDown), "a collection that was lost: %v", err)
	for _, method := range []string{retrieve.Hybrid, retrieve.Unweaver, retrieve.PPR, retrieve.Aligned} {
		query := o.Query(t, method, "Oslo in Norway")
		whole := o.Run(t, query)
		for says, records := range map[string]retrieve.Records{
			"lost": retrievetest.NewRecords(), "slow": sleeping{}, "away": refusing(),
		} {
			synctest.Test(t, func(t *testing.T) {
				searcher := o.Searcher()
				searcher.Records = records
				begun := time.Now()
				result, err := searcher.Run(t.Context(), o.Generation, query)
				require.True(t, err == nil && time.Since(begun) <= time.Second,
					"%s, %s: %v after %s", method, says, err, time.Since(begun))
				assert.Equal(t, o.Keys(whole), o.Keys(result), "%s, %s", method, says)
				assert.Equal(t, []string{"records"}, result.Degraded, "%s, %s", method, says)
				for i, entity := range result.Entities {
					assert.Equal(t, names.Key(whole.Entities[i].Name, false), entity.Name, "%s, %s", method, says)
				}
			})
		}
	}
}

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

type forgetful struct{ vectors.Store }

func (forgetful) Fetch(_ context.Context, _ string, keys []string) ([][]float32, error) {
	return make([][]float32, len(keys)), nil
}

func TestRowsOfOtherGenerationsDoNotCount(t *testing.T) {
	o := open(t, retrievetest.Options{})
	question := "What is the capital of Norway?"
	want := o.Keys(o.Run(t, o.Query(t, retrieve.Unweaver, question)))
	inNorway := o.Query(t, retrieve.Vector, question)
	words := o.Query(t, retrieve.Hybrid, question)
	words.Vector = nil
	assert.Equal(t, []string{"dense"}, o.Run(t, words).Degraded)
	collection := o.Generation.Manifest.Collections.Chunks
	row := musttest.Get(o.Stores.Vectors.Search(t.Context(), collection, inNorway.ChunkVector, 1))(t)[0]
	documents := retrievetest.Sample()
	documents[1].Chunks[0].Text = "Bergen was the capital of Norway before Oslo. "
	documents[1].Chunks[0].Entities = append(documents[1].Chunks[0].Entities, "capital of Norway")
	retrievetest.Build(t, o.Stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
	assert.Equal(t, want, o.Keys(o.Run(t, o.Query(t, retrieve.Unweaver, question))), "after another generation was written")
	for _, lost := range []bool{false, true} {
		for _, method := range []string{retrieve.Hybrid, retrieve.Unweaver, retrieve.Vector} {
			query := o.Query(t, method, question)
			query.TopEntities, query.TopChunks, query.ChunkVector = 99, 99, inNorway.ChunkVector
			degraded := o.Run(t, query).Degraded
			assert.Equal(t, lost, slices.Equal([]string{"vectors"}, degraded), "%s, lost: %t: %s", method, lost, degraded)
		}
		require.NoError(t, o.Stores.Vectors.Delete(t.Context(), collection, []string{row.Key}))
	}
}

func TestAnUnknownMethodIsRefused(t *testing.T) {
	o := open(t, retrievetest.Options{})
	_, err := o.Searcher().Run(t.Context(), o.Generation, retrieve.Query{Text: "x", Method: "magic"})
	assert.True(t, fault.Is(err, fault.InvalidParam), "%v", err)
}

func TestAlignedKeepsToCapacities(t *testing.T) {
	o := open(t, retrievetest.Options{})
	capacities := []retrieve.Capacity{{Prefix: "cities/", Value: 0.5}, {Document: "cities/oslo.txt", Value: 2}}
	for _, solver := range []string{"utility", "cls"} {
		query := o.Query(t, retrieve.Aligned, "Oslo and Bergen in Norway")
		query.TopChunks = 9
		query.Params = retrieve.Params{"solver": solver, "capacities": capacities, "classes": 4}
		explain := o.Run(t, query).Explain.(retrieve.AlignedExplain)
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
			key := o.Generation.Live.Key(int(o.Generation.Live.FindChunk(id).Document))
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
		query := o.Query(t, retrieve.Aligned, "Oslo and Bergen in Norway")
		query.Params = retrieve.Params{"solver": solver, "classes": 3}
		result := o.Run(t, query)
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
	o := retrievetest.Open(t, documents, retrievetest.Options{})
	query := o.Query(t, retrieve.Hybrid, "bright") // no word of a title: what distinguishes them is the walk
	query.TopChunks = 3
	explain := o.Run(t, query).Explain.(retrieve.HybridExplain)
	mass := map[string]float64{}
	for i, key := range o.Keys(o.Run(t, query)) {
		mass[key] = explain.Chunks[i].Mass
	}
	assert.True(t, len(mass) == 3 && mass["Vega (star)"] > 1.2*max(mass["Lyra"], mass["Zeta"]), "masses %v", mass)
}

// articles returns a film, its director, and what has more words of questions about them; called gives them titles.
func articles(called func(name string) string) []retrievetest.Document {
	var out []retrievetest.Document
	add := func(name, text string, entities ...string) {
		chunk := retrievetest.Chunk{Text: text, Entities: append(entities, called(name))}
		out = append(out, retrievetest.Document{Key: name, Title: called(name), Chunks: []retrievetest.Chunk{chunk}})
	}
	add("Ada Berg", "She grew up with seven brothers.")
	add("Mercury", "It went down with all hands.")
	add("Northern Night", "A drama by Ada Berg about Mercury.", "Ada Berg", "Mercury")
	for i := range 9 {
		add(fmt.Sprintf("Old Director %d", i), "A northern director, born where a director is born.", "Old Director 0")
	}
	return out
}

func TestAnIndexChoosesTheSettingAndAQueryMayChooseAnother(t *testing.T) {
	plain := func(name string) string { return name }
	page := func(name string) string { return "10-Q, page of " + name }
	many := func(m *core.Manifest) { m.Counts.Tokens = 700 * m.Counts.Chunks }
	for _, one := range []struct {
		name        string
		called      func(string) string
		edit        func(*core.Manifest)
		given, want string
		found       bool // film and director come first
	}{
		{"names", plain, nil, "auto", "linked", true},
		{"names in long chunks", plain, many, "auto", "linked", true},
		{"overruled", plain, nil, "short", "short", false},
		{"headings", page, nil, "auto", "short", false},
		{"headings of long chunks", page, many, "auto", "long", false},
		{"overruled for headings", page, nil, "linked", "linked", false},
	} {
		t.Run(one.name, func(t *testing.T) {
			o := retrievetest.Open(t, articles(one.called), retrievetest.Options{Edit: one.edit})
			query := o.Query(t, retrieve.Hybrid, "Where was the director of Northern Night born?")
			query.Params = retrieve.Params{"setting": one.given, "k_chunks": 1}
			result := o.Run(t, query)
			explain := result.Explain.(retrieve.HybridExplain)
			setting := explain.Setting
			keys := o.Keys(result)
			found := keys[0] == "Northern Night" && keys[1] == "Ada Berg"
			if setting.Name != one.want || found != one.found || (len(setting.Asked) == 1) != one.found ||
				(explain.Chunks[1].Seed > 0) != one.found { // the film names its director
				t.Errorf("%+v found %v", setting, keys)
			}
		})
	}
}

func TestATitleIsAskedForAsItIsWritten(t *testing.T) {
	documents := articles(func(name string) string { return name })
	for i := range 4 { // more than may have one title
		documents = append(documents, retrievetest.Document{
			Key: fmt.Sprintf("Some Song %d", i), Title: "Some Song",
			Chunks: []retrievetest.Chunk{{Text: fmt.Sprintf("Sung by %d.", i), Entities: []string{"Some Song"}}},
		})
	}
	o := retrievetest.Open(t, documents, retrievetest.Options{})
	berg := map[core.ID]bool{core.ClassID("ada berg"): true}
	for _, one := range []struct {
		question string
		without  map[core.ID]bool
		prefix   string
		want     int
	}{
		{question: "Who made Northern Night?", want: 1},
		{question: "What was Ada Berg's drama, and “Northern Night” what?", want: 2},
		{question: "Ada Berg, Ada Berg!", want: 1},
		{question: "Who made northern night?"},
		{question: "What was Mercury?"}, // one word may be any
		{question: "Who sang Some Song?"},
		{question: "Ada Berg", without: berg},
		{question: "Ada Berg", prefix: "N"},
	} {
		query := o.Query(t, retrieve.Hybrid, one.question)
		query.Without.Entities, query.Filter.Prefix = one.without, one.prefix
		assert.Len(t, o.Run(t, query).Explain.(retrieve.HybridExplain).Setting.Asked, one.want, "%q", one.question)
	}
}
