package apr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model/triples"
)

func TestWhatAQuestionAsksForIsNotCompared(t *testing.T) {
	got := apr.AsksOf([]triples.Triple{
		{Head: "?x", Relation: "directed", Tail: "Dune"},
		{Head: "?x", Relation: "was born in", Tail: "?y"}, // any triple of the relation would fit
		{Head: "DUNE", Relation: "?", Tail: "1984"},
	})
	want := apr.Asks{
		Words:     []apr.Word{{Head: "?x", Relation: "directed", Tail: "Dune"}, {Head: "DUNE", Relation: "?", Tail: "1984"}},
		Entities:  []string{"Dune", "1984"},
		Relations: []string{"directed"},
		Lines:     []string{"directed Dune", "DUNE 1984"},
	}
	assert.Equal(t, want, got)
	if got := apr.AsksOf([]triples.Triple{{Head: "?x", Relation: "is", Tail: "?y"}}); len(got.Words) != 0 {
		t.Errorf("a question of placeholders alone asks %+v", got)
	}
	many := make([]triples.Triple, 10_000)
	for i := range many {
		many[i] = triples.Triple{Head: "a", Relation: "r", Tail: "b"}
	}
	if got := apr.AsksOf(many); len(got.Words) != apr.MaxAsked || len(got.Entities) != 2 {
		t.Errorf("%d triples, entities %v", len(got.Words), got.Entities)
	}
}
