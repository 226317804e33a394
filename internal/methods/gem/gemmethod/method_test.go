package gemmethod_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

func open(t *testing.T, options retrievetest.Options) retrievetest.Opened {
	return retrievetest.Open(t, retrievetest.Sample(), options)
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

var english = text.LanguageOf("en")

func explained(t *testing.T, o retrievetest.Opened, query retrieve.Query) (retrieve.Result, gemmethod.GemExplain) {
	result := o.Run(t, query)
	reported, ok := result.Explain.(gemmethod.GemExplain)
	require.True(t, ok, "explained by %T (%s)", result.Explain, result.Reason)
	return result, reported
}

// asked is a chunk: its vector, and its questions with theirs; its text where it has no question.
type asked struct {
	base    []float32
	texts   []string
	vectors [][]float32
}

// best returns the question that is nearest to a prompt, and how near.
func (a asked) best(prompt []float32) (question string, score float64) {
	score = -2
	for i, vector := range a.vectors {
		if near := dot(vector, gem.ToUnit(prompt)); near > score+1e-7 {
			question, score = a.texts[i], near
		}
	}
	return question, score
}

// chunksOf returns the chunks of a generation by their numbers, as questions and vectors are made.
func chunksOf(t *testing.T, o retrievetest.Opened) (out []asked) {
	_, chunks, _ := o.Generation.Live.Counts()
	for number := range chunks {
		content := musttest.Get(o.Generation.ReadText(t.Context(), o.Generation.Live.ByNumber(number)))(t)
		one := asked{base: gem.ToUnit(o.Embedder().Vector(content)), texts: builtin.QuestionsIn(english, content, 5)}
		for _, question := range one.texts {
			one.vectors = append(one.vectors, gem.AverageQuestion(o.Embedder().Vector(question), o.Embedder().Vector(content)))
		}
		if len(one.texts) == 0 {
			one.texts, one.vectors = []string{content}, [][]float32{one.base}
		}
		out = append(out, one)
	}
	return out
}

func TestGemRanksChunksByTheBestOfTheirQuestions(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, gem.Name, "Who reached the South Pole first?")
	query.Params = retrieve.Params{"summaries": false, "fill": false}
	query.TopChunks = 3
	result, reported := explained(t, o, query)
	chunks := chunksOf(t, o)
	order := make([]int, len(chunks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		_, one := chunks[a].best(query.ChunkVector)
		_, other := chunks[b].best(query.ChunkVector)
		return cmp.Compare(other, one)
	})
	require.True(t, len(result.Chunks) == 3 && len(reported.Chunks) == 3 && len(reported.Summaries) == 0,
		"%d chunks, %+v", len(result.Chunks), reported)
	for i, chunk := range result.Chunks {
		question, score := chunks[order[i]].best(query.ChunkVector)
		assert.True(t, int(chunk.Live.Number) == order[i] && math.Abs(chunk.Score-score) <= 1e-5 &&
			reported.Chunks[i].Question == question && reported.Chunks[i].ID == chunk.Live.ID.String(),
			"place %d: chunk %d of %v, %+v", i, chunk.Live.Number, chunk.Score, reported.Chunks[i])
	}
}

func TestASummaryBringsAMemberAndCitesIt(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, gem.Name, retrievetest.SummaryQuestion)
	query.MinSim = -1
	query.TopChunks = 1
	result, reported := explained(t, o, query)
	require.True(t, len(result.Chunks) == 1 && len(reported.Summaries) == 1, "%d chunks, %+v", len(result.Chunks), reported)
	first, summary := result.Chunks[0], reported.Summaries[0]
	assert.True(t, slices.Contains(summary.Members, first.Live.ID.String()) && len(summary.Members) == 2 &&
		summary.Theme == 0 && summary.Question == retrievetest.SummaryQuestion && math.Abs(first.Score-1) <= 1e-6 &&
		reported.Chunks[0].Summary != nil && slices.Equal(reported.Chunks[0].Themes, []int{0}),
		"chunk %v of score %v, reported %+v", first.Live.ID, first.Score, reported)
	assert.True(t, first.Similarity <= 0.9, "the chunk itself is said to be as near as the summary: %v", first.Similarity)
	query.TopChunks = 9 // each chunk comes once, also one that a summary brought
	result, _ = explained(t, o, query)
	seen := map[uint32]bool{}
	for _, chunk := range result.Chunks {
		assert.False(t, seen[chunk.Live.Number], "chunk %d comes twice", chunk.Live.Number)
		seen[chunk.Live.Number] = true
	}
	query.Without.Documents = map[string]bool{} // a summary of members that are left out brings nothing
	for _, id := range summary.Members {
		parsed := musttest.Get(core.ParseID(id))(t)
		query.Without.Documents[o.Generation.Live.Key(int(o.Generation.Live.FindChunk(parsed).Document))] = true
	}
	_, reported = explained(t, o, query)
	assert.True(t, len(reported.Summaries) == 0, "%+v", reported.Summaries)
	query.Without.Documents = nil
	query.Params = retrieve.Params{"summaries": false}
	_, reported = explained(t, o, query)
	assert.True(t, len(reported.Summaries) == 0, "summaries are off: %+v", reported.Summaries)
}

func TestThemesThatAreAskedForComeFirstWhateverTheQuestion(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, question := range []string{"Who reached the South Pole first?", "xyzzy plugh"} {
		query := o.Query(t, gem.Name, question)
		query.Params = retrieve.Params{"themes": 1}
		result := o.Run(t, query)
		assert.True(t, len(result.Notes) != 0 && result.NotesAlone && result.Notes[0].Text != "" &&
			slices.Contains(result.Notes[0].Sources[0], result.Chunks[0].Live.ID),
			"%s: %+v, %+v", question, result.Notes, result.Chunks)
		query.Params = retrieve.Params{"themes": 1, "summaries": false}
		musttest.Refuse(o.Searcher().Run(t.Context(), o.Generation, query))(t, fault.InvalidParam)
		query.Params = retrieve.Params{"themes": 1}
		query.Without.Documents = map[string]bool{o.Generation.Live.Key(int(result.Chunks[0].Live.Document)): true}
		without := []string{retrieve.NotesFilter}
		if result := o.Run(t, query); len(result.Notes) > 0 || !slices.Equal(result.Degraded, without) {
			t.Errorf("a filter leaves out a member: %+v, %v", result.Notes, result.Degraded)
		}
	}
}

func TestChunksOfGemFitTheirTokens(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, gem.Name, "Who reached the South Pole first?")
	query.TopChunks = 8
	all, least, most := o.Run(t, query), math.MaxInt, 0
	for _, chunk := range all.Chunks {
		least, most = min(least, int(chunk.Live.Tokens)), most+int(chunk.Live.Tokens)
	}
	for _, tokens := range []int{least, most / 2, most} {
		query.Params = retrieve.Params{"tokens": tokens}
		used, result := 0, o.Run(t, query)
		for _, chunk := range result.Chunks {
			used += int(chunk.Live.Tokens)
		}
		assert.True(t, used <= tokens && len(result.Chunks) != 0,
			"%d chunks of %d tokens, asked for %d", len(result.Chunks), used, tokens)
		assert.True(t, tokens != most || len(result.Chunks) == len(all.Chunks), "%d, %d", len(result.Chunks), len(all.Chunks))
	}
}

func TestGemWithoutItsEnrichmentNamesTheSetting(t *testing.T) {
	o := open(t, retrievetest.Options{Unasked: true})
	_, err := o.Searcher().Run(t.Context(), o.Generation, o.Query(t, gem.Name, "South Pole"))
	assert.True(t, fault.Is(err, fault.InvalidParam) && strings.Contains(err.Error(), "indexes.*.enrich"), "%v", err)
}

func TestTheQuestionsOfAnotherEmbedderAreNotCompared(t *testing.T) {
	o := open(t, retrievetest.Options{Edit: func(m *core.Manifest) { m.Chunk.Model = "another" }})
	_, err := o.Searcher().Run(t.Context(), o.Generation, o.Query(t, gem.Name, "South Pole"))
	assert.True(t, fault.Is(err, fault.FormatUnknown), "%v", err)
}

func TestADamagedFileOfQuestionsIsNamedAndMendedByARestore(t *testing.T) {
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	for _, segment := range built.Manifest.Segments.FilesOf("gem", "questions") {
		require.NoError(t, stores.Blobs.Delete(t.Context(), built.Index.SegmentKey(segment.SHA256)))
	}
	generation, err := retrievetest.OpenBuilt(t.Context(), stores, built)
	require.NoError(t, err, "what was not asked for is not missed")
	t.Cleanup(generation.Close)
	o := retrievetest.Opened{Stores: stores, Built: built, Generation: generation}
	query := o.Query(t, gem.Name, "South Pole")
	musttest.Refuse(o.Searcher().Run(t.Context(), generation, query))(t, fault.SegmentDamage)
	retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{}) // writes the same file again
	assert.NotEmpty(t, o.Run(t, query).Chunks)
}

func TestAMemoryIsMappedWhenItIsAskedForAndGoesWithItsGeneration(t *testing.T) {
	stores, folder := retrievetest.NewStores(t), ""
	stores.Cache, folder = retrievetest.CacheIn(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	generation := musttest.Get(retrievetest.OpenBuilt(t.Context(), stores, built))(t)
	o := retrievetest.Opened{Stores: stores, Built: built, Generation: generation}
	before := retrievetest.CountMappings(t, folder)
	for range 2 {
		o.Run(t, o.Query(t, gem.Name, "South Pole"))
	}
	assert.Equal(t, before+2, retrievetest.CountMappings(t, folder), "questions and the graph are mapped")
	generation.Close()
	assert.Zero(t, retrievetest.CountMappings(t, folder), "after the last holder went")
}

// A search along edges goes over the graph that texts and questions give, computed anew: the three nearest of either.
// Promises: 92.
func TestAGraphSearchOfGemIsThatOfDenseComputation(t *testing.T) {
	o := open(t, retrievetest.Options{})
	chunks := chunksOf(t, o)
	var nodes gem.Nodes
	for _, one := range chunks {
		nodes.Base.Append(one.base)
		nodes.Mean.Append(gem.Mean(one.base, one.vectors))
	}
	every := musttest.Get(nodes.Matrix())(t)
	graph, heaviest := musttest.Get(every.NearestGraph(3))(t), retrievetest.SummaryWeight
	for i := range chunks {
		_, weights := graph.Neighbours(i)
		heaviest = max(heaviest, slices.Max(weights))
	}
	query := o.Query(t, gem.Name, "Who reached the South Pole first?")
	match := func(node int) (gem.Match, bool) {
		_, score := chunks[node].best(query.ChunkVector)
		return gem.Match{Node: node, Score: score}, true
	}
	var flat []gem.Match
	for i := range chunks {
		one, _ := match(i)
		flat = append(flat, one)
	}
	flat = gem.Rank(flat, gem.Best, gem.MembersOf{})
	for _, alpha := range []float64{0, 0.3, 0.7, 1} {
		query.TopChunks, query.MinSim = 6, -1
		query.Params = retrieve.Params{"search": "graph", "alpha": alpha, "summaries": false}
		result, reported := explained(t, o, query)
		search := gem.Search{Graph: graph, Heaviest: heaviest, Alpha: alpha, Summaries: gem.MembersOf{}, Match: match}
		want := search.OrderNodes(flat, 6)
		require.Len(t, result.Chunks, 6)
		for i, chunk := range result.Chunks {
			step, from := reported.Chunks[i].Step, ""
			if want[i].From >= 0 {
				from = o.Generation.Live.ByNumber(want[i].From).ID.String()
			}
			require.True(t, int(chunk.Live.Number) == want[i].Node && step != nil && step.From == from,
				"alpha %v, place %d: chunk %d (%+v), dense %+v", alpha, i, chunk.Live.Number, step, want[i])
			assert.True(t, math.Abs(chunk.Similarity-want[i].Score) <= 1e-5 && math.Abs(step.Weight-want[i].Weight) <= 1e-5 &&
				math.Abs(step.Priority-want[i].Priority) <= 1e-5 && chunk.Score <= step.Priority &&
				(i == 0 || chunk.Score <= result.Chunks[i-1].Score), "alpha %v, place %d: %+v, %+v", alpha, i, step, want[i])
		}
	}
}

// In a search along edges, too, a summary brings a member, each chunk comes once, and tokens are bounded.
func TestAGraphSearchGoesThroughSummariesAndCitesMembers(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, gem.Name, retrievetest.SummaryQuestion)
	query.MinSim, query.TopChunks = -1, 9
	query.Params = retrieve.Params{"search": "graph"}
	result, reported := explained(t, o, query)
	require.True(t, len(reported.Summaries) == 1 && reported.Chunks[0].Summary != nil && reported.Chunks[0].Step != nil &&
		reported.Chunks[1].Step.Theme != nil && *reported.Chunks[1].Step.Theme == 0, "%+v", reported)
	seen := map[string]bool{}
	for _, chunk := range reported.Chunks {
		assert.False(t, seen[chunk.ID], "chunk %s comes twice", chunk.ID)
		seen[chunk.ID] = true
	}
	query.Params = retrieve.Params{"search": "graph", "tokens": int(result.Chunks[0].Live.Tokens)}
	result, _ = explained(t, o, query)
	assert.True(t, len(result.Chunks) == 1, "%d chunks for the tokens of one", len(result.Chunks))
	query.Params = retrieve.Params{"search": "graph"}
	first := o.Generation.Live.Key(int(result.Chunks[0].Live.Document))
	query.Without.Documents = map[string]bool{first: true} // neither chosen nor gone through
	result, reported = explained(t, o, query)
	for i, chunk := range result.Chunks {
		assert.True(t, o.Generation.Live.Key(int(chunk.Live.Document)) != first,
			"place %d is of a document that is left out", i)
		if from := reported.Chunks[i].Step.From; from != "" {
			id, err := core.ParseID(from)
			assert.True(t, err == nil && o.Generation.Live.Key(int(o.Generation.Live.FindChunk(id).Document)) != first,
				"place %d was come to by way of what is left out (%v)", i, err)
		}
	}
}

func TestParametersOfAGraphSearchAreChecked(t *testing.T) {
	method, err := methods.Registry().Method(gem.Name)
	require.NoError(t, err)
	for name, value := range map[string]any{"search": "walk", "alpha": 1.5} {
		_, err = method.Spec().ReadParams(map[string]any{name: value})
		assert.True(t, fault.Is(err, fault.InvalidParam), "%s %v: %v", name, value, err)
	}
	params, err := method.Spec().ReadParams(nil)
	assert.True(t, err == nil && params.Text("search") == "nearest" && params.Float("alpha") == 0.7, "%v (%v)", params, err)
}

func TestAMemoryWithoutAGraphIsDamaged(t *testing.T) {
	o := open(t, retrievetest.Options{Edit: func(m *core.Manifest) {
		m.Segments.Enriched = slices.DeleteFunc(m.Segments.Enriched, func(f core.EnrichedFile) bool {
			return f.Kind == spectral.Kind
		})
	}})
	_, err := o.Searcher().Run(t.Context(), o.Generation, o.Query(t, gem.Name, "South Pole"))
	musttest.Fail(t, err, fault.SegmentDamage, "unweaver index --rebuild --index")
}
