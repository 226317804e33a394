package dev

import (
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/starter/cli/show"
)

// DescribeLesson says in one sentence where the known answer of a question stands in a response of hybrid with its
// explanation, and where plain search has that chunk; empty where no chunk says it.
func DescribeLesson(got answer.Response, known string) string {
	explain := show.Explanation[retrieve.HybridExplain](got.Explain)
	for _, chunk := range got.Chunks {
		if !strings.Contains(chunk.Text, known) {
			continue
		}
		said := fmt.Sprintf("The answer, %s, is in [%d]", known, chunk.Rank)
		for _, one := range explain.Chunks {
			switch {
			case one.ID != chunk.ID:
			case one.BM25 == nil:
				said += ", which keyword search does not find at all"
			case one.BM25.Rank > chunk.Rank:
				said += fmt.Sprintf(", which keyword search (BM25) has at place %d", one.BM25.Rank)
			}
		}
		if shared := sharedName(got, chunk); shared != "" && chunk.Rank > 1 {
			said += fmt.Sprintf(": the graph walk reached it through %s, which [1] also mentions", shared)
		}
		return said + "."
	}
	return ""
}

// sharedName returns the first entity that led to both the first chunk and another.
func sharedName(got answer.Response, chunk answer.Chunk) string {
	for _, entity := range chunk.Entities {
		for _, other := range got.Chunks[0].Entities {
			if other.ID == entity.ID {
				return entity.Name
			}
		}
	}
	return ""
}
