package answer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/snippet"
)

func TestNotesAreReadWithTheMarksOfTheirPassages(t *testing.T) {
	a, b, c := core.ID{1}, core.ID{2}, core.ID{3}
	var response Response
	for _, id := range []core.ID{c, a, b} {
		response.Chunks = append(response.Chunks, Chunk{Passage: Passage{ID: id.String()}})
	}
	text := response.addNotes([]retrieve.Note{
		{Kind: retrieve.NoteFacts, Text: "{facts}", Sources: [][]core.ID{{a}, {a, b}}},
		{Kind: retrieve.NoteSummary, Text: strings.Repeat("long ", 500), Sources: [][]core.ID{{c}}},
		{Kind: retrieve.NoteSummary, Text: "A town.", Sources: [][]core.ID{{b, {9}, a}}},
		{Kind: retrieve.NoteSummary, Text: "Its passages were left out.", Sources: [][]core.ID{{{9}}}},
	}, 100)
	assert.Contains(t, text, "in the order of the facts: [2]; [2][3]\n{facts}\n")
	assert.Contains(t, text, "in common: [3][2]\nA town.\n")
	assert.NotContains(t, text, "long", "it does not fit")
	assert.NotContains(t, text, "left out", "nothing of the result says it")
	assert.Len(t, response.Notes, 2)
	assert.Equal(t, []string{retrieve.NotesBudget, retrieve.NotesPassages}, response.Degraded)
	assert.True(t, response.Usage.NoteTokens > 10 && response.Usage.NoteTokens <= 100, "%d", response.Usage.NoteTokens)
	assert.Equal(t, []bool{false, true, true}, response.markCited())
	assert.Equal(t, "A town. [3] [2]", response.quotedNotes())
}

// A snippet has a line break for the end of a page, so that its places stay those of the text.
func TestASnippetHasNoFormFeed(t *testing.T) {
	chunk := Chunk{Passage: Passage{Text: "One.\n\f\nTwo."}}
	chunk.showSnippet(snippet.Found{Span: snippet.Span{End: 11}})
	assert.True(t, *chunk.Snippet == (Snippet{Text: "One.\n\n\nTwo.", End: 11}), "%+v", chunk.Snippet)
}
