package triples

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/text"
)

func TestNamesOfASentenceWithTheWordsBetween(t *testing.T) {
	content := "Marie Curie was born in Warsaw. She knew Paris. In Paris, Curie met Pierre Curie (Paris)."
	got := FindByRule(text.LanguageOf("en"), "c", content, []string{"Curie", "Marie Curie", "Warsaw", "Paris", "Pierre Curie"})
	assert.Equal(t,
		[]Triple{{"Marie Curie", "was born in", "Warsaw", Source{"c", 0}}, {"Curie", "met", "Pierre Curie", Source{"c", 2}}},
		got)
	if got := FindByRule(text.LanguageOf("en"), "c", "Ärzte in Köln über Ärzte.", []string{"köln", "ärzte"}); len(got) != 2 ||
		got[0] != (Triple{"Ärzte", "in", "Köln", Source{"c", 0}}) {
		t.Errorf("got %v", got)
	}
	assert.Nil(t, FindByRule(text.LanguageOf("en"), "c", content, nil), "without names")
}
