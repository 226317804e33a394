package model_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

type scripted struct {
	reply      model.Reply
	err        error
	free, boom bool
	calls      int
}

func (s *scripted) Complete(context.Context, model.Call) (model.Reply, error) {
	s.calls++
	if s.boom {
		panic("boom")
	}
	return s.reply, s.err
}

func (s *scripted) Embed(context.Context, []string) ([][]float32, model.Usage, error) {
	s.calls++
	if s.boom {
		panic("boom")
	}
	return nil, s.reply.Usage, s.err
}

func (s *scripted) Info() model.Info { return model.Info{Model: "scripted", Paid: !s.free} }
func (*scripted) Dimension() int     { return 8 }

type tally struct {
	refuse error
	passed []string // tasks of requests that the server would not take for now
	tasks  []string
	prompt []int64
	ends   []end
}

type end struct {
	usage    model.Usage
	answered bool
}

func (m *tally) Begin(_ context.Context, task string, prompt int64) (func(model.Usage, bool), error) {
	if m.refuse != nil {
		return nil, m.refuse
	}
	m.tasks, m.prompt = append(m.tasks, task), append(m.prompt, prompt)
	return func(usage model.Usage, answered bool) { m.ends = append(m.ends, end{usage, answered}) }, nil
}

func (m *tally) Refused(task string, _ error) { m.passed = append(m.passed, task) }

func TestWhatCountsAsAPaidCall(t *testing.T) {
	usage := model.Usage{Prompt: 10, Completion: 3}
	down := fault.ModelUnavailable.At("call", "m").Because("connection refused")
	limited := fault.ModelRateLimited.At("call", "m").Because("slow down")
	rejected := fault.ModelRejected.At("call", "m").Because("the model refused the text")
	for name, c := range map[string]struct {
		err    error
		report model.Usage
		want   end
	}{
		"a good answer":                  {nil, usage, end{usage, true}},
		"no connection":                  {down, model.Usage{}, end{model.Usage{}, false}},
		"too many requests":              {limited, model.Usage{}, end{model.Usage{}, false}},
		"an answer of no use":            {model.AnsweredError(rejected), usage, end{usage, true}},
		"an answer of no use, no tokens": {model.AnsweredError(rejected), model.Usage{}, end{model.Usage{}, true}},
	} {
		below, meter := &scripted{reply: model.Reply{Usage: c.report}, err: c.err}, &tally{}
		reply, err := model.MeterChat(below, meter).Complete(t.Context(), model.Call{Task: model.Shorten})
		assert.True(t, errors.Is(err, c.err) && reply.Usage == c.report,
			"%s: the meter changed the answer: %+v, %v", name, reply, err)
		_, report, err := model.MeterEmbedder(below, meter).Embed(t.Context(), []string{"a"})
		assert.True(t, errors.Is(err, c.err) && report == c.report,
			"%s: the meter changed the embedding: %+v, %v", name, report, err)
		assert.True(t, len(meter.ends) == 2 && meter.ends[0] == c.want && meter.ends[1] == c.want,
			"%s: counted %+v, want twice %+v", name, meter.ends, c.want)
		refused := map[bool][]string{true: {model.Shorten, model.EmbedTask}}
		assert.Equal(t, refused[errors.Is(c.err, down) || errors.Is(c.err, limited)], meter.passed,
			"%s: refused for now", name)
		assert.True(t, len(meter.tasks) == 2 && meter.tasks[0] == model.Shorten && meter.tasks[1] == model.EmbedTask,
			"%s: tasks %q", name, meter.tasks)
	}
}

func TestARefusedRequestIsNotSent(t *testing.T) {
	paused := fault.Paused.At("run", "i/g").Because("it was paused")
	below, meter := &scripted{}, &tally{refuse: paused}
	musttest.Code(t, musttest.Err(model.MeterChat(below, meter).Complete(t.Context(), model.Call{})), fault.Paused, "chat")
	_, _, err := model.MeterEmbedder(below, meter).Embed(t.Context(), []string{"a"})
	assert.True(t, fault.Is(err, fault.Paused), "embed: %v", err)
	assert.True(t, below.calls == 0 && len(meter.ends) == 0, "%d, %d", below.calls, len(meter.ends))
}

func TestAPanicBelowStillEndsItsRequest(t *testing.T) {
	below, meter := &scripted{boom: true}, &tally{}
	assert.Panics(t, func() { _, _ = model.MeterChat(below, meter).Complete(t.Context(), model.Call{}) })
	assert.Panics(t, func() { _, _, _ = model.MeterEmbedder(below, meter).Embed(t.Context(), []string{"a"}) })
	assert.True(t, len(meter.ends) == 2 && !meter.ends[0].answered && !meter.ends[1].answered, "counted %+v", meter.ends)
}

func TestModelsThatCostNothingAreNotMetered(t *testing.T) {
	free, meter := &scripted{free: true}, &tally{refuse: errors.New("never asked")}
	assert.Equal(t, model.Chat(free), model.MeterChat(free, meter), "a free chat model became")
	embedder := model.MeterEmbedder(builtin.Embedder{}, meter)
	assert.False(t, embedder.Info().Paid, "the built-in embedder became %T", embedder)
	paid := &scripted{}
	assert.Equal(t, model.Chat(paid), model.MeterChat(paid, nil), "without a meter the model became")
}

func TestAnErrorOfAnAnsweredRequestKeepsItsFault(t *testing.T) {
	assert.NoError(t, model.AnsweredError(nil), "nil became an error")
	limited := fault.ModelRateLimited.At("call", "m").Because("slow down")
	limited.RetryAfter = 3e9
	err := model.AnsweredError(limited)
	assert.True(t, fault.Is(err, fault.ModelRateLimited) && fault.KindOf(err) == fault.Transient &&
		fault.RetryAfter(err) == 3e9 && err.Error() == limited.Error(), "%v", err)
}

// bare is a decorator that does not tell what it wraps.
type bare struct{ model.Embedder }

type opaque struct{ inner any }

func (o opaque) Unwrap() any { return o.inner }

func TestCapabilitiesAreFoundBelowDecorators(t *testing.T) {
	limited := limits.Embedder{Embedder: builtin.Embedder{}, Limits: limits.Limits{Scope: "outer"}}
	metered := model.MeterEmbedder(&scripted{}, &tally{})
	for name, c := range map[string]struct {
		value any
		want  bool
	}{
		"itself": {builtin.Embedder{}, true}, "below limits": {limited, true},
		"below two decorators":          {limits.Embedder{Embedder: limited}, true},
		"below one that unwraps to any": {opaque{limited}, true}, "nowhere": {metered, false},
		"below one that hides it": {bare{builtin.Embedder{}}, false}, "nothing at all": {nil, false},
		"below one that unwraps to nobody": {opaque{}, false},
	} {
		weighable, ok := model.As[model.Weighable](c.value)
		require.Equal(t, c.want, ok, "%s: found", name)
		assert.True(t, !ok || weighable.WithIDF(func(string) float64 { return 2 }).Dimension() == builtin.Dimension,
			"%s: another embedder was found", name)
	}
	found, ok := model.As[*scripted](limits.Chat{Chat: model.MeterChat(&scripted{}, &tally{})})
	assert.True(t, ok && !found.free, "a chat model below limits and meter is not found")
	outer, ok := model.As[limits.Embedder](opaque{limited})
	assert.True(t, ok && outer.Scope == "outer", "a decorator is not found by its own type")
}

// seer is a tally with foresight: its admissions hold as long as it says.
type seer struct {
	tally
	holds bool
	ahead int
}

func (s *seer) AdmitAhead(ctx context.Context, task string, prompt int64) (*model.Admission, error) {
	s.ahead++
	over, err := s.Begin(ctx, task, prompt)
	return &model.Admission{Holds: func() bool { return s.holds }, End: over}, err
}

func TestARequestIsSentByTheAdmissionItHas(t *testing.T) {
	usage := model.Usage{Prompt: 7}
	for name, c := range map[string]struct {
		holds bool
		begun int
		ends  []end
	}{
		"it holds":         {true, 2, []end{{usage, true}, {usage, true}}},
		"it holds no more": {false, 3, []end{{model.Usage{}, false}, {usage, true}, {usage, true}}},
	} {
		meter := &seer{holds: c.holds}
		chat := model.MeterChat(&scripted{reply: model.Reply{Usage: usage}}, meter)
		admit := model.NewAdmitter(chat, model.Extract, 0, "twelve", " bytes")
		admission, err := admit(t.Context())
		require.NoError(t, err, name)
		ctx := model.WithAdmission(t.Context(), admission)
		for range 2 { // of two requests the first is sent by it
			require.NoError(t, musttest.Err(chat.Complete(ctx, model.Call{Task: model.Extract, User: "twelve bytes"})), name)
		}
		admission.GiveBack() // too late to count
		assert.True(t, meter.ahead == 1 && len(meter.tasks) == c.begun && meter.prompt[0] == 3,
			"%s: %d times ahead, begun %q of %v tokens, want %d", name, meter.ahead, meter.tasks, meter.prompt, c.begun)
		require.Len(t, meter.ends, len(c.ends), "%s: ends %+v, want %+v", name, meter.ends, c.ends)
		for i, want := range c.ends {
			assert.Equal(t, want, meter.ends[i], "%s: end %d", name, i)
		}
	}
}

func TestNothingIsAdmittedAheadOfWhatCostsNothingOrByAMeterWithoutForesight(t *testing.T) {
	for name, chat := range map[string]model.Chat{
		"free": model.MeterChat(&scripted{free: true}, &seer{}), "no meter": &scripted{},
		"no seeing": model.MeterChat(&scripted{}, &tally{}),
	} {
		assert.True(t, model.NewAdmitter(chat, model.Extract, 0, "a") == nil, "%s: is admitted ahead", name)
	}
	embedder := model.MeterEmbedder(&scripted{}, &seer{holds: true})
	assert.True(t, model.NewAdmitter(embedder, model.EmbedTask, 0, "a") != nil,
		"embeddings that are paid for are not admitted ahead")
}

func TestOnlyWhatStandsBehindTheLastThoughtIsSaid(t *testing.T) {
	const json = `{"entities":[{"name":"A","description":"d"}]}`
	for name, c := range map[string]struct {
		text, said string
		thinking   bool
	}{
		"no thought":                 {" Oslo < Bergen [1]. ", " Oslo < Bergen [1]. ", false},
		"a block":                    {"<think>Is it Bergen?</think>\n\nOslo.", "Oslo.", false},
		"a block of another name":    {"<thinking>a</thinking>Oslo.", "Oslo.", false},
		"capitals and blanks":        {"<Think >a</ THINK>Oslo.", "Oslo.", false},
		"reasoning":                  {"<reasoning>\na\n</reasoning>\nOslo.", "Oslo.", false},
		"seed":                       {"<seed:think>a<seed:cot_budget_reflect>b</seed:cot_budget_reflect></seed:think>Oslo.", "Oslo.", false},
		"brackets":                   {"[THINK]a[/THINK]Oslo [1].", "Oslo [1].", false},
		"a solution":                 {"<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>Oslo.<|end_of_solution|>", "Oslo.", false},
		"a response":                 {"<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Oslo.<|END_RESPONSE|>", "Oslo.", false},
		"an answer in its own tag":   {"<think>a</think>\n<answer>\nOslo.\n</answer>", "Oslo.", false},
		"a tag around it alone":      {"<answer>Oslo.</answer>", "Oslo.", false},
		"channels":                   {"<|channel|>analysis<|message|>Is it?<|end|><|start|>assistant<|channel|>final<|message|>Oslo.<|return|>", "Oslo.", false},
		"channels of JSON":           {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>" + json, json, false},
		"channels without tokens":    {"analysisWe look.assistantfinalOslo.", "Oslo.", false},
		"the other channels":         {"<|channel>thought\na<channel|>Oslo.", "Oslo.", false},
		"signs of another kind":      {"◁think▷a◁/think▷Oslo.", "Oslo.", false},
		"the beginning is lost":      {"Is it Bergen? Yes: [1]\n</think>\nOslo.", "Oslo.", false},
		"the beginning is lost, too": {"Let me look: " + json + " fine.\n</think>\n[]", "[]", false},
		"several":                    {"<think>a</think>Bergen.<think>no</think>Oslo.", "Oslo.", false},
		"one behind":                 {json + "<think>Are these all?</think>", json, false},
		"one behind, not closed":     {json + "\n<think>Are these", json, true},
		"not closed":                 {"<think>\nI go on about " + json, "", true},
		"not closed, by channel":     {"<|channel|>analysis<|message|>I go on about Oslo", "", true},
		"the second not closed":      {"<think>a</think>\n<think>b", "", true},
		"nothing behind":             {"I go on.</think>\n", "", false},
		"nothing behind a block":     {"<think>a</think>", "", false},
		"spoken of in JSON":          {`{"d":"</think> ends it, <think> begins"}`, `{"d":"</think> ends it, <think> begins"}`, false},
		"spoken of in JSON behind":   {`so.</think>{"d":"a </think> [1] b"} It is.`, `{"d":"a </think> [1] b"} It is.`, false},
		"spoken of in quotes":        {"`</think>` ends a thought.", "`</think>` ends a thought.", false},
		"spoken of in a sentence":    {"Some write <think> before it.", "Some write <think> before it.", false},
		"the end of a turn":          {"Oslo.<|im_end|>", "Oslo.", false},
	} {
		said, thinking := model.TakeAnswer(c.text)
		assert.True(t, said == c.said && thinking == c.thinking, "%s: %q %v, want %q", name, said, thinking, c.said)
		again, _ := model.TakeAnswer(said)
		assert.True(t, again == said, "%s: of %q it takes %q", name, said, again)
	}
}

// Time and memory are in proportion to the length of a reply, whatever stands in it.
func TestRepliesOfNothingButMarksAreRead(t *testing.T) {
	for _, unit := range []string{"<think>", "</think>", "{", "[", `{"a":`, "<|channel|>", "<", "[THINK]", "assistantfinal", "\n<answer>"} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		said, _ := model.TakeAnswer("analysis" + text)
		assert.True(t, len(said) <= len(text)+8, "%q: %d bytes", unit, len(said))
	}
}

// Marks that one long line speaks of are read in time that grows with the line: its square would be half an hour here.
func TestALongLineThatSpeaksOfManyMarksIsRead(t *testing.T) {
	line := strings.Repeat("x <think>", 1<<19)
	said, thinking := model.TakeAnswer(line)
	assert.True(t, said == line && !thinking, "%d of %d bytes, %v", len(said), len(line), thinking)
}

// inPieces gives the parts of a reply that are given on before its end, and all that are.
func inPieces(open bool, pieces []string) (early, all []string, answer string, err error) {
	saying := model.Saying{Open: open, Give: func(text string) error {
		all = append(all, text)
		return nil
	}}
	for _, piece := range pieces {
		if err = saying.Add(piece); err != nil {
			return nil, all, "", err
		}
	}
	early = slices.Clone(all)
	answer, _, err = saying.End()
	return early, all, answer, err
}

func TestWhatIsSaidComesInPieces(t *testing.T) {
	for name, c := range map[string]struct {
		open          bool
		pieces, early []string
		answer        string
		err           error
	}{
		"plain":                      {true, []string{"Oslo", " is", " it."}, []string{"Oslo", " is", " it."}, "Oslo is it.", nil},
		"plain, of an unknown model": {false, []string{"Oslo", " is", " it."}, nil, "Oslo is it.", nil},
		"behind a thought":           {true, []string{"<th", "ink>Is it?", "</thi", "nk>\n", "Oslo", " it is."}, []string{"Oslo", " it is."}, "Oslo it is.", nil},
		"of an unknown model":        {false, []string{"<think>Is it?</think>\n", "Oslo", " it is."}, []string{"Oslo", " it is."}, "Oslo it is.", nil},
		"whose beginning is lost":    {false, []string{"Is it?", "\n</think>", "Oslo", " it is."}, []string{"Oslo", " it is."}, "Oslo it is.", nil},
		"that is not closed":         {true, []string{"<think>Is", " it?"}, nil, "", nil},
		"lost though none was":       {true, []string{"Is it?", "\n</think>", "Oslo"}, nil, "", model.ErrLateThought},
		"a sign of less":             {true, []string{"x <", " b", " < c", " [1", "]"}, []string{"x", " < b", " < c", " [1", "]"}, "x < b < c [1]", nil},
		"a mark in quotes":           {true, []string{"`</think", ">`", " ends it."}, []string{"`", "</think>`", " ends it."}, "`</think>` ends it.", nil},
		"a tag around it":            {true, []string{"<answer>Os", "lo.</answer>"}, nil, "Oslo.", nil},
		"a thought behind":           {true, []string{"Oslo.", "\n<think>Is", " it?</think>", "\n"}, []string{"Oslo."}, "Oslo.", nil},
		"a word like a channel":      {true, []string{"ana", "lysis", " of it"}, []string{"analysis of it"}, "analysis of it", nil},
		"a channel":                  {true, []string{"ana", "lysisWe", " look.assistantfinal", "Oslo"}, nil, "Oslo", nil},
		"the end of a turn":          {true, []string{"Oslo.", "<|im_", "end|>"}, []string{"Oslo."}, "Oslo.", nil},
	} {
		early, all, answer, err := inPieces(c.open, c.pieces)
		assert.True(t, errors.Is(err, c.err) && answer == c.answer && slices.Equal(early, c.early),
			"%s: %q, then %q, %v", name, early, answer, err)
		assert.True(t, err != nil || strings.Join(all, "") == answer, "%s: %q was given of %q", name, all, answer)
	}
}

// However a reply is cut, and whatever is known of its model, what is given on is the answer of the whole, or nothing
// of a thought came before the error.
func TestAReplyInPiecesIsThatOfTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	parts := []string{
		"<think>", "</think>", "[THINK]", "[/THINK]", "\n", " ", "Oslo", "é", "<", "[1]", "`", "<|end|>", "a thought",
		"<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<answer>", "</answer>", "analysis", "<|im_end|>",
	}
	for range 20_000 {
		var whole string
		for range random.IntN(9) {
			whole += parts[random.IntN(len(parts))]
		}
		var pieces []string
		for rest := whole; rest != ""; {
			n := 1 + random.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want, _ := model.TakeAnswer(whole)
		for _, open := range []bool{true, false} {
			_, all, answer, err := inPieces(open, pieces)
			require.True(t, err != nil || answer == strings.TrimSpace(want) && strings.Join(all, "") == answer,
				"%q: %q of %q, want %q", pieces, all, answer, want)
			require.True(t, err == nil || errors.Is(err, model.ErrLateThought) && len(all) != 0, "%q: %v", pieces, err)
		}
	}
}
