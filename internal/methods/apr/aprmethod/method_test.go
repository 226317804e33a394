package aprmethod_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr/aprmethod"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func withFacts(t *testing.T) retrievetest.Opened {
	return retrievetest.Open(t, retrievetest.Sample(), retrievetest.Options{Facts: true})
}

func TestFactsLeadToTheChunksThatSayThem(t *testing.T) {
	o := withFacts(t)
	result := o.Run(t, o.Query(t, aprmethod.Name, "What did Roald Amundsen reach?"))
	assert.Equal(t, "people/amundsen.txt", o.Generation.Live.Key(int(result.Chunks[0].Live.Document)),
		"the first chunk is of")
	explain := result.Explain.(aprmethod.APRExplain)
	require.True(t, slices.Equal(explain.Names, []string{"Roald Amundsen"}) && len(explain.Runs) != 0 &&
		len(explain.Told) != 0, "%+v", explain)
	assert.True(t, strings.Contains(explain.Text, "South Pole") && tokens.Count(explain.Text) == explain.Tokens &&
		explain.Sizes[explain.Encoding] == explain.Tokens && len(explain.Sizes) == 3,
		"reported %q in %d tokens, sizes %v", explain.Text, explain.Tokens, explain.Sizes)
	for _, fact := range explain.Told {
		for _, chunk := range fact.Chunks {
			id := musttest.Get(core.ParseID(chunk))(t)
			assert.True(t, o.Generation.Live.FindChunk(id) != nil, "%+v cites no chunk of the generation", fact)
		}
		assert.True(t, len(fact.Chunks) != 0, "%+v cites nothing", fact)
	}
	for _, encoding := range explain.Sizes {
		assert.True(t, encoding >= explain.Tokens, "%s is not the smallest of %v", explain.Encoding, explain.Sizes)
	}
}

func TestFactsOfChunksThatAFilterLeavesOutAreNotTold(t *testing.T) {
	o := withFacts(t)
	query := o.Query(t, aprmethod.Name, "What did Roald Amundsen reach?")
	query.Filter.Prefix = "cities/"
	result := o.Run(t, query)
	for _, chunk := range result.Chunks {
		key := o.Generation.Live.Key(int(chunk.Live.Document))
		assert.True(t, strings.HasPrefix(key, "cities/"), "a chunk of %s", key)
	}
	explain, _ := result.Explain.(aprmethod.APRExplain)
	assert.False(t, strings.Contains(explain.Text, "Pole"), "reported %s", explain.Text)
}

func TestFactsForTheContextRestOnPassagesOfTheResult(t *testing.T) {
	o := withFacts(t)
	for _, context := range []string{aprmethod.ContextFacts, aprmethod.ContextBoth} {
		query := o.Query(t, aprmethod.Name, "What did Roald Amundsen reach?")
		query.Params, query.TopChunks, query.Explain = retrieve.Params{"context": context}, 2, false
		result := o.Run(t, query)
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
	o := withFacts(t)
	query := o.Query(t, aprmethod.Name, "which ship set out from the capital")
	require.True(t, len(query.Reading.Rows) == 0, "%d names: the test says nothing", len(query.Reading.Rows))
	result := o.Run(t, query)
	explain := result.Explain.(aprmethod.APRExplain)
	assert.True(t, len(result.Chunks) != 0 && len(explain.Runs) != 0 && len(explain.Names) == 0,
		"%d chunks, %+v", len(result.Chunks), explain)
}

func TestAGenerationWithoutFactsSaysWhatToSet(t *testing.T) {
	o := retrievetest.Open(t, retrievetest.Sample(), retrievetest.Options{})
	query := o.Query(t, aprmethod.Name, "Who lives in Oslo?")
	query.Params = nil
	_, err := o.Searcher().Run(t.Context(), o.Generation, query)
	const hint = "indexes.sample.enrich: [facts]"
	e := fault.As(err)
	assert.True(t, e != nil && e.Code == fault.InvalidParam && strings.Contains(e.Hint, hint), "got %v", err)
}
