package retrieve_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/retrieve"
)

func TestTheContextKeepsItsBudgetAndSkipsWhatDoesNotFit(t *testing.T) {
	long := strings.Repeat("A long sentence about nothing in particular. ", 200)
	ps := []retrieve.Passage{
		{ID: "a", Title: "A", Text: "Short one."},
		{ID: "b", Title: "B", Text: long},
		{ID: "c", Title: "C", Text: "Short three."},
	}
	ctx, used := retrieve.PackContext(ps, 200)
	assert.True(t, used[0] && !used[1] && used[2] && tokens.Count(ctx) <= 200 && strings.Contains(ctx, "[3] (C)"),
		"%v %q", used, ctx)
	ctx, used = retrieve.PackContext(ps[1:2], 100)
	assert.True(t, used[0] && tokens.Count(ctx) <= 100 && strings.HasSuffix(ctx, "."),
		"one that does not fit: %v %q", used, ctx)
	ctx, _ = retrieve.PackContext(nil, 100)
	assert.True(t, ctx == "", "nothing: %q", ctx)
}

func TestTheContextIsThatOfCountingEveryPassage(t *testing.T) {
	source := rand.New(rand.NewPCG(5, 6))
	words := strings.Fields("a lease Oslo signed 語語 antidisestablishmentarianism \n\n 1945 x,y;z")
	for round := range 300 {
		ps := make([]retrieve.Passage, 1+source.IntN(8))
		for i := range ps {
			for range 1 + source.IntN(60) {
				ps[i].Text += words[source.IntN(len(words))] + " "
			}
		}
		budget := 1 + source.IntN(500)
		_, got := retrieve.PackContext(ps, budget)
		if _, again := retrieve.PackContext(ps, budget); !slices.Equal(got, again) { // what was counted is remembered
			t.Fatalf("round %d, budget %d: %v, then %v", round, budget, got, again)
		}
		want, n := make([]bool, len(ps)), 0
		for i, p := range ps {
			if k := tokens.Count(fmt.Sprintf("[%d] (%s)\n%s\n\n", i+1, p.Title, p.Text)); n+k <= budget {
				n += k
				want[i] = true
			}
		}
		if n > 0 && !slices.Equal(got, want) { // else the first is cut
			t.Fatalf("round %d, budget %d: %v, want %v", round, budget, got, want)
		}
	}
}

func TestAnAnswerCitesWhatItRestsOn(t *testing.T) {
	ps := []retrieve.Passage{
		{ID: "a", Title: "Oslo", Text: "Oslo is the capital of Norway."},
		{ID: "b", Title: "Bergen", Text: "Bergen is a port in Norway."},
	}
	for name, c := range map[string]struct {
		passages           []retrieve.Passage
		budget             int
		quoted, text, kind string
		cited              []string
	}{
		"quoted":       {ps, 1000, "A port [2].", "A port [2].", retrieve.BestSentence, []string{"b"}},
		"nothing fits": {ps, 1000, "", "No sentence answers this; the best passage is [1].", retrieve.NoAnswer, []string{"a"}},
		"nothing is in the context": {ps, 1, "", "No sentence answers this; the best passage is [1].", retrieve.NoAnswer,
			[]string{"a"}},
		"nothing was found": {nil, 1000, "", "No data was found for this question; please rephrase it.", retrieve.NoAnswer, nil},
	} {
		text, used := retrieve.PackContext(c.passages, c.budget)
		answered, err := retrieve.AnswerQuestion(t.Context(), builtin.Chat{}, retrieve.FormOf(false), "?", text, c.passages, used,
			func() string { return c.quoted })
		assert.True(t, err == nil && answered.Text == c.text && answered.Kind == c.kind &&
			slices.Equal(answered.Citations, c.cited), "%s: %+v %v", name, answered, err)
	}
}

func TestContextCSVStopsWhereTheReferenceDoes(t *testing.T) {
	ps := []retrieve.Passage{{Text: "one, \"two\""}, {Text: strings.Repeat("word ", 500)}, {Text: "three"}}
	got, used := retrieve.ContextCSV(ps, 100)
	want := "```csv\nid,content\n0,\"one, \"\"two\"\"\"\n```"
	assert.True(t, got == want && used[0] && !used[1] && !used[2], "%q %v", got, used)
	got, used = retrieve.ContextCSV(ps[1:], 100)
	assert.True(t, got == "" && !used[0], "nothing fits, and yet %q %v", got, used)
}
