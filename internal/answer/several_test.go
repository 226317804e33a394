package answer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
