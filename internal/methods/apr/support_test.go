package apr_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

var warsaw = apr.Word{Head: "Marie Curie", Relation: "was born in", Tail: "Warsaw"}

// The authors' program files facts under given knowledge as long as no answer was found (specs, 15.6).
func TestFactsStayUnderFactsWhateverIsKnownOfEarlierAnswers(t *testing.T) {
	index, _ := indexOf(t, towns())
	question := ask("Where was Marie Curie born?", warsaw)
	near := apr.Word{Head: "Curie", Relation: "comes from", Tail: "Warsaw"}
	for name, c := range map[string]struct {
		earlier apr.Earlier
		told    bool
	}{
		"the first question":      {apr.Earlier{}, false},
		"an answer without words": {apr.Earlier{Score: 1}, false},
		"a question far away":     {apr.Earlier{Score: apr.AnswersFrom - .01, Words: []apr.Word{near}}, false},
		"a near one":              {apr.Earlier{Score: apr.AnswersFrom, Words: []apr.Word{near, near}}, true},
	} {
		s := settings(2000)
		s.Earlier = c.earlier
		found := index.Find(question, s)
		text := found.Choice.Text
		if !strings.Contains(text, `"facts(`) || strings.Contains(text, `"given knowledge(`) != c.told ||
			found.Echoed != c.told || len(found.Told) == 0 {
			t.Errorf("%s: %s", name, text)
		}
		facts, given := text, ""
		if c.told {
			given, facts, _ = strings.Cut(text, `"facts(`)
		}
		if strings.Contains(facts, "comes from") || c.told && strings.Count(given, "comes from") != 1 {
			t.Errorf("%s: the answer stands among facts, or twice: %s", name, text)
		}
		if found.Choice.Tokens != tokens.Count(text) || found.Sizes[found.Choice.Encoding] != found.Choice.Tokens {
			t.Errorf("%s: %d tokens, %v", name, found.Choice.Tokens, found.Sizes)
		}
	}
	s := settings(0)
	without := index.Find(question, settings(2000))
	s.Budget = without.Choice.Tokens + 1 // answers go first
	s.Earlier = apr.Earlier{Score: 1, Words: []apr.Word{near}}
	if found := index.Find(question, s); found.Echoed || found.Choice.Tokens > s.Budget || len(found.Told) == 0 {
		t.Errorf("%d tokens of %d: %s", found.Choice.Tokens, s.Budget, found.Choice.Text)
	}
}

func TestSupportIsWhatComparingEveryEdgeGives(t *testing.T) {
	index, book := indexOf(t, towns())
	vector := builtin.Embedder{}.Vector
	lines := [][]float32{vector("Marie Curie was born in Warsaw"), vector("ships of the north"), {1}}
	got, err := index.Support(t.Context(), lines, 3, nil)
	if err != nil || len(got) != 3 || len(got[0]) != 1 || len(got[1])+len(got[2]) != 0 ||
		book.Text(got[0][0].Edge) != "Marie Curie was born in Warsaw" || got[0][0].Cosine < .99 {
		t.Errorf("%v %v", got, err)
	}
	none := func(uint32) bool { return false }
	if got, _ := index.Support(t.Context(), lines, 3, none); len(got[0]) != 0 {
		t.Errorf("an edge that is not let in supports: %v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := index.Support(ended, lines, 3, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it does not end: %v", err)
	}
	words := []apr.Word{warsaw, {Head: "Warsaw", Relation: "was born in", Tail: "Marie Curie"}, {Head: "?", Relation: "", Tail: ""}}
	if edges := index.EdgesOf(words); len(edges) != 1 || book.Text(edges[warsaw]) != "Marie Curie was born in Warsaw" {
		t.Errorf("%v", edges)
	}
}
