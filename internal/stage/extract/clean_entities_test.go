package extract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func plainNames(content string, names ...string) (out []string) {
	for _, one := range extract.Plain(names, make([]string, len(names)), content) {
		out = append(out, one[0])
	}
	return out
}

func TestDecoratedNamesAreTheirPlainOnes(t *testing.T) {
	const content = "Odalys Brenn of AT&T wrote snake_case and C++ for !!!, \"Weird Al\" Yankovic, *NSYNC and 1. FC Köln."
	for name, want := range map[string]string{
		"**Odalys Brenn**": "Odalys Brenn", "__Odalys Brenn__": "Odalys Brenn", "*Odalys Brenn*": "Odalys Brenn",
		"_Odalys Brenn_": "Odalys Brenn", "`Odalys Brenn`": "Odalys Brenn", "- Odalys Brenn": "Odalys Brenn",
		"* Odalys Brenn": "Odalys Brenn", "• Odalys Brenn": "Odalys Brenn", "1. Odalys Brenn": "Odalys Brenn",
		"12) Odalys Brenn": "Odalys Brenn", "(3) Odalys Brenn": "Odalys Brenn", "## Odalys Brenn": "Odalys Brenn",
		"1. **Odalys Brenn**": "Odalys Brenn", "- **Odalys Brenn**:": "Odalys Brenn", "**Odalys Brenn:**": "Odalys Brenn",
		`"Odalys Brenn"`: "Odalys Brenn", "“Odalys Brenn”": "Odalys Brenn", "«Odalys Brenn»": "Odalys Brenn",
		"'Odalys Brenn'": "Odalys Brenn", "<b>Odalys Brenn</b>": "Odalys Brenn", "[Odalys Brenn](#a)": "Odalys Brenn",
		"Odalys Brenn\x00": "Odalys Brenn", "\x00Odalys\x00Brenn": "Odalys Brenn", "Oda\x00lys Brenn": "Odalys Brenn",
		"Odalys\u200b Brenn": "Odalys Brenn", " Odalys \n Brenn ": "Odalys Brenn", "AT&amp;T": "AT&T",
		"AT&amp;amp;T": "AT&T", "**AT&amp;T**": "AT&T", `snake\_case`: "snake_case", `C\+\+`: "C++",
		"C++": "C++", "!!!": "!!!", `"Weird Al" Yankovic`: `"Weird Al" Yankovic`, "*NSYNC": "*NSYNC",
		"1. FC Köln": "1. FC Köln", "None of the Above": "None of the Above", "Unknown Soldier": "Unknown Soldier",
		"Null Island": "Null Island", "Nil Yalter": "Nil Yalter", "3.5 mm": "3.5 mm", "2. Bundesliga": "Bundesliga",
	} {
		got := plainNames(content, name)
		assert.True(t, slices.Equal(got, []string{want}), "%q: %q, want %q", name, got, want)
	}
}

func TestWordsForNothingAreNoEntity(t *testing.T) {
	for _, name := range []string{
		"N/A", "n/a", "N.A.", "None", "none.", "(None)", "null", "NULL", "Unknown", "**None**", "- None", "1. N/A", "-", "—", "...",
		"?", "", " ", "\x00", "\"\"", "Not specified", "Nil", "[null]", "<none>", "**", "No entities",
	} {
		got := plainNames("None of it is unknown.", name)
		assert.True(t, len(got) == 0, "%q is %q", name, got)
	}
}

// Numbers go where they count the list, even of a text with the same list.
func TestNumbersOfAListGo(t *testing.T) {
	got := plainNames("1. Ann\n2. 1. FC Köln\n3. Bo", "1. Ann", "2. 1. FC Köln", "3. Bo")
	want := []string{"Ann", "1. FC Köln", "Bo"}
	assert.True(t, slices.Equal(got, want), "%q", got)
	got = plainNames("1. FC Köln beat 1. FC Nürnberg.", "1. FC Köln", "1. FC Nürnberg")
	if want := []string{"1. FC Köln", "1. FC Nürnberg"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestAnEntryThatComesAgainCountsOnce(t *testing.T) {
	names := []string{"Ann", "**Ann**", "ann", "Bo", "Ann", "Ann", "Bo"}
	descriptions := []string{"", "a captain", "a captain", "x", "a captain of the sea", "lives in Oslo", "x"}
	want := [][2]string{{"Ann", "a captain of the sea"}, {"Bo", "x"}, {"Ann", "lives in Oslo"}}
	got := extract.Plain(names, descriptions, "")
	assert.True(t, slices.Equal(got, want), "%q", got)
	many := make([]string, 20_000) // a model that cannot stop
	for i := range many {
		many[i] = "Ann"
	}
	if got := extract.Plain(many, many, ""); len(got) != 1 {
		t.Errorf("%d entries", len(got))
	}
}

// What was paid for before is read by the same rule, and not asked for again.
func TestPlainNamesAreOfAllAnswers(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: stagetest.Says(entities("**Marbeck**", "N/A", "1. Marbeck", "Marbeck"))}
	for range 2 {
		in := b.in(chat, stagetest.Document{Key: "a", Chunks: []string{"Marbeck is a town."}})
		stagetest.Must(extract.Run(t.Context(), in))
		got := b.extracted(in)
		if len(got) != 1 || len(got[0].Entities) != 3 || got[0].Entities[0].Name != "Marbeck" || got[0].Entities[0].Spans == nil {
			t.Errorf("%+v", got)
		}
	}
	assert.Len(t, chat.Calls(), 1)
}

// Half a list is asked for again with twice the room, once; what is whole of the longer one counts.
func TestHalfAListIsAskedForWithTwiceTheRoom(t *testing.T) {
	whole := entities("Ann", "Bo", "Cy", "Dee")
	half := func(share int) model.Reply {
		return model.Reply{Text: whole[:len(whole)*share/100], Truncated: true, Roomier: true, Finish: "length"}
	}
	for name, c := range map[string]struct {
		replies []any
		calls   int
		names   int
	}{
		"then whole":              {[]any{half(60), model.Reply{Text: whole}}, 2, 4},
		"then longer":             {[]any{half(40), half(80)}, 2, 3},
		"then refused":            {[]any{half(60), fault.ModelRejected.At("call", "m")}, 2, 2},
		"then nonsense":           {[]any{half(60), model.Reply{Text: "no"}}, 2, 2},
		"a thought, then whole":   {[]any{model.Reply{Truncated: true, Roomier: true, Thinking: true}, model.Reply{Text: whole}}, 2, 4},
		"whole though it was cut": {[]any{model.Reply{Text: whole, Truncated: true, Roomier: true}, model.Reply{Text: whole}}, 2, 4},
	} {
		b := newBench(t)
		chat := &stagetest.Chat{}
		chat.Answer = func(model.Call) (model.Reply, error) {
			switch next := c.replies[min(len(chat.Calls()), len(c.replies))-1].(type) {
			case model.Reply:
				return next, nil
			default:
				return model.Reply{}, next.(error)
			}
		}
		in := b.in(chat, stagetest.Document{Key: "a", Chunks: []string{"Ann, Bo, Cy and Dee."}})
		in.Health = stage.NewHealth()
		stagetest.Must(extract.Run(t.Context(), in))
		calls := chat.Calls()
		assert.True(t, len(calls) == c.calls && !calls[0].Roomy && calls[1].Roomy && calls[1].User == calls[0].User,
			"%s: %d calls", name, len(calls))
		got := b.extracted(in)
		assert.True(t, len(got[0].Entities) == c.names && got[0].Fallback == "", "%s: %+v", name, got)
	}
}

// A dead letter of a model that gave nothing says so, and why.
func TestADeadLetterSaysThatTheModelGaveNothing(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		if strings.Contains(call.User, "Ann") {
			return model.Reply{Truncated: true, Thinking: true, Finish: "length"}, nil
		}
		return model.Reply{Text: entities("Bo")}, nil
	}}
	in := b.in(chat, stagetest.Document{Key: "a", Chunks: []string{"Ann.", "Bo."}})
	in.Health = stage.NewHealth()
	stagetest.Must(extract.Run(t.Context(), in))
	letters := b.deadLetters()
	require.Len(t, letters, 1, "%v", letters)
	var letter extract.DeadLetter
	stagetest.Must(blob.ReadJSON(t.Context(), b.art.Store, letters[0], &letter))
	assert.Contains(t, letter.Problem().Detail, "gave no answer (finish_reason length, within its thoughts)")
}
