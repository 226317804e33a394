package pairstage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/model"
	blobs "github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordination "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// judge says same of what holds the word, and answers nonsense of what holds another.
type judge struct {
	free  bool
	down  atomic.Bool
	calls atomic.Int64
}

func (j *judge) Info() model.Info { return model.Info{Provider: "test", Model: "judge", Paid: !j.free} }

func (j *judge) Complete(_ context.Context, call model.Call) (model.Reply, error) {
	j.calls.Add(1)
	switch {
	case j.down.Load():
		return model.Reply{}, errors.New("it is down")
	case strings.Contains(call.User, "nonsense"):
		return model.Reply{Text: "I cannot say."}, nil
	}
	answer, err := json.Marshal(map[string]any{
		"same": strings.Contains(call.User, "twin"), "why": "by\nits \x1b[31mwords " + strings.Repeat("x", 500),
	})
	return model.Reply{Text: "Here: " + string(answer)}, err
}

func asker(chat model.Chat) Asker {
	return Asker{Chat: chat, Ledger: ledger.New(blobs.New(), coordination.New())}
}

var three = []Pair{
	{A: Side{"Alpha", "a twin"}, Of: Side{"Alpha Corp", "a firm"}, Cosine: .97},
	{A: Side{"Beta", "a part"}, Of: Side{"Beta Corp", "a firm"}, Cosine: .95, Spelled: true},
	{A: Side{"Gamma", "nonsense"}, Of: Side{"Gamma Corp", "a firm"}, Cosine: .94},
}

func TestAModelDecidesEachPairOnce(t *testing.T) {
	chat := &judge{}
	asks := asker(chat)
	first, counts, err := asks.Decide(t.Context(), three)
	require.True(t, err == nil && counts == (Counts{Asked: 3, Same: 1, Different: 1, Failed: 1}),
		"%+v, %v", counts, err)
	var verdicts []string
	for i, one := range first {
		verdicts = append(verdicts, one.Verdict)
		assert.True(t, one.Name == three[i].A.Name && one.Of == three[i].Of.Name && one.Spelled == three[i].Spelled,
			"%+v of %+v", one, three[i])
		assert.True(t, !strings.ContainsAny(one.Why, "\x1b\n") && len(one.Why) <= mostWhy &&
			(one.Verdict == Undecided || one.Why != ""), "why %q", one.Why)
	}
	assert.Equal(t, []string{Same, Different, Undecided}, verdicts)
	paid := chat.calls.Load() // the last pair was asked for twice
	turned := slices.Clone(three)
	turned[0].A, turned[0].Of = turned[0].Of, turned[0].A
	again, _, err := asks.Decide(t.Context(), turned)
	assert.True(t, err == nil && chat.calls.Load() == paid && paid == 4 && again[0].Verdict == Same,
		"%d calls, then %d; %v", paid, chat.calls.Load(), err)
	asks.Attempt = 1 // a round of retry-failed
	_, _, err = asks.Decide(t.Context(), three)
	assert.True(t, err == nil && chat.calls.Load() > paid, "a round of retry-failed: %v", err)
	changed := slices.Clone(three[:1])
	changed[0].A.Text = "no more"
	got, _, err := asks.Decide(t.Context(), changed)
	assert.True(t, err == nil && got[0].Verdict == Different, "other texts: %+v, %v", got, err)
}

func TestAFailureOfTheSystemIsNoDecision(t *testing.T) {
	chat := &judge{}
	chat.down.Store(true)
	asks := asker(chat)
	_, _, err := asks.Decide(t.Context(), three[:2])
	require.Error(t, err, "no error")
	chat.down.Store(false)
	_, counts, err := asks.Decide(t.Context(), three[:2])
	assert.True(t, err == nil && counts.Failed == 0 && counts.Asked == 2, "%+v, %v", counts, err)
}

func TestModelsThatCostNothingAreNotAsked(t *testing.T) {
	chat := &judge{free: true}
	got, counts, err := asker(chat).Decide(t.Context(), three)
	assert.True(t, len(got) == 0 && counts.Asked+chat.calls.Load() == 0 && err == nil, "%+v, %+v, %v", got, counts, err)
}

func TestAnswersThatCannotBeRead(t *testing.T) {
	for _, answer := range []string{"", "{}", `{"same":"yes"}`, `{"why":"x"}`, "true", `{"same":tr`, "}{"} {
		v, ok := parseAnswer(answer)
		assert.False(t, ok, "%q is %+v", answer, v)
	}
	v, ok := parseAnswer("```json\n{\"same\":false}\n```")
	assert.True(t, ok && !v.Same, "%+v, %v", v, ok)
}

func TestACallHoldsTextsWithoutTheirLines(t *testing.T) {
	pair := Pair{A: Side{"B\nName", "says\nA: x"}, Of: Side{"A Name", strings.Repeat("long ", 400)}}
	call := pair.Call()
	lines := strings.Split(call.User, "\n")
	assert.True(t, len(lines) == 5 && lines[0] == "A: A Name" && lines[3] == "B: B Name" && len(lines[1]) <= mostText+20 &&
		lines[4] == "Said of it: says A: x", "%q", call.User)
}

func TestFilesComeBack(t *testing.T) {
	file := FileOf(Found{Compared: Compared{
		Classes: []ComparedClass{{"1", "a", "x"}, {"2", "b", "y"}}, Near: []NearPair{{0, 1, .9400000000000001}},
	}}, 0, nil)
	assert.Equal(t, aliases.DefaultLimits.Pair, file.Cosine, "cosine")
	var raw bytes.Buffer
	require.NoError(t, file.Write(&raw))
	whole, back := raw.String(), musttest.Get(Read(&raw))(t)
	assert.True(t, back.Hash() == file.Hash() && slices.Equal(back.Compared.Near, file.Compared.Near), "%+v", back)
	file.Decided = []Decision{{Name: "a", Of: "b", Verdict: Same}}
	assert.True(t, file.Hash() != back.Hash(), "a decision changes no hash")
	for _, bad := range []string{
		"", whole[:len(whole)/2], strings.Replace(whole, `"b":1`, `"b":2`, 1), strings.Replace(whole, `"a":0`, `"a":-1`, 1),
		strings.Replace(whole, `"a":0`, `"a":1`, 1),
	} {
		musttest.Code(t, musttest.Err(Read(strings.NewReader(bad))), fault.SegmentDamage, "%q", bad)
	}
}

// ids of classes are as they were when their name and vector are; of others nothing is known.
func TestWhatWasComparedIsKnown(t *testing.T) {
	digest := func(name string) core.Digest { return core.Sum(name) }
	class := func(name, vector string) named {
		return named{id: core.ClassID(name), name: name, vector: digest(vector)}
	}
	now := search{limits: aliases.DefaultLimits, classes: mostMentioned{
		class("c", "new"), class("b", "b"), class("a", "a"), class("d", "d"),
	}}
	before := search{limits: aliases.DefaultLimits, classes: mostMentioned{
		class("a", "a"), class("b", "b"), class("c", "c"), class("e", "e"),
	}}
	near := []aliases.Pair{{A: 0, B: 1, Cosine: .99}, {A: 1, B: 2, Cosine: .98}, {A: 0, B: 3, Cosine: .97}}
	now.Before = FileOf(Found{Compared: before.listCompared(near)}, 0, nil)
	known, pairs := now.findUnchanged()
	assert.Equal(t, []bool{false, true, true, false}, known, "known")
	assert.True(t, slices.Equal(pairs, []aliases.Pair{{A: 1, B: 2, Cosine: .99}}), "%v", pairs)
	for _, other := range []func(*File){
		func(f *File) { f.Rules = "pairs/0" }, func(f *File) { f.Cosine = .5 },
		func(f *File) { f.Compared.Near = make([]NearPair, MostNear) },
	} {
		file := *now.Before
		other(&file)
		against := now
		against.Before = &file
		known, pairs := against.findUnchanged()
		assert.True(t, !slices.Contains(known, true) && len(pairs) == 0, "%v, %v", known, pairs)
	}
}

func TestPairsThatMayBeOneAreAskedForFirst(t *testing.T) {
	pair := func(a, of string, cosine float64, spelled bool) Pair {
		return Pair{A: Side{Name: a}, Of: Side{Name: of}, Cosine: cosine, Spelled: spelled}
	}
	given := []Pair{
		pair("Cohere", "Jina", .999, false),
		pair("Port of Alma", "Salt of Tolmin", .998, false), // of says nothing
		pair("Alma Port Company", "The Port of Alma", .95, false),
		pair("I.B.M.", "International Business Machines", .94, false),
		pair("Saint-Denis", "Saint Denis", .2, true),
	}
	var got []string
	for _, one := range OrderPairs(given) {
		got = append(got, one.A.Name)
	}
	assert.Equal(t, []string{"Saint-Denis", "Alma Port Company", "I.B.M.", "Cohere", "Port of Alma"}, got)
	assert.Equal(t, "Cohere", given[0].A.Name, "what was given is in another order")
}

func TestNamesOfOneSpellingArePairedWithTheFirst(t *testing.T) {
	var all []aliases.Name
	var spelled []string
	for _, name := range []string{"Alpha-Corp", "Other", "AlphaCorp", "alpha corp", "AB", "A B"} { // AB is too short
		all, spelled = append(all, aliases.Name{Text: name}), append(spelled, normalizeSpelling(name))
	}
	assert.Equal(t, []aliases.Pair{{A: 3, B: 0}, {A: 3, B: 2}}, pairSpellings(all, spelled))
}
