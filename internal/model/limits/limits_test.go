package limits_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

// endpoint is a model below limits: it reports whether its context can still be cancelled, and answers as configured.
type endpoint struct {
	usage    model.Usage
	err      error
	boom     bool
	waits    time.Duration
	detached bool
	calls    int
}

func (e *endpoint) call(ctx context.Context) error {
	e.calls++
	if e.boom {
		panic("boom")
	}
	e.detached = ctx.Done() == nil
	select {
	case <-time.After(e.waits):
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *endpoint) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	return model.Reply{Usage: e.usage}, e.call(ctx)
}

func (e *endpoint) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	return make([][]float32, len(texts)), e.usage, e.call(ctx)
}

func (*endpoint) Info() model.Info { return model.Info{Endpoint: "http://e", Paid: true} }
func (*endpoint) Dimension() int   { return 3 }

// rate is the shared limit: it asks for a wait a few times, then lets through.
type rate struct {
	coordination.Claims
	wait     time.Duration
	times    int
	err      error
	reserved []int
	settled  []int
	names    []string
}

func (r *rate) Reserve(_ context.Context, name string, _, tokens, _, _ int) (coordination.Reserved, error) {
	r.names = append(r.names, name)
	if r.err != nil {
		return coordination.Reserved{}, r.err
	}
	if r.times > 0 {
		r.times--
		return coordination.Reserved{Wait: r.wait}, nil
	}
	r.reserved = append(r.reserved, tokens)
	return coordination.Reserved{}, nil
}

func (r *rate) Settle(_ context.Context, _ string, delta int) error {
	r.settled = append(r.settled, delta)
	return nil
}

func TestTokensAreReservedAndSettled(t *testing.T) {
	call := model.Call{System: "12345678", User: "12345678", Input: "12345678"} // 6 tokens by the estimate
	for name, c := range map[string]struct {
		usage   model.Usage
		err     error
		settled []int
	}{
		"the server reports more":           {model.Usage{Prompt: 7, Completion: 3}, nil, []int{4}},
		"the server reports less":           {model.Usage{Prompt: 1}, nil, []int{-5}},
		"the server reports nothing":        {model.Usage{}, nil, nil},
		"an answer of no use was paid also": {model.Usage{Prompt: 9}, fault.ModelRejected.At("call", "m"), []int{3}},
	} {
		shared, below := &rate{}, &endpoint{usage: c.usage, err: c.err}
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate(1), Shared: shared, TokensPerMinute: 100}}
		_, err := chat.Complete(t.Context(), call)
		require.True(t, errors.Is(err, c.err), "%s: %v", name, err)
		assert.True(t, len(shared.reserved) == 1 && shared.reserved[0] == 6 && shared.names[0] == "http://e chat",
			"%s: reserved %v of %q", name, shared.reserved, shared.names)
		assert.True(t, len(shared.settled) == len(c.settled) && (len(c.settled) == 0 || shared.settled[0] == c.settled[0]),
			"%s: settled %v, want %v", name, shared.settled, c.settled)
	}
}

func TestTheSharedRateIsAskedAgainUntilItLetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, below := &rate{wait: time.Minute, times: 3}, &endpoint{}
		embedder := limits.Embedder{Embedder: below, Limits: limits.Limits{Gate: gate(1), Shared: shared, PerMinute: 1}}
		begin := time.Now()
		_, _, err := embedder.Embed(t.Context(), []string{"12345678"})
		require.NoError(t, err)
		assert.Equal(t, 15*time.Second, time.Since(begin), "no wait is longer than 5s")
		assert.Equal(t, 1, below.calls)
		assert.True(t, len(shared.names) == 4 && shared.names[0] == "http://e embed", "asked %q", shared.names)
	})
}

func TestWithoutRatesTheSharedLimitIsNotAsked(t *testing.T) {
	shared, below := &rate{}, &endpoint{usage: model.Usage{Prompt: 5}}
	chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate(1), Shared: shared}}
	_, err := chat.Complete(t.Context(), model.Call{})
	assert.True(t, err == nil && len(shared.names)+len(shared.settled) == 0, "%v, asked %v", err, shared.names)
}

func TestACallThatIsNotAdmittedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &endpoint{}
		down := &rate{err: fault.StoreDown.At("reserve", "http://e")}
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate(1), Shared: down, PerMinute: 1}}
		if _, err := chat.Complete(t.Context(), model.Call{}); !fault.Is(err, fault.StoreDown) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		full := limits.Limits{Gate: gate(1), Shared: &rate{wait: time.Second, times: 1000}, PerMinute: 1}
		_, _, err := limits.Embedder{Embedder: below, Limits: full}.Embed(ctx, []string{"a"})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, below.calls)
	})
}

func TestAnAdmittedCallIsFinishedUnlessItsQueryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &endpoint{waits: time.Minute}
		limit := limits.Limits{Gate: gate(1)}
		for name, c := range map[string]struct {
			call func(context.Context) error
			want error
		}{
			"chat": {func(ctx context.Context) error {
				_, err := limits.Chat{Chat: below, Limits: limit}.Complete(ctx, model.Call{})
				return err
			}, nil},
			"chat that ends with its caller": {func(ctx context.Context) error {
				chat := limits.Chat{Chat: below, Limits: limit}
				_, err := chat.Complete(model.CallerBound(ctx), model.Call{})
				return err
			}, context.DeadlineExceeded},
			"embedder of a build": {func(ctx context.Context) error {
				_, _, err := limits.Embedder{Embedder: below, Limits: limit}.Embed(ctx, []string{"a"})
				return err
			}, nil},
			"embedder of a query": {func(ctx context.Context) error {
				_, _, err := limits.Embedder{Embedder: below, Limits: limit, Query: true}.Embed(ctx, []string{"a"})
				return err
			}, context.DeadlineExceeded},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := c.call(ctx)
			assert.True(t, errors.Is(err, c.want) && (c.want == nil) == below.detached, "%s: got %v, want %v", name, err, c.want)
			cancel()
		}
	})
}

func TestAPanicGivesItsPlaceBack(t *testing.T) {
	limit := limits.Limits{Gate: gate(1)}
	boom := &endpoint{boom: true}
	assert.Panics(t, func() { _, _ = limits.Chat{Chat: boom, Limits: limit}.Complete(t.Context(), model.Call{}) })
	assert.Panics(t, func() { _, _, _ = limits.Embedder{Embedder: boom, Limits: limit}.Embed(t.Context(), []string{"a"}) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	assert.NoError(t, limit.Gate.Enter(ctx), "the place is still taken")
}

// startled is a meter that panics where it is asked ahead.
type startled struct{}

func (startled) Begin(context.Context, string, int64) (func(model.Usage, bool), error) {
	return func(model.Usage, bool) {}, nil
}

func (startled) AdmitAhead(context.Context, string, int64) (*model.Admission, error) { panic("boom") }

func TestAPanicOfWhoPaysGivesThePlaceBackThatIsStillToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := limits.Limits{Gate: gate(1)}
		require.NoError(t, limit.Gate.Enter(t.Context()))
		embedder := limits.Embedder{Embedder: model.MeterEmbedder(&endpoint{}, startled{}), Limits: limit}
		assert.Panics(t, func() { _, _, _ = embedder.Embed(t.Context(), []string{"a"}) }, "it was not asked ahead")
		limit.Gate.Leave(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.NoError(t, limit.Gate.Enter(ctx), "the place is taken by a call that never comes")
	})
}

// slow is a model that many call at once.
type slow struct {
	endpoint
	waits time.Duration
	calls atomic.Int64
}

func (s *slow) Complete(context.Context, model.Call) (model.Reply, error) {
	s.calls.Add(1)
	time.Sleep(s.waits)
	return model.Reply{}, nil
}

// Calls that were let through by no rate at all and wait for a place are held to the rate that is given meanwhile.
func TestARateThatIsGivenHoldsWhatIsQueuedAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &slow{waits: time.Second}
		gate, rates := limits.NewGate(), limits.NewRates(0, 0)
		gate.SetLimit("docs", 1)
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate, Shared: memory.New(), Rates: rates}}
		for range 10 {
			go func() { _, _ = chat.Complete(t.Context(), model.Call{}) }()
		}
		synctest.Wait()
		rates.Set(2, 0)
		time.Sleep(20 * time.Second)
		assert.EqualValues(t, 3, below.calls.Load()) // one was sent before, and a minute's worth goes at once
		rates.Set(0, 0)
		time.Sleep(10 * time.Second)
		assert.Equal(t, int64(10), below.calls.Load())
	})
}

func TestAConcurrencyThatIsGivenCountsForWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below := &slow{waits: time.Minute}
		gate := limits.NewGate()
		gate.SetLimit("docs", 1)
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate}}
		for range 10 {
			go func() { _, _ = chat.Complete(t.Context(), model.Call{}) }()
		}
		synctest.Wait()
		gate.ChangeLimit("docs", 4)
		gate.ChangeLimit("nobody", 1)
		synctest.Wait()
		assert.Equal(t, int64(4), below.calls.Load())
		time.Sleep(10 * time.Minute)
	})
}
