package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// An answer has the style of its index, or of its query, and its prompt names the language of the question.
func TestAnAnswerHasItsStyleAndLanguage(t *testing.T) {
	for name, c := range map[string]struct {
		index, query string
		short        bool
	}{
		"by default": {"", "", true}, "of the index": {"full", "", false},
		"of the query": {"", "full", false}, "the query wins": {"full", "short", true},
	} {
		var seen []model.Call
		f := serve(t, func(f *fixture, config *api.Config) {
			f.built = retrievetest.Build(t, f.stores, "sample", retrievetest.Sample(), retrievetest.Options{
				Generation: "styled", Seq: 2, Spec: func(spec *core.Spec) { spec.Answer.Style = c.index },
			})
			retrievetest.Publish(t, f.built, 2)
			config.Models = models{chat: parsing{seen: &seen}}
		})
		body := map[string]any{"query": "Ist Oslo die Hauptstadt von Norway, und was ist das für eine Stadt?", "answer": true}
		if c.query != "" {
			body["answer_style"] = c.query
		}
		f.ask(body)
		require.Len(t, seen, 1, name)
		assert.Equal(t, c.short, strings.Contains(seen[0].System, "Single Sentence"), "%s: %s", name, seen[0].System)
		assert.Contains(t, seen[0].System, "Answer in the language of the question: German.", name)
	}
}
