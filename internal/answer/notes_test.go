package answer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/neural"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/snippet"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestNotesAreReadWithTheMarksOfTheirPassages(t *testing.T) {
	a, b, c := core.ID{1}, core.ID{2}, core.ID{3}
	var response Response
	for _, id := range []core.ID{c, a, b} {
		response.Chunks = append(response.Chunks, Chunk{Passage: Passage{ID: id.String()}})
	}
	now := time.Now()
	text, marked := response.addNotes([]retrieve.Note{
		{Kind: retrieve.NoteFacts, Text: "{facts}", Sources: [][]core.ID{{a}, {a, b}}},
		{Kind: retrieve.NoteSummary, Text: strings.Repeat("long ", 500), Sources: [][]core.ID{{c}}},
		{Kind: retrieve.NoteSummary, Text: "A town.", Sources: [][]core.ID{{b, {9}, a}}},
		{Kind: retrieve.NoteSummary, Text: "Its passages were left out.", Sources: [][]core.ID{{{9}}}},
	}, 100, now)
	assert.False(t, marked)
	assert.Contains(t, text, "in the order of the facts: [2]; [2][3]\n{facts}\n")
	assert.Contains(t, text, "in common: [3][2]\nA town.\n")
	assert.NotContains(t, text, "long", "it does not fit")
	assert.NotContains(t, text, "left out", "nothing of the result says it")
	assert.Len(t, response.Notes, 2)
	assert.Equal(t, []string{retrieve.NotesBudget, retrieve.NotesPassages}, response.Degraded)
	assert.True(t, response.Usage.NoteTokens > 10 && response.Usage.NoteTokens <= 100, "%d", response.Usage.NoteTokens)
	assert.Equal(t, []bool{false, true, true}, response.markCited())
	assert.Equal(t, "A town. [3] [2]", response.quotedNotes(now))
}

// Notes have the marks of the passages that they rest on. Few of what supersedes one is named, passages first.
func TestNotesHaveTheMarksOfVersions(t *testing.T) {
	old, weight := Chunk{Passage: Passage{ID: core.ID{1}.String(), Document: "old"}}, 2.0
	old.SupersededBy, old.MoreNewer = []string{"v", "w", "x", "y", "new"}, 7
	newer := Chunk{Passage: Passage{ID: core.ID{2}.String(), Document: "new"}}
	newer.Authority = &weight
	response := Response{Chunks: []Chunk{old, newer}}
	sources := [][]core.ID{{{1}, {2}}}
	text, marked := response.addNotes([]retrieve.Note{
		{Kind: retrieve.NoteFacts, Text: "{facts}", Sources: sources},
		{Kind: retrieve.NoteSummary, Text: "A town.", Sources: sources},
	}, 1000, time.Now())
	const why = `superseded by "new", passage 2; superseded by "v"; superseded by "w"; and 9 more`
	assert.True(t, marked)
	assert.Equal(t, 2, strings.Count(text, ": [1] ("+why+")[2] (authority 2)\n"), text)
	assert.Equal(t, "A town. [1] ("+why+") [2]", response.quotedNotes(time.Now()))
}

// A snippet has a line break for the end of a page, so that its places stay those of the text.
func TestASnippetHasNoFormFeed(t *testing.T) {
	chunk := Chunk{Passage: Passage{Text: "One.\n\f\nTwo."}}
	chunk.showSnippet(snippet.Found{Span: snippet.Span{End: 11}})
	assert.True(t, *chunk.Snippet == (Snippet{Text: "One.\n\n\nTwo.", End: 11}), "%+v", chunk.Snippet)
}

// insideAsker embeds questions by other vectors than passages.
type insideAsker struct{ model.Embedder }

func (a insideAsker) Questions() model.Embedder { return insideQuestion(a) }

type insideQuestion struct{ model.Embedder }

func (q insideQuestion) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	for i := range texts {
		texts[i] = "query: " + texts[i]
	}
	return q.Embedder.Embed(ctx, texts)
}

// Promises: 131.
func TestAQuestionIsEmbeddedAsOneByTheWeightsOfItsGeneration(t *testing.T) {
	described := musttest.Get(neural.Describe("e5", t.TempDir()))(t)
	made := core.Fingerprint{Provider: model.Neural, Model: described.Info().Model}
	asked, err := asQuestions(insideAsker{described}, made)
	_, is := asked.(insideQuestion)
	assert.True(t, err == nil && is, "%T, %v", asked, err)
	for _, other := range []string{strings.Replace(made.Model, "1571", "1572", 1), made.Model + "1", "minilm"} {
		made.Model = other
		_, err := asQuestions(described, made)
		assert.True(t, fault.Is(err, fault.EmbedderDown) && strings.Contains(fault.As(err).Hint, "index again"),
			"vectors of %s are compared with those of %s: %v", other, described.Info().Model, err)
	}
}

// Ranks are weighed by confidence where one is known; what is twice stands once, and what only fills up comes last.
func TestPassagesAreFusedByRankAndConfidence(t *testing.T) {
	passages := func(index string, confidence *float64, chunks ...Chunk) *question {
		one := &question{response: Response{Index: index, Confidence: confidence}}
		one.plan.TopChunks = 4
		for i, chunk := range chunks {
			chunk.Index, chunk.IndexRank = index, i+1
			one.response.Chunks = append(one.response.Chunks, chunk)
		}
		return one
	}
	chunk := func(id string) Chunk { return Chunk{Passage: Passage{ID: id, Version: id}} }
	at := func(id, version string, start int) Chunk {
		return Chunk{Passage: Passage{ID: id, Version: version, Start: start}}
	}
	filled := Chunk{Passage: Passage{ID: "filled", Version: "f"}, Filled: true}
	sure, unsure := 0.9, 0.2
	for name, c := range map[string]struct {
		asked []*question
		want  string
	}{
		"none is known": {[]*question{passages("a", nil, chunk("1"), chunk("2")), passages("b", nil, chunk("3"), chunk("4"))},
			"[1 3 2 4]"},
		"one is surer": {[]*question{passages("a", &unsure, chunk("1")), passages("b", &sure, chunk("2"), chunk("3"))},
			"[2 3 1]"},
		"one is unknown": {[]*question{
			passages("a", &unsure, chunk("1")), passages("b", nil, chunk("2")), passages("c", &sure, chunk("3")),
		}, "[3 2 1]"},
		"fillers": {[]*question{passages("a", nil, filled), passages("b", nil, chunk("1"), chunk("2"))}, "[1 2 filled]"},
		"one key and text": {[]*question{passages("a", nil, chunk("1"), at("2", "v", 0)), passages("b", nil, at("2", "w", 7))},
			"[1 2]"},
		"one span of a content": {[]*question{
			passages("a", nil, at("1", "v", 0), at("2", "v", 9)), passages("b", nil, at("3", "v", 9), at("4", "v", 20)),
		}, "[1 3 4]"},
		"too many": {[]*question{
			passages("a", nil, chunk("1"), chunk("2"), chunk("3")), passages("b", nil, chunk("4"), chunk("5")),
		}, "[1 4 2 5]"},
		"nothing": {[]*question{passages("a", nil), passages("b", nil)}, "[]"},
	} {
		ids := []string{}
		for i, chunk := range fuseChunks(c.asked) {
			assert.Equal(t, i+1, chunk.Rank)
			ids = append(ids, chunk.ID)
		}
		assert.Equal(t, c.want, fmt.Sprint(ids), name)
	}
}

func TestThePartsOfAQuerysTimeAreItsTotal(t *testing.T) {
	timings := Timings{
		Open: 1, Parse: 2, Embed: 3, Search: 4, Ballots: 5, Election: 6, Chunks: 7, Rerank: 8, Context: 9, Answer: 10,
	}
	timings.End(57500 * time.Microsecond)
	assert.Equal(t, 57.5, timings.Total)
	assert.Equal(t, 2.5, timings.Other)
	timings.End(time.Millisecond)
	assert.Zero(t, timings.Other)
}
