package gemmethod_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

func open(t *testing.T, options retrievetest.Options) retrievetest.Opened {
	t.Helper()
	return retrievetest.Open(t, retrievetest.Sample(), options)
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// english is the language of the texts that questions are made of.
var english = text.LanguageOf("en")

// explained runs a query by gem and returns its explanation.
func explained(t *testing.T, o retrievetest.Opened, query retrieve.Query) (retrieve.Result, gemmethod.GemExplain) {
	t.Helper()
	result := o.Run(t, query)
	reported, ok := result.Explain.(gemmethod.GemExplain)
	require.True(t, ok, "explained by %T (%s)", result.Explain, result.Reason)
	return result, reported
}

func TestGemRanksChunksByTheBestOfTheirQuestions(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.Query(t, gem.Name, "Who reached the South Pole first?")
	query.Params = retrieve.Params{"summaries": false, "fill": false}
	query.TopChunks = 3
	result, reported := explained(t, o, query)

	type scored struct {
		number   uint32
		score    float64
		question string
	}
	var want []scored
	_, chunks, _ := o.Generation.Live.Counts()
	for number := range chunks {
		chunk := o.Generation.Live.ByNumber(number)
		text, err := o.Generation.ReadText(t.Context(), chunk)
		require.NoError(t, err)
		best := scored{number: chunk.Number, score: -2}
		asked := builtin.QuestionsIn(english, text, 5)
		for _, question := range asked {
			vector := gem.AverageQuestion(o.Embedder().Vector(question), o.Embedder().Vector(text))
			if score := dot(vector, gem.ToUnit(query.ChunkVector)); score > best.score+1e-7 {
				best.score, best.question = score, question
			}
		}
		if len(asked) == 0 {
			best.score, best.question = dot(gem.ToUnit(o.Embedder().Vector(text)), gem.ToUnit(query.ChunkVector)), text
		}
		want = append(want, best)
	}
	slices.SortStableFunc(want, func(a, b scored) int {
		if a.score > b.score {
			return -1
		}
		return 1
	})
	require.True(t, len(result.Chunks) == 3 && len(reported.Chunks) == 3 && len(reported.Summaries) == 0,
		"%d chunks, %+v", len(result.Chunks), reported)
	for i, chunk := range result.Chunks {
		assert.True(t, chunk.Live.Number == want[i].number && math.Abs(chunk.Score-want[i].score) <= 1e-5 &&
			reported.Chunks[i].Question == want[i].question && reported.Chunks[i].ID == chunk.Live.ID.String(),
			"place %d: chunk %d of %v (%q), want %+v", i, chunk.Live.Number, chunk.Score, reported.Chunks[i].Question, want[i])
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
		parsed, err := core.ParseID(id)
		require.NoError(t, err)
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
		_, err := o.Searcher().Run(t.Context(), o.Generation, query)
		assert.True(t, fault.Is(err, fault.InvalidParam), "themes without summaries: %v", err)
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
	all := o.Run(t, query)
	least, most := math.MaxInt, 0
	for _, chunk := range all.Chunks {
		least, most = min(least, int(chunk.Live.Tokens)), most+int(chunk.Live.Tokens)
	}
	for _, tokens := range []int{least, most / 2, most} {
		query.Params = retrieve.Params{"tokens": tokens}
		used := 0
		result := o.Run(t, query)
		for _, chunk := range result.Chunks {
			used += int(chunk.Live.Tokens)
		}
		assert.True(t, used <= tokens && len(result.Chunks) != 0,
			"%d chunks of %d tokens, asked for %d", len(result.Chunks), used, tokens)
		assert.True(t, tokens != most || len(result.Chunks) == len(all.Chunks),
			"%d chunks fit, want %d", len(result.Chunks), len(all.Chunks))
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
	_, err = o.Searcher().Run(t.Context(), generation, query)
	require.True(t, fault.Is(err, fault.SegmentDamage), "%v", err)
	retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{}) // writes the same file again
	assert.NotEmpty(t, o.Run(t, query).Chunks)
}

func TestAMemoryIsMappedWhenItIsAskedForAndGoesWithItsGeneration(t *testing.T) {
	stores, folder := retrievetest.NewStores(t), t.TempDir()
	var err error
	stores.Cache, err = localfile.New(folder, 0)
	require.NoError(t, err)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	generation, err := retrievetest.OpenBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	o := retrievetest.Opened{Stores: stores, Built: built, Generation: generation}
	before := retrievetest.CountMappings(t, folder)
	for range 2 {
		o.Run(t, o.Query(t, gem.Name, "South Pole"))
	}
	assert.Equal(t, before+2, retrievetest.CountMappings(t, folder), "questions and the graph are mapped")
	generation.Close()
	assert.Zero(t, retrievetest.CountMappings(t, folder), "after the last holder went")
}

// A search along edges is that which looks at every pair of nodes at every step, on weights that are computed from
// texts and questions.
// Promises: 92.
func TestAGraphSearchOfGemIsThatOfDenseComputation(t *testing.T) {
	o := open(t, retrievetest.Options{})
	_, chunks, _ := o.Generation.Live.Counts()
	embed := o.Embedder()
	base, mean := make([][]float32, chunks), make([][]float32, chunks)
	questionsOf := make([][][]float32, chunks)
	ids := make([]string, chunks)
	for number := range chunks {
		chunk := o.Generation.Live.ByNumber(number)
		text, err := o.Generation.ReadText(t.Context(), chunk)
		require.NoError(t, err)
		ids[number], base[number] = chunk.ID.String(), gem.ToUnit(embed.Vector(text))
		for _, question := range builtin.QuestionsIn(english, text, 5) {
			questionsOf[number] = append(questionsOf[number], gem.AverageQuestion(embed.Vector(question), embed.Vector(text)))
		}
		if len(questionsOf[number]) == 0 {
			questionsOf[number] = [][]float32{base[number]}
		}
		mean[number] = gem.Mean(base[number], questionsOf[number])
	}
	w := make([][]float64, chunks) // clipped, the three nearest of either
	for i := range chunks {
		w[i] = make([]float64, chunks)
		for j := range chunks {
			if i != j {
				w[i][j] = (max(0, dot(mean[i], base[j])) + max(0, dot(mean[j], base[i]))) / 2
			}
		}
	}
	kept, heaviest := make([][]float64, chunks), retrievetest.SummaryWeight
	for i := range chunks {
		kept[i] = make([]float64, chunks)
	}
	for i := range chunks {
		order := make([]int, chunks)
		for j := range order {
			order[j] = j
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case w[i][a] > w[i][b]:
				return -1
			case w[i][a] < w[i][b]:
				return 1
			}
			return strings.Compare(ids[a], ids[b])
		})
		for _, j := range order[:3] {
			kept[i][j], kept[j][i] = w[i][j], w[i][j]
			heaviest = max(heaviest, w[i][j])
		}
	}
	for _, alpha := range []float64{0, 0.3, 0.7, 1} {
		query := o.Query(t, gem.Name, "Who reached the South Pole first?")
		query.TopChunks, query.MinSim = 6, -1
		query.Params = retrieve.Params{"search": "graph", "alpha": alpha, "summaries": false}
		result, reported := explained(t, o, query)
		prompt := gem.ToUnit(query.ChunkVector)
		score := make([]float64, chunks)
		for i := range chunks {
			score[i] = -2
			for _, question := range questionsOf[i] {
				score[i] = max(score[i], dot(question, prompt))
			}
		}
		var want []int
		for len(want) < 6 {
			best, priority, led := -1, 0.0, false
			for u := range chunks {
				weight := 0.0
				for _, c := range want {
					weight = max(weight, kept[c][u])
				}
				value := alpha*score[u] + (1-alpha)*weight/heaviest
				if weight == 0 {
					value = score[u]
				}
				if slices.Contains(want, u) || led && weight == 0 {
					continue
				}
				if best < 0 || weight > 0 && !led || value > priority {
					best, priority, led = u, value, weight > 0
				}
			}
			want = append(want, best)
		}
		for i, chunk := range result.Chunks {
			step := reported.Chunks[i].Step
			assert.True(t, (i <= 0 || chunk.Score <= result.Chunks[i-1].Score) && (step == nil || chunk.Score <= step.Priority) &&
				math.Abs(chunk.Similarity-score[want[i]]) <= 1e-5,
				"alpha %v, place %d: score %v, similarity %v, %+v", alpha, i, chunk.Score, chunk.Similarity, step)
			assert.True(t, int(chunk.Live.Number) == want[i] && step != nil && ((i == 0) == (step.From == "") || alpha >= 1),
				"alpha %v, place %d: chunk %d (%+v), dense %v", alpha, i, chunk.Live.Number, step, want)
			if i > 0 && step != nil && step.From != "" {
				from := slices.Index(ids, step.From)
				assert.True(t, math.Abs(kept[from][want[i]]-step.Weight) <= 1e-5 &&
					math.Abs(alpha*score[want[i]]+(1-alpha)*step.Weight/heaviest-step.Priority) <= 1e-5,
					"alpha %v, place %d: %+v", alpha, i, step)
			}
		}
		require.True(t, len(result.Chunks) == 6, "%d chunks", len(result.Chunks))
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
	query := o.Query(t, gem.Name, "South Pole")
	_, err := o.Searcher().Run(t.Context(), o.Generation, query)
	assert.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), "unweaver index --rebuild --index"),
		"%v", err)
}
