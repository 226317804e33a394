package triples_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/text"
)

const content = "Marie Curie was born in Warsaw. She discovered radium in Paris. Oslo lies in Norway."

func part(t *testing.T) triples.Part {
	parts := triples.CutParts(text.LanguageOf("en"), content)
	require.True(t, len(parts) == 1 && len(parts[0].Sentences) == 3, "parts %+v", parts)
	return parts[0]
}

func triple(head, relation, tail string, sentence int) triples.Triple {
	return triples.Triple{Head: head, Relation: relation, Tail: tail, Source: triples.Source{Sentence: sentence}}
}

func TestAnswersAreReadInEveryFormThatModelsGive(t *testing.T) {
	born, found := triple("Marie Curie", "was born in", "Warsaw", 0), triple("Marie Curie", "discovered", "radium", 1)
	const bornJSON = `{"sentence":0,"head":"Marie  Curie","relation":"was born in","tail":"Warsaw"}`
	const foundJSON = `{"sentence":1,"head":"Marie Curie","relation":"discovered","tail":"radium"}`
	both := `{"triples":[` + bornJSON + `,` + foundJSON + `]}`
	for name, c := range map[string]struct {
		answer string
		want   []triples.Triple
		unfit  int
		ok     bool
	}{
		"as asked for":   {both, []triples.Triple{born, found}, 0, true},
		"in a fence":     {"Here:\n```json\n" + both + "\n```", []triples.Triple{born, found}, 0, true},
		"a bare list":    {`[` + bornJSON + `]`, []triples.Triple{born}, 0, true},
		"lists of three": {`{"triples":[["Marie Curie","discovered","radium"]]}`, []triples.Triple{found}, 0, true},
		"broken off":     {both[:len(both)-20], []triples.Triple{born}, 0, true},
		"twice":          {`[` + bornJSON + `,` + bornJSON + `]`, []triples.Triple{born}, 0, true},
		"a sentence that does not exist": {strings.Replace(both, `"sentence":1`, `"sentence":99`, 1),
			[]triples.Triple{born, found}, 0, true},
		"a wrong sentence": {strings.Replace(both, `"sentence":1`, `"sentence":2`, 1),
			[]triples.Triple{born, found}, 0, true},
		"one with empty parts": {`[["Marie Curie"," ","radium"],["a","b"],7,` + bornJSON + `]`,
			[]triples.Triple{born}, 3, true},
		"none":                   {`{"triples":[]}`, nil, 0, true},
		"none, broken off":       {`{"triples":[`, nil, 0, false},
		"nothing of use":         {`{"triples":[["a","","b"]]}`, nil, 1, false},
		"no list":                {`{"triples":{"head":"a"}}`, nil, 0, false},
		"words":                  {"There are no triples.", nil, 0, false},
		"nothing":                {"", nil, 0, false},
		"longer than any answer": {strings.Repeat(" ", triples.MaxAnswer) + both, nil, 0, false},
	} {
		said, ok := part(t).Read(c.answer)
		assert.True(t, ok == c.ok && said.Unfit == c.unfit && slices.Equal(said.Triples, c.want),
			"%s: %+v %v", name, said, ok)
	}
}

func TestTenThousandTriplesAreCut(t *testing.T) {
	var list []string
	for i := range 10_000 {
		list = append(list, fmt.Sprintf(`["Oslo","has","house %d"]`, i))
	}
	said, ok := part(t).Read("[" + strings.Join(list, ",") + "]")
	assert.True(t, ok && len(said.Triples) == triples.MaxChunkTriples && said.Cut == 10_000-triples.MaxChunkTriples &&
		said.Triples[0].Source.Sentence == 2, "%d triples, %d cut", len(said.Triples), said.Cut)
}

func TestPartsAreTheWholeTextAndNumberItsSentences(t *testing.T) {
	long := strings.Repeat(content+" ", 200)
	parts := triples.CutParts(text.LanguageOf("en"), long)
	var whole string
	next := 0
	for _, p := range parts {
		assert.Equal(t, next, p.From, "a part begins at sentence")
		next += len(p.Sentences)
		whole += p.Text()
	}
	assert.True(t, len(parts) >= 3 && whole == long,
		"%d parts of %d bytes, the text has %d", len(parts), len(whole), len(long))
	said, _ := parts[1].Read(`[["Oslo","lies in","Norway"]]`)
	assert.True(t, len(said.Triples) == 1 && said.Triples[0].Source.Sentence >= parts[1].From,
		"a triple of the second part stands at %+v", said.Triples)
	for _, p := range triples.CutParts(text.LanguageOf("en"), strings.Repeat("Oslo is old. ", 130)) {
		assert.True(t, len(p.Sentences) <= triples.MostSentences, "a part of %d sentences", len(p.Sentences))
	}
	assert.Nil(t, triples.CutParts(text.LanguageOf("en"), " \n"), "parts of nothing")
}

func TestTheRulesOfTheBuiltInModelsGiveTriples(t *testing.T) {
	p := part(t)
	reply := musttest.Get(builtin.Chat{}.Complete(t.Context(), p.Call("d")))(t)
	said, ok := p.Read(reply.Text)
	want := []triples.Triple{triple("Marie Curie", "was born in", "Warsaw", 0), triple("Oslo", "lies in", "Norway", 2)}
	assert.True(t, ok && reflect.DeepEqual(said.Triples, want), "%v, %+v", ok, said)
}

func TestNamesOfASentenceWithTheWordsBetween(t *testing.T) {
	content := "Marie Curie was born in Warsaw. She knew Paris. In Paris, Curie met Pierre Curie (Paris)."
	got := triples.FindByRule(text.LanguageOf("en"), "c", content, []string{"Curie", "Marie Curie", "Warsaw", "Paris", "Pierre Curie"})
	assert.Equal(t,
		[]triples.Triple{{"Marie Curie", "was born in", "Warsaw", triples.Source{"c", 0}}, {"Curie", "met", "Pierre Curie", triples.Source{"c", 2}}},
		got)
	got = triples.FindByRule(text.LanguageOf("en"), "c", "Ärzte in Köln über Ärzte.", []string{"köln", "ärzte"})
	assert.True(t, len(got) == 2 && got[0] == (triples.Triple{"Ärzte", "in", "Köln", triples.Source{"c", 0}}), "%v", got)
	assert.Nil(t, triples.FindByRule(text.LanguageOf("en"), "c", content, nil), "without names")
}
