package model_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/limits"
)

type scripted struct {
	reply model.Reply
	err   error
	free  bool
	boom  bool
	calls int
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

// tally is a meter that remembers what it got.
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
	_, err := model.MeterChat(below, meter).Complete(t.Context(), model.Call{})
	assert.True(t, fault.Is(err, fault.Paused), "chat: %v", err)
	_, _, err = model.MeterEmbedder(below, meter).Embed(t.Context(), []string{"a"})
	assert.True(t, fault.Is(err, fault.Paused), "embed: %v", err)
	assert.True(t, below.calls == 0 && len(meter.ends) == 0,
		"%d calls were sent, %d counted", below.calls, len(meter.ends))
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
	limited := limits.Embedder{Embedder: builtin.Embedder{}, Query: true}
	metered := model.MeterEmbedder(&scripted{}, &tally{})
	for name, c := range map[string]struct {
		value any
		want  bool
	}{
		"itself":                           {builtin.Embedder{}, true},
		"below limits":                     {limited, true},
		"below two decorators":             {limits.Embedder{Embedder: limited}, true},
		"below one that unwraps to any":    {opaque{limited}, true},
		"nowhere":                          {metered, false},
		"below one that hides it":          {bare{builtin.Embedder{}}, false},
		"nothing at all":                   {nil, false},
		"below one that unwraps to nobody": {opaque{}, false},
	} {
		weighable, ok := model.As[model.Weighable](c.value)
		require.Equal(t, c.want, ok, "%s: found", name)
		assert.True(t, !ok || weighable.WithIDF(func(string) float64 { return 2 }).Dimension() == builtin.Dimension,
			"%s: another embedder was found", name)
	}
	chat := limits.Chat{Chat: model.MeterChat(&scripted{}, &tally{})}
	found, ok := model.As[*scripted](chat)
	assert.True(t, ok && !found.free, "a chat model below limits and meter is not found")
	if outer, ok := model.As[limits.Embedder](opaque{limited}); !ok || !outer.Query {
		t.Error("a decorator is not found by its own type")
	}
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
			_, err := chat.Complete(ctx, model.Call{Task: model.Extract, User: "twelve bytes"})
			require.NoError(t, err, name)
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
		"free":      model.MeterChat(&scripted{free: true}, &seer{}),
		"no meter":  &scripted{},
		"no seeing": model.MeterChat(&scripted{}, &tally{}),
	} {
		assert.True(t, model.NewAdmitter(chat, model.Extract, 0, "a") == nil, "%s: is admitted ahead", name)
	}
	embedder := model.MeterEmbedder(&scripted{}, &seer{holds: true})
	assert.True(t, model.NewAdmitter(embedder, model.EmbedTask, 0, "a") != nil,
		"embeddings that are paid for are not admitted ahead")
}
