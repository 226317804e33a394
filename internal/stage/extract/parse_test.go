package extract_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func show(s string) string {
	said, _ := model.TakeAnswer(s)
	es, rung, ok := extract.Parse(said)
	if !ok {
		return "bad"
	}
	var text strings.Builder
	text.WriteString(rung)
	for _, e := range es {
		fmt.Fprintf(&text, " %s=%s;", e.Name, e.Description)
	}
	return text.String()
}

// Exact JSON is read as its parts are one by one: what is no entity is passed over, and of lists that come twice the
// last counts, without what the first had in its places.
func TestPartsOfExactJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"entities":[{"name":1},{"name":"A","description":["d"]},7,null,{"name":"B"}]}`:          "strict B=;",
		`[{"name":1},"x",{"entity_name":"B","entity_description":"d"},{}]`:                        "strict B=d;",
		`{"entities":[{"name":"A","description":"d"}],"entities":[{"name":"B"}]}`:                 "strict B=;",
		`{"entities":[{"name":"A","description":"d"},{"name":"C"}],"Entities":[{"name":"B"},{}]}`: "strict B=;",
		`{"entities":7,"entities":[{"name":"A"}]}`:                                                "repaired A=;",
		`{"entities":[{"name":"A"}],"entities":null}`:                                             "repaired A=;",
		`{"entities":[{"name":"A","name":"B","description":"x","description":null}]}`:             "strict B=;",
		`{"entities":[{"NAME":"A\u00a0B","Description":" d "}]}`:                                  "strict A B=d;",
		`{"entities":[{"description":"d"}]}`:                                                      "bad", `null`: "strict",
		"\u00a0[{\"name\":\"A\u2003B\"}]\u3000": "strict A B=;",
	} {
		assert.Equal(t, want, show(text), "%s", text)
	}
}

func TestParseLadder(t *testing.T) {
	for name, c := range map[string][2]string{
		"the contract's form": {
			`{"entities":[{"name":"A B","description":"d"},{"name":"C","description":""}]}`, "strict A B=d; C=;",
		},
		"the reference's list": {`[{"entity_name":"A","entity_description":"d"}]`, "strict A=d;"},
		"nothing to list":      {`{"entities":[]}`, "strict"},
		"a code fence":         {"```json\n{\"entities\":[{\"name\":\"A\",\"description\":\"d\"}]}\n```", "strict A=d;"},
		"a think block": {
			"<think>maybe {\"entities\":[]}</think>{\"entities\":[{\"name\":\"A\",\"description\":\"d\"}]}", "strict A=d;",
		},
		"two think blocks": {
			"<think>a</think>{\"entities\":[{\"name\":\"A\",\"description\":\"x\"}]}<think>b</think>", "strict A=x;",
		},
		"a think block without its start": {"so the list is</think>[{\"name\":\"A\",\"description\":\"d\"}]", "strict A=d;"},
		"words around": {
			"Here you are: {\"entities\":[{\"name\":\"A\",\"description\":\"d\"}]} I hope it helps", "repaired A=d;",
		},
		"trailing commas":           {`{"entities":[{"name":"A","description":"d",},]}`, "repaired A=d;"},
		"single quotes":             {`{'entities':[{'name':'A','description':'d'}]}`, "repaired A=d;"},
		"a truncated tail":          {`{"entities":[{"name":"A","description":"d"},{"name":"B","descr`, "repaired A=d;"},
		"an element without a name": {`{"entities":[{"description":"d"},{"name":"A","description":"e"}]}`, "strict A=e;"},
		"unicode spaces":            {"{\"entities\":[{\"name\":\"A\u00a0B\",\"description\":\"d\u2009e\"}]}", "strict A B=d e;"},
		"brackets inside strings":   {`{"entities":[{"name":"A]}","description":"{d"}]} tail`, "repaired A]}={d;"},
		"a refusal":                 {"I cannot help with that.", "bad"},
		"another object":            {`{"answer":"no"}`, "bad"},
		"nothing":                   {"", "bad"},
	} {
		assert.Equal(t, c[1], show(c[0]), "%s", name)
	}
}

// hostile returns answers that are costly to read, and hold nothing.
func hostile(size int) map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	nested := size / len(`{"x" }`)
	return map[string]string{
		"nested objects": "{" + strings.Repeat(`{"x" `, nested) + strings.Repeat("}", nested),
		"nested lists":   strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"nested calls":   "{" + strings.Repeat("a(", size/3) + strings.Repeat(")", size/3) + "}", "open objects": fill("{"),
		"open strings": fill(`{"`), "objects in strings": `{"` + fill("{}"),
		"missing commas":    `{"entities":[` + fill("1 ") + `]}`,
		"quotes in strings": `{"entities":[` + fill(`"a "b" c" `) + `]}`,
		"objects of quotes": strings.Repeat("{"+strings.Repeat(`"a "b" c" `, 1500)+"}", size/15_002),
		"paths":             strings.Repeat("{"+strings.Repeat(`"C:\\a" `, 1500)+"}", size/12_002), "fences": fill("```json {\n"),
		"thoughts": fill("<think>"),
	}
}

// The time is that of a machine under load; what this is about took minutes, or the process.
func TestHostileAnswersAreReadInTimeThatGrowsWithTheirLength(t *testing.T) {
	const patience = 5 * time.Minute
	for _, size := range []int{24 << 10, 192 << 10, 6 << 20} {
		for name, text := range hostile(size) {
			began := time.Now()
			found, _, ok := extract.Parse(text)
			assert.True(t, !ok || len(found) == 0, "%s of %d bytes: %d entities", name, size, len(found))
			assert.LessOrEqual(t, time.Since(began), patience, "%s of %d bytes took", name, size)
		}
	}
}

func TestAnAnswerThatIsTooLongIsNotRead(t *testing.T) {
	whole := `{"entities":[{"name":"A","description":"` + strings.Repeat("d", extract.MaxAnswer) + `"}]}`
	assert.Equal(t, "bad", show(whole))
	found, _, ok := extract.Parse(whole[:60] + `"}]}`)
	assert.True(t, ok && len(found) == 1, "one that is short enough is not read")
}

func TestALongAnswerWithASlipIsSalvaged(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"entities":[`)
	const many = 3000
	for i := range many {
		fmt.Fprintf(&text, `{"name":"Name %d","description":"It is %d.",},`, i, i)
	}
	found, rung, ok := extract.Parse(text.String())
	assert.True(t, ok && rung == extract.RungRepaired && len(found) == many, "%d of %d entities", len(found), many)
}

func FuzzParse(f *testing.F) {
	f.Add(`{"entities":[{"name":"A","description":"d"`)
	f.Add("```[{'entity_name':")
	for _, text := range hostile(4 << 10) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		es, _, ok := extract.Parse(s)
		assert.True(t, ok || len(es) == 0, "entities of a bad answer")
		for _, e := range es {
			assert.True(t, strings.TrimSpace(e.Name) != "", "an entity without a name")
		}
	})
}

// entity and its answer, as models write them.
type (
	written struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	writtenAsReference struct {
		Name        string `json:"entity_name"`
		Description string `json:"entity_description"`
	}
)

// Whatever stands in names and descriptions, an exact answer is read as it was written: in each form that a model may
// give it, bare, behind thoughts, within a fence, or both.
func TestAnExactAnswerIsReadWhateverItHolds(t *testing.T) {
	parts := []string{
		"```json\n{\"entities\":[]}\n```", "``` [1] ```", "```", "</think>", "<think>no</think>", "<thinking>", "{", "}]",
		"[]", "'", "\\", "a, b,", "# Heading", `"`, `\"`, "\n\n", "\t", "\u2028", "{}", "null", "é", "日本", "\u0000", "😀",
	}
	random := rand.New(rand.NewPCG(3, 4))
	anything := func(name string) string {
		for range random.IntN(5) {
			name += " " + parts[random.IntN(len(parts))]
		}
		return name
	}
	wraps := map[string]struct{ before, after, rung string }{
		"bare":                    {"", "", extract.RungStrict},
		"fenced":                  {"```json\n", "\n```", extract.RungStrict},
		"fenced, without a name":  {"\n```\n", "\n```\n", extract.RungStrict},
		"behind thoughts":         {"<think>\nIs it {this}?\n</think>\n", "", extract.RungStrict},
		"behind thoughts, fenced": {"<thinking>[hm]</thinking>```json\n", "```", extract.RungStrict},
		"behind lost thoughts":    {"so it is.</think>", "", extract.RungStrict},
		"behind words":            {"Here it is:\n```\n", "\n```", extract.RungRepaired},
		"before words":            {"", "\nThat is {all} of it.", extract.RungRepaired},
	}
	for name, wrap := range wraps {
		for range 300 {
			var want []written
			var reference []writtenAsReference
			for i := range 1 + random.IntN(4) {
				one := written{anything(fmt.Sprint("Name ", i)), anything(fmt.Sprint("part ", i))}
				want = append(want, one)
				reference = append(reference, writtenAsReference(one))
			}
			for _, form := range []any{map[string]any{"entities": want}, want, reference} {
				text := wrap.before + string(stagetest.Must(json.Marshal(form))) + wrap.after
				said, _ := model.TakeAnswer(text)
				read, rung, ok := extract.Parse(said)
				require.True(t, ok && rung == wrap.rung && len(read) == len(want), "%s: %s: %v %q %v", name, text, read, rung, ok)
				for i, one := range want {
					require.True(t, read[i].Name == joinWords(one.Name) && read[i].Description == strings.TrimSpace(one.Description),
						"%s: %+v, want %+v", name, read[i], one)
				}
			}
		}
	}
}

// joinWords returns the words of a name, apart by single spaces.
func joinWords(name string) string { return strings.Join(strings.Fields(name), " ") }

func TestOfAnAnswerThatHoldsTooMuchTheBeginningIsTakenAndTheRestCounted(t *testing.T) {
	type entity struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	entities := []entity{
		{strings.Repeat("n", extract.MaxName+1), "d"},
		{"Long", strings.Repeat("d", extract.MaxDescription+5)},
	}
	for i := range 8_000 {
		entities = append(entities, entity{fmt.Sprint("Name ", i), "d"})
	}
	answer := stagetest.Must(json.Marshal(map[string]any{"entities": entities}))
	b := newBench(t)
	in := b.in(&stagetest.Chat{Answer: stagetest.Says(string(answer))}, stagetest.Numbered(1, "Text %d.")...)
	for _, when := range []string{"paid for", "from the ledger"} {
		res := stagetest.Must(extract.Run(t.Context(), in))
		if want := int64(len(entities) - core.MaxEntities + 1); res.Progress.Cut != want { // one is cut and taken
			t.Errorf("%s: %d counted, want %d", when, res.Progress.Cut, want)
		}
	}
}

// The answer of the built-in rules about a long line of names, as of a table without full stops, can be read.
func TestRulesReadADocumentOfAnySize(t *testing.T) {
	var row strings.Builder
	for i := 0; row.Len() < 140_000; i++ {
		fmt.Fprintf(&row, "met Name%d & \"Sons\" <x>, ", i)
	}
	reply := stagetest.Must(builtin.Chat{}.Complete(t.Context(), model.Call{Task: model.Extract, Input: row.String()}))
	entities, rung, ok := extract.Parse(reply.Text)
	assert.True(t, ok && rung == extract.RungStrict && len(entities) == core.MaxEntities,
		"%d bytes, %d entities, %q", len(reply.Text), len(entities), rung)
}

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
		assert.Equal(t, []string{want}, plainNames(content, name), "%q", name)
	}
}

func TestWordsForNothingAreNoEntity(t *testing.T) {
	for _, name := range []string{
		"N/A", "n/a", "N.A.", "None", "none.", "(None)", "null", "NULL", "Unknown", "**None**", "- None", "1. N/A", "-", "—", "...",
		"?", "", " ", "\x00", "\"\"", "Not specified", "Nil", "[null]", "<none>", "**", "No entities",
	} {
		assert.Empty(t, plainNames("None of it is unknown.", name), "%q is", name)
	}
}

func TestNumbersOfAListGo(t *testing.T) {
	got := plainNames("1. Ann\n2. 1. FC Köln\n3. Bo", "1. Ann", "2. 1. FC Köln", "3. Bo")
	want := []string{"Ann", "1. FC Köln", "Bo"}
	assert.True(t, slices.Equal(got, want), "%q", got)
	got = plainNames("1. FC Köln beat 1. FC Nürnberg.", "1. FC Köln", "1. FC Nürnberg")
	want = []string{"1. FC Köln", "1. FC Nürnberg"}
	assert.True(t, slices.Equal(got, want), "%q", got)
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
	got = extract.Plain(many, many, "")
	assert.True(t, len(got) == 1, "%d entries", len(got))
}

// What was paid for before is read by the same rule, and not asked for again.
func TestPlainNamesAreOfAllAnswers(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: stagetest.Says(entities("**Marbeck**", "N/A", "1. Marbeck", "Marbeck"))}
	for range 2 {
		in := b.in(chat, stagetest.Document{Key: "a", Chunks: []string{"Marbeck is a town."}})
		stagetest.Must(extract.Run(t.Context(), in))
		got := b.extracted(in)
		assert.True(t, len(got) == 1 && len(got[0].Entities) == 3 && got[0].Entities[0].Name == "Marbeck" &&
			got[0].Entities[0].Spans != nil, "%+v", got)
	}
	assert.Len(t, chat.Calls(), 1)
}

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
