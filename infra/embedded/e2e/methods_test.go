package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
)

// Every method answers, explains and repeats itself; hybrid finds no fewer gold passages than plain search.
func TestEveryMethodAnswersAndHybridFindsNoLessThanPlainSearch(t *testing.T) {
	sp := spec(t, "methods", copySample(t), nil, "indexes.methods.chunking.strategy=document",
		"indexes.methods.enrich=[facts, gem]")
	completed(t, index(t, shared.Control, sp))
	for _, method := range config.Methods {
		body := map[string]any{"method": method, "explain": true}
		out, again := ask(t, shared.HTTP, "methods", question, body), ask(t, shared.HTTP, "methods", question, body)
		assert.True(t, len(chunksOf(out)) == 5 && out["explain"] != nil && out["method"] == method, "%s: %v", method, out)
		assert.Equal(t, ids(chunksOf(out)), ids(chunksOf(again)), "%s does not repeat itself", method)
	}
	file := must(os.Open(filepath.Join(sample, "questions.jsonl")))(t)
	defer func() { _ = file.Close() }()
	found, want := map[string]int{}, 0
	for sc := bufio.NewScanner(file); sc.Scan(); {
		var q struct {
			Question string   `json:"question"`
			Gold     []string `json:"gold"`
		}
		require.NoError(t, json.Unmarshal(sc.Bytes(), &q))
		want += len(q.Gold)
		for _, method := range []string{"hybrid", "bm25", "vector"} {
			got := ask(t, shared.HTTP, "methods", q.Question, map[string]any{"method": method, "top_chunks": 10})
			documents := map[string]bool{}
			for _, c := range chunksOf(got) {
				_, id, _ := strings.Cut(c["document"].(string), "#")
				documents[id] = true
			}
			for _, gold := range q.Gold {
				if documents[gold] {
					found[method]++
				}
			}
		}
	}
	assert.True(t, found["hybrid"] >= found["bm25"] && found["hybrid"] >= found["vector"] && found["hybrid"] >= want/2,
		"of %d gold passages the first ten hold: %v", want, found)
}
