package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// part returns text[start:end] in code points.
func part(text string, span any) string {
	fields := span.(map[string]any)
	return string([]rune(text)[int(fields["start"].(float64)):int(fields["end"].(float64))])
}

func TestEveryChunkOfAnAnswerShowsWhatMatched(t *testing.T) {
	f := serve(t, nil)
	for _, method := range []string{"hybrid", "unweaver", "bm25", "vector", "ppr"} {
		out := f.ask(map[string]any{"query": "Which ship sailed from Tromsø to the Arctic Circle?", "method": method})
		marked := map[string]bool{}
		for _, one := range out["chunks"].([]any) {
			chunk := one.(map[string]any)
			text := chunk["text"].(string)
			snippet := chunk["snippet"].(map[string]any)
			assert.True(t, snippet["text"] == part(text, snippet) && strings.TrimSpace(text) == snippet["text"],
				"%s: %q has the snippet %v: all of so short a text", method, text, snippet)
			highlights, _ := chunk["highlights"].([]any)
			for _, span := range highlights {
				marked[part(text, span)] = true
			}
		}
		assert.True(t, marked["Tromsø"] && marked["Arctic"] && (method != "hybrid" || marked["sailed"]) && !marked["the"],
			"%s: marked %v", method, marked)
	}
	first := f.ask(map[string]any{"query": "Fram"})["chunks"].([]any)[0].(map[string]any)
	chunk := f.get("/v1/indexes/sample/chunks/" + first["id"].(string))
	if _, has := chunk["chunk"].(map[string]any)["snippet"]; has {
		t.Error("a chunk that no word asks for has no snippet")
	}
}

func TestAnAnswerSaysHowSureItIsAndWhatKindItHas(t *testing.T) {
	f := serve(t, nil)
	out := f.ask(map[string]any{"query": "Who reached the South Pole first?", "answer": true})
	answer := out["answer"].(map[string]any)
	if confidence, ok := out["confidence"].(float64); !ok || confidence <= 0.5 || answer["kind"] != "best_sentence" ||
		!strings.Contains(answer["text"].(string), "Roald Amundsen reached the South Pole first.") {
		t.Errorf("%v %v", out["confidence"], answer)
	}
	out = f.ask(map[string]any{"query": "Who reached the finals of the 2018 football cup in Ottawa?", "answer": true})
	answer = out["answer"].(map[string]any)
	if confidence, ok := out["confidence"].(float64); !ok || confidence > 0.3 || answer["kind"] != "none" ||
		len(answer["citations"].([]any)) != 1 || !strings.Contains(answer["text"].(string), "the best passage is [1]") {
		t.Errorf("%v %v", out["confidence"], answer)
	}
	out = f.ask(map[string]any{"query": "asdfghjkl qwertyuiop", "answer": true})
	if out["reason"] != "no_match" || len(out["chunks"].([]any)) != 0 || out["confidence"] != nil ||
		out["answer"].(map[string]any)["kind"] != "none" {
		t.Errorf("%v", out)
	}
	out = f.ask(map[string]any{"query": "Fram", "method": "bm25"})
	assert.True(t, out["confidence"] == nil, "bm25 was not calibrated: %v", out["confidence"])
}
