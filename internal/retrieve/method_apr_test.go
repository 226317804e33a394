package retrieve_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/aprmethod"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/apr/factstage"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

// withFacts returns the sample with the facts that rules find in it, and an embedder that embeds as the generation
// does.
func withFacts(t *testing.T) (o opened, embedder builtin.Embedder) {
	t.Helper()
	stores := retrievetest.NewStores(t)
	first, err := openBuilt(t.Context(), stores,
		retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{}))
	require.NoError(t, err)
	t.Cleanup(first.Close)
	embedder = builtin.Embedder{IDF: first.IDF.Weight}
	in := factstage.In{
		Language: text.LanguageOf("en"), Chat: builtin.Chat{}, Embedder: embedder,
		Fingerprint: core.Sum("sample"), Segmenter: apr.DefaultSegmenter,
	}
	var content bytes.Buffer
	_, err = in.Seal(t.Context(), sampleChunks(), &content)
	require.True(t, err == nil, "%v", err)
	sum := sha256.Sum256(content.Bytes())
	sha := hex.EncodeToString(sum[:])
	key := artifact.Index{Store: stores.Blobs, Name: "sample"}.SegmentKey(sha)
	size := int64(content.Len())
	_, err = stores.Blobs.Put(t.Context(), key, bytes.NewReader(content.Bytes()), size, blob.Cond{})
	require.True(t, err == nil, "%v", err)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{
		Edit: func(m *core.Manifest) {
			m.Segments.Enriched = []core.EnrichedFile{{Segment: core.Segment{SHA256: sha, Bytes: int64(content.Len())},
				Of: facts.Enrichment, Kind: "facts"}}
		},
	})
	generation, err := openBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	t.Cleanup(generation.Close)
	return opened{stores, built, generation}, embedder
}

func sampleChunks() iter.Seq2[enrich.Chunk, error] {
	return func(yield func(enrich.Chunk, error) bool) {
		for _, document := range retrievetest.Sample() {
			for n, chunk := range document.Chunks {
				one := enrich.Chunk{ID: retrievetest.ChunkID(document, n), Document: document.Key, Text: chunk.Text}
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}

func (o opened) askFacts(t *testing.T, embedder builtin.Embedder, question string) retrieve.Query {
	t.Helper()
	query := o.query(t, aprmethod.Name, question)
	query.Params = nil
	query.Vector = embedder.Vector(question)
	query.Reading = aprmethod.Method{}.Spec().Reader.ByRules(o.generation, question)
	for _, name := range query.Reading.Texts {
		query.Reading.Rows = append(query.Reading.Rows, embedder.Vector(name))
	}
	query.Explain = true
	return query
}

func TestFactsLeadToTheChunksThatSayThem(t *testing.T) {
	o, embedder := withFacts(t)
	result := o.run(t, o.askFacts(t, embedder, "What did Roald Amundsen reach?"))
	assert.Equal(t, "people/amundsen.txt", o.generation.Live.Key(int(result.Chunks[0].Live.Document)),
		"the first chunk is of")
	explain := result.Explain.(aprmethod.APRExplain)
	require.True(t, slices.Equal(explain.Names, []string{"Roald Amundsen"}) && len(explain.Runs) != 0 &&
		len(explain.Told) != 0, "%+v", explain)
	assert.True(t, strings.Contains(explain.Text, "South Pole") && tokens.Count(explain.Text) == explain.Tokens &&
		explain.Sizes[explain.Encoding] == explain.Tokens && len(explain.Sizes) == 3,
		"reported %q in %d tokens, sizes %v", explain.Text, explain.Tokens, explain.Sizes)
	for _, fact := range explain.Told {
		for _, chunk := range fact.Chunks {
			id, err := core.ParseID(chunk)
			assert.True(t, err == nil && o.generation.Live.FindChunk(id) != nil,
				"%+v cites no chunk of the generation: %v", fact, err)
		}
		assert.True(t, len(fact.Chunks) != 0, "%+v cites nothing", fact)
	}
	for _, encoding := range explain.Sizes {
		assert.True(t, encoding >= explain.Tokens, "%s is not the smallest of %v", explain.Encoding, explain.Sizes)
	}
}

func TestFactsOfChunksThatAFilterLeavesOutAreNotTold(t *testing.T) {
	o, embedder := withFacts(t)
	query := o.askFacts(t, embedder, "What did Roald Amundsen reach?")
	query.Filter.Prefix = "cities/"
	result := o.run(t, query)
	for _, chunk := range result.Chunks {
		key := o.generation.Live.Key(int(chunk.Live.Document))
		assert.True(t, strings.HasPrefix(key, "cities/"), "a chunk of %s", key)
	}
	explain, _ := result.Explain.(aprmethod.APRExplain)
	assert.False(t, strings.Contains(explain.Text, "Pole"), "reported %s", explain.Text)
}

func TestFactsForTheContextRestOnPassagesOfTheResult(t *testing.T) {
	o, embedder := withFacts(t)
	for _, context := range []string{aprmethod.ContextFacts, aprmethod.ContextBoth} {
		query := o.askFacts(t, embedder, "What did Roald Amundsen reach?")
		query.Params, query.TopChunks, query.Explain = retrieve.Params{"context": context}, 2, false
		result := o.run(t, query)
		require.True(t, len(result.Notes) == 1 && result.Notes[0].Kind == retrieve.NoteFacts &&
			strings.Contains(result.Notes[0].Text, "South Pole") && result.NotesAlone == (context == aprmethod.ContextFacts),
			"%s: %+v", context, result.Notes)
		said := map[core.ID]bool{}
		for _, sources := range result.Notes[0].Sources {
			for _, id := range sources {
				said[id] = true
				assert.True(t, slices.ContainsFunc(result.Chunks, func(chunk retrieve.Chunk) bool { return chunk.Live.ID == id }),
					"%s: a fact rests on %s, which is not of the result", context, id)
			}
		}
		for _, chunk := range result.Chunks {
			assert.True(t, !result.NotesAlone || said[chunk.Live.ID], "%s says none of the facts", chunk.Live.ID)
		}
	}
}

func TestAQuestionWithoutNamesIsComparedAsAWhole(t *testing.T) {
	o, embedder := withFacts(t)
	query := o.askFacts(t, embedder, "which ship set out from the capital")
	require.True(t, len(query.Reading.Rows) == 0, "%d names: the test says nothing", len(query.Reading.Rows))
	result := o.run(t, query)
	explain := result.Explain.(aprmethod.APRExplain)
	assert.True(t, len(result.Chunks) != 0 && len(explain.Runs) != 0 && len(explain.Names) == 0,
		"%d chunks, %+v", len(result.Chunks), explain)
}

func TestAGenerationWithoutFactsSaysWhatToSet(t *testing.T) {
	o := open(t, retrievetest.Options{})
	query := o.query(t, aprmethod.Name, "Who lives in Oslo?")
	query.Params = nil
	_, err := o.searcher().Run(t.Context(), o.generation, query)
	const hint = "indexes.sample.enrich: [facts]"
	e := fault.As(err)
	assert.True(t, e != nil && e.Code == fault.InvalidParam && strings.Contains(e.Hint, hint), "got %v", err)
}
