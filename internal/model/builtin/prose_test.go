package builtin_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/text"
)

const markdown = "## How Unweaver walks\n\n| words, Fusion Walk, Graph Store | 12 ms |\n\n" +
	"```\nGraph Store calls Fusion Walk\n```\n\n" +
	"`\"chunk/2\", \"config: Chunking\", Graph Store)`\n\nAda Lovelace met Charles Babbage in London.\n"

func TestRulesPassOverWhatIsNoProse(t *testing.T) {
	questions := builtin.QuestionsIn(text.LanguageOf("en"), markdown, 20)
	reply, err := builtin.Chat{Language: "en"}.Complete(t.Context(), model.Call{Task: model.Triples, Input: markdown})
	require.True(t, err == nil && len(questions) != 0 && strings.Contains(reply.Text, "Lovelace"),
		"%q %q %v", questions, reply.Text, err)
	for _, said := range append(questions, reply.Text) {
		assert.True(t, !strings.ContainsAny(said, "|#`") && !strings.Contains(said, "Fusion"), "asked or stated: %q", said)
	}
	code := builtin.QuestionsIn(text.LanguageOf("en"), "```\nGraph Store calls Fusion Walk\n```", 5)
	assert.True(t, len(code) == 0, "code is asked: %q", code)
}

// Questions of prose are in indexes that stand; what is blanked of a passage would change them.
func TestPassagesOfWikipediaAreProse(t *testing.T) {
	file, err := os.Open("../../../testdata/musique/corpus.jsonl")
	require.NoError(t, err)
	defer file.Close()
	lines, seen := bufio.NewScanner(file), 0
	for lines.Scan() {
		var passage map[string]any
		require.NoError(t, json.Unmarshal(lines.Bytes(), &passage))
		content, _ := passage["text"].(string)
		if content != "" {
			seen++
		}
		places := text.NotProse(content)
		assert.True(t, len(places) == 0, "%q", content[places[0][0]:places[0][1]])
	}
	assert.True(t, seen >= 100, "%d passages", seen)
}
