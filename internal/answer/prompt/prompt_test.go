package prompt_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

func TestTheContextKeepsItsBudgetAndSkipsWhatDoesNotFit(t *testing.T) {
	long := strings.Repeat("A long sentence about nothing in particular. ", 200)
	ps := []prompt.Passage{
		{ID: "a", Title: "A", Text: "Short one."},
		{ID: "b", Title: "B", Text: long},
		{ID: "c", Title: "C", Text: "Short three."},
	}
	ctx, used := prompt.PackContext(ps, 200)
	assert.True(t, used[0] && !used[1] && used[2] && tokens.Count(ctx) <= 200 && strings.Contains(ctx, "[3] (C)"),
		"%v %q", used, ctx)
	ctx, used = prompt.PackContext(ps[1:2], 100)
	assert.True(t, used[0] && tokens.Count(ctx) <= 100 && strings.HasSuffix(ctx, "."),
		"one that does not fit: %v %q", used, ctx)
	ctx, _ = prompt.PackContext(nil, 100)
	assert.True(t, ctx == "", "nothing: %q", ctx)
}

func TestTheContextIsThatOfCountingEveryPassage(t *testing.T) {
	source := rand.New(rand.NewPCG(5, 6))
	words := strings.Fields("a lease Oslo signed 語語 antidisestablishmentarianism \n\n 1945 x,y;z")
	for round := range 300 {
		ps := make([]prompt.Passage, 1+source.IntN(8))
		for i := range ps {
			for range 1 + source.IntN(60) {
				ps[i].Text += words[source.IntN(len(words))] + " "
			}
		}
		budget := 1 + source.IntN(500)
		_, got := prompt.PackContext(ps, budget)
		if _, again := prompt.PackContext(ps, budget); !slices.Equal(got, again) { // what was counted is remembered
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
	ps := []prompt.Passage{
		{ID: "a", Title: "Oslo", Text: "Oslo is the capital of Norway."},
		{ID: "b", Title: "Bergen", Text: "Bergen is a port in Norway."},
	}
	for name, c := range map[string]struct {
		passages           []prompt.Passage
		budget             int
		quoted, text, kind string
		cited              []string
	}{
		"quoted":       {ps, 1000, "A port [2].", "A port [2].", prompt.BestSentence, []string{"b"}},
		"nothing fits": {ps, 1000, "", "No sentence answers this; the best passage is [1].", prompt.NoAnswer, []string{"a"}},
		"nothing is in the context": {ps, 1, "", "No sentence answers this; the best passage is [1].", prompt.NoAnswer,
			[]string{"a"}},
		"nothing was found": {nil, 1000, "", "No data was found for this question; please rephrase it.", prompt.NoAnswer, nil},
	} {
		text, used := prompt.PackContext(c.passages, c.budget)
		answered, err := prompt.AnswerQuestion(t.Context(), builtin.Chat{}, prompt.FormOf(false, ""),
			"?", text, c.passages, used,
			func() string { return c.quoted })
		assert.True(t, err == nil && answered.Text == c.text && answered.Kind == c.kind &&
			slices.Equal(answered.Citations, c.cited), "%s: %+v %v", name, answered, err)
	}
}

func TestContextCSVStopsWhereTheReferenceDoes(t *testing.T) {
	ps := []prompt.Passage{{Text: "one, \"two\""}, {Text: strings.Repeat("word ", 500)}, {Text: "three"}}
	got, used := prompt.ContextCSV(ps, 100)
	want := "```csv\nid,content\n0,\"one, \"\"two\"\"\"\n```"
	assert.True(t, got == want && used[0] && !used[1] && !used[2], "%q %v", got, used)
	got, used = prompt.ContextCSV(ps[1:], 100)
	assert.True(t, got == "" && !used[0], "nothing fits, and yet %q %v", got, used)
}

func silence() string { return "" }

type speaking struct {
	pieces []string
	fails  error
}

func (speaking) Info() model.Info { return model.Info{} }

func (s speaking) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	take := model.FindTaker(ctx)
	for _, piece := range s.pieces {
		if take == nil {
			break
		}
		if err := take(piece); err != nil {
			return model.Reply{}, err
		}
	}
	return model.Reply{Text: strings.Join(s.pieces, "")}, s.fails
}

var said = []struct {
	raw, want string
	cited     []string
}{
	{"Oslo is the capital [1].", "Oslo is the capital [1].", []string{"a"}},
	{" \n Both [2] and [1], and [2] again. \n", "Both [2] and [1], and [2] again.", []string{"b", "a"}},
	{"Nothing names this [7], nor [3]. [9]", "Nothing names this , nor .", []string{"b"}},
	{"[4] Bergen is a port", "Bergen is a port", []string{"b"}},
	{"An [open bracket [1], [12345678901234567890123] and [", "An [open bracket [1], [12345678901234567890123] and [",
		[]string{"a"}},
	{"[ 1 ] ist kein Zeichen, [1] schon: Tromsø.", "[ 1 ] ist kein Zeichen, [1] schon: Tromsø.", []string{"a"}},
	{"Both [1, 2].", "Both [1][2].", []string{"a", "b"}}, {"Both [2,1] of them", "Both [2][1] of them", []string{"b", "a"}},
	{"Both [1-2].", "Both [1][2].", []string{"a", "b"}}, {"All [1–9].", "All [1][2].", []string{"a", "b"}},
	{"All [1; 3, 7].", "All [1].", []string{"a"}}, {"Both [1][2].", "Both [1][2].", []string{"a", "b"}},
	{"Oslo【1】.", "Oslo[1].", []string{"a"}}, {"Oslo【1†source】.", "Oslo[1].", []string{"a"}},
	{"Oslo [1†source].", "Oslo [1].", []string{"a"}}, {"Oslo【2:0†b.txt】.", "Oslo[2].", []string{"b"}},
	{"Oslo [1†L3-L9, 2†L1].", "Oslo [1][2].", []string{"a", "b"}}, {"Oslo 【1、2】", "Oslo [1][2]", []string{"a", "b"}},
	{"In [1990-1995] Oslo [1].", "In [1990-1995] Oslo [1].", []string{"a"}}, {"In [0, 1] Oslo", "In [0, 1] Oslo", []string{"a"}},
	{"【注意】 Oslo 【2024】 [2-1] [1,] [1", "【注意】 Oslo 【2024】 [2-1] [1,] [1", []string{"a"}},
	{" [8] ", "The model gave no answer (finish_reason not given). The best passage is [1].", []string{"a"}},
	{strings.Repeat("ø ", 5000), strings.TrimSpace(strings.Repeat("ø ", 4000)), nil},
}

// However an answer is cut into pieces: who takes it as it comes reads what the whole answer says.
func TestAnAnswerInPiecesIsTheAnswer(t *testing.T) {
	passages := []prompt.Passage{
		{ID: "a", Title: "Oslo", Text: "Oslo is the capital of Norway."},
		{ID: "b", Title: "Bergen", Text: "Nothing names this port: Bergen is a port in Norway."},
		{ID: "c", Title: "Unused"},
	}
	used := []bool{true, true, false}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // places to cut at
	for _, c := range said {
		whole, err := prompt.AnswerQuestion(t.Context(), speaking{pieces: []string{c.raw}}, prompt.FormOf(false, ""), "?", "context",
			passages, used, silence)
		require.True(t, err == nil && whole.Text == c.want && slices.Equal(whole.Citations, c.cited),
			"%.60q: %.60q %v %v", c.raw, whole.Text, whole.Citations, err)
		assert.Equal(t, c.raw == " [8] ", (whole.Kind == prompt.NoAnswer), "%.60q %s", c.raw, whole.Kind)
		for range 20 {
			var pieces []string
			runes := []rune(c.raw)
			for len(runes) > 0 {
				size := 1 + random.IntN(min(len(runes), 7))
				pieces = append(pieces, string(runes[:size]))
				runes = runes[size:]
			}
			var heard strings.Builder
			ctx := model.WithDeltas(t.Context(), func(text string) error { heard.WriteString(text); return nil })
			parts, err := prompt.AnswerQuestion(ctx, speaking{pieces: pieces}, prompt.FormOf(false, ""), "?", "context", passages, used,
				silence)
			if err != nil || parts.Text != c.want || heard.String() != c.want || !slices.Equal(parts.Citations, c.cited) {
				t.Fatalf("%q: heard %.60q, text %.60q %v %v", pieces, heard.String(), parts.Text, parts.Citations, err)
			}
			assert.Equal(t, strings.HasPrefix(c.raw, "ø"), parts.Truncated, "%.60q", c.raw)
		}
	}
}

// A model that gives nothing costs what no model costs: a sentence of the passages is quoted, and why is said.
func TestAModelThatGivesNothingIsToldAsTheModel(t *testing.T) {
	passages := []prompt.Passage{{ID: "a", Title: "Oslo", Text: "Oslo is the capital of Norway."}}
	for name, c := range map[string]struct {
		reply         model.Reply
		quoted, text  string
		kind, missing string
	}{
		"null": {model.Reply{Finish: "length", Truncated: true}, "The capital [1].",
			"The capital [1].", prompt.BestSentence, "the model gave no answer (finish_reason length)"},
		"blank": {model.Reply{Text: " \n", Finish: "stop"}, "The capital [1].",
			"The capital [1].", prompt.BestSentence, "the model gave no answer (finish_reason stop)"},
		"marks alone": {model.Reply{Text: "[7]", Finish: "stop"}, "The capital [1].",
			"The capital [1].", prompt.BestSentence, "the model gave no answer (finish_reason stop)"},
		"nothing fits": {model.Reply{Finish: "stop", Thinking: true}, "",
			"The model gave no answer (finish_reason stop, within its thoughts). The best passage is [1].", prompt.NoAnswer,
			"the model gave no answer (finish_reason stop, within its thoughts)"},
		"words": {model.Reply{Text: "Oslo.", Finish: "stop"}, "not said", "Oslo.", prompt.ByModel, ""},
	} {
		heard := ""
		ctx := model.WithDeltas(t.Context(), func(text string) error { heard += text; return nil })
		answered, err := prompt.AnswerQuestion(ctx, giving{reply: c.reply}, prompt.FormOf(false, ""), "?", "context", passages, []bool{true},
			func() string { return c.quoted })
		assert.True(t, err == nil && answered.Text == c.text && heard == c.text && answered.Kind == c.kind &&
			answered.Missing == c.missing, "%s: heard %q, %+v %v", name, heard, answered, err)
		assert.True(t, slices.Equal(answered.Citations, []string{"a"}), "%s: %v", name, answered.Citations)
	}
}

type giving struct {
	speaking
	reply model.Reply
}

func (g giving) Complete(context.Context, model.Call) (model.Reply, error) { return g.reply, nil }

func TestAnAnswerWithoutPiecesComesInOne(t *testing.T) {
	heard := ""
	ctx := model.WithDeltas(t.Context(), func(text string) error { heard += text; return nil })
	form := prompt.FormOf(false, "")
	answered, err := prompt.AnswerQuestion(ctx, giving{reply: model.Reply{Text: " Oslo [1]. "}}, form, "?", "context", []prompt.Passage{{ID: "a"}}, []bool{true}, silence)
	assert.True(t, err == nil && heard == "Oslo [1]." && answered.Text == heard && answered.Kind == prompt.ByModel,
		"%q %+v %v", heard, answered, err)
	heard = ""
	answered, err = prompt.AnswerQuestion(ctx, giving{reply: model.Reply{Text: " Oslo [1]. "}}, form, "?", "", nil, nil, silence)
	assert.True(t, err == nil && heard != "" && answered.Text == heard && answered.Kind == prompt.NoAnswer,
		"nothing found: %q %+v %v", heard, answered, err)
}

func TestAnAnswerThatBreaksOffIsNone(t *testing.T) {
	broken := errors.New("broken")
	ctx := model.WithDeltas(t.Context(), func(string) error { return nil })
	chat := speaking{[]string{"Oslo"}, broken}
	_, err := prompt.AnswerQuestion(ctx, chat, prompt.FormOf(false, ""), "?", "context", []prompt.Passage{{ID: "a"}}, []bool{true},
		silence)
	assert.ErrorIs(t, err, broken)
}
