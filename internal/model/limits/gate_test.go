package limits_test

import (
	"context"
	"errors"
	"sync"
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
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func refused(after time.Duration) error {
	err := fault.ModelRateLimited.At("call", "m")
	err.RetryAfter = after
	return err
}

func gate(concurrency int) *limits.Gate {
	made := limits.NewGate()
	made.SetLimit("index", concurrency)
	return made
}

// crowd sends n calls of one second through a gate, in a bubble of synctest where that takes no time, and gives the
// largest number in flight.
func crowd(t *testing.T, gate *limits.Gate, n int, outcome error) int {
	t.Helper()
	var mu sync.Mutex
	inflight, most := 0, 0
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := musttest.Err(gate.Enter(t.Context())); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inflight++
			most = max(most, inflight)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inflight--
			mu.Unlock()
			gate.Leave(outcome)
		})
	}
	wg.Wait()
	return most
}

func refuse(t *testing.T, gate *limits.Gate, after time.Duration) {
	require.NoError(t, musttest.Err(gate.Enter(t.Context())))
	gate.Leave(refused(after))
}

func TestNoMoreThanTheWidthAreInFlight(t *testing.T) {
	for name, c := range map[string]struct{ concurrency, want int }{
		"configured": {8, 8}, "one at a time": {1, 1}, "not configured": {0, 64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { assert.Equal(t, c.want, crowd(t, gate(c.concurrency), 400, nil)) })
		})
	}
}

func TestRefusalsNarrowTheGateAndSuccessWidensIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		refuse(t, gate, 0)
		assert.Equal(t, 8, crowd(t, gate, 40, errors.New("other")), "after a refusal")
		crowd(t, gate, 400, nil)
		assert.Equal(t, 16, crowd(t, gate, 200, nil), "after successes")
	})
}

func TestRefusalsAtOnceHalveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		crowd(t, gate, 16, refused(0)) // they all come back in the same second
		assert.Equal(t, 8, crowd(t, gate, 40, errors.New("other")))
		for range 10 {
			time.Sleep(2 * time.Second)
			refuse(t, gate, 0)
		}
		assert.Equal(t, 1, crowd(t, gate, 4, errors.New("other")), "a gate never closes")
	})
}

func TestRefusalsInARowStopEveryoneForTheAskedTime(t *testing.T) {
	for name, c := range map[string]struct {
		refusals  int
		ask, want time.Duration
	}{
		"two refusals": {2, time.Minute, 0}, "three refusals": {3, time.Minute, time.Minute}, "no wish": {3, 0, 0},
		"an unreasonable one": {3, 24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := gate(64)
				for range c.refusals {
					refuse(t, gate, c.ask)
				}
				begin := time.Now()
				crowd(t, gate, 3, nil)
				assert.Equal(t, c.want, time.Since(begin)-time.Second, "admitted after")
			})
		})
	}
}

// The waiter has chosen to give up when its place comes free, and must hand it on.
func TestAWaiterThatIsAdmittedAsItGivesUpHandsItsPlaceOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			gate := gate(1)
			require.NoError(t, musttest.Err(gate.Enter(t.Context())))
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if musttest.Err(gate.Enter(ctx)) == nil {
					gate.Leave(nil)
				}
			})
			synctest.Wait()
			cancel()
			gate.Leave(nil)
			wg.Wait()
			late, stop := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, musttest.Err(gate.Enter(late)), "the place is lost")
			stop()
		}
	})
}

func TestIndexesThatShareAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		gate.SetLimit("other", 4)
		assert.Equal(t, 4, crowd(t, gate, 40, nil))
		for range 3 { // each activity and each query says its own again
			gate.SetLimit("other", 4)
			gate.SetLimit("index", 16)
		}
		assert.Equal(t, 4, crowd(t, gate, 40, nil))
		gate.SetLimit("other", 12) // its configuration was changed
		assert.Equal(t, 12, crowd(t, gate, 40, nil))
		time.Sleep(11 * time.Minute) // the other index is not used any more
		gate.SetLimit("index", 16)
		assert.Equal(t, 16, crowd(t, gate, 40, nil))
	})
}

func TestWhatTheGateLearnedOutlivesItsConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		refuse(t, gate, 0) // 8
		for range 5 {
			gate.SetLimit("other", 32)
			gate.SetLimit("index", 16)
		}
		assert.Equal(t, 8, crowd(t, gate, 40, errors.New("other")))
		gate.SetLimit("index", 5)
		gate.SetLimit("index", 16)
		most := crowd(t, gate, 40, errors.New("other"))
		assert.True(t, most <= 8, "%d in flight: a configuration widened what refusals narrowed", most)
	})
}

// stopped refuses every call until it serves.
type stopped struct {
	model.Chat
	serves atomic.Bool
	busy   atomic.Bool // it answers with 429
	asked  atomic.Int64
}

func (s *stopped) Info() model.Info { return model.Info{Endpoint: "e"} }

func (s *stopped) Complete(context.Context, model.Call) (model.Reply, error) {
	s.asked.Add(1)
	if s.busy.Load() {
		return model.Reply{}, fault.ModelRateLimited.At("ask", "e").Because("429")
	}
	if s.serves.Load() {
		return model.Reply{Text: "{}"}, nil
	}
	return model.Reply{}, fault.ModelUnavailable.At("ask", "e").Because("connection refused")
}

// Many callers try a stopped server for five minutes, ten times a second each: it is asked about every ten seconds, all
// of them hear the cause at once, and it is asked by all soon after it serves. Questions are always sent.
func TestAStoppedServerIsAskedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stopped{}
		chat := limits.Chat{Chat: server, Limits: limits.Limits{Gate: limits.NewGate()}}
		end := time.Now().Add(5 * time.Minute)
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					_, err := chat.Complete(t.Context(), model.Call{})
					assert.True(t, fault.Is(err, fault.ModelUnavailable) && time.Since(began) == 0, "%v", err)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		asked := server.asked.Load()
		assert.True(t, 25 < asked && asked < 60, "asked %d times in five minutes", asked)
		for _, ctx := range []context.Context{model.CallerBound(t.Context()), model.WithUrgency(t.Context())} {
			_, _ = chat.Complete(ctx, model.Call{})
		}
		assert.Equal(t, asked+2, server.asked.Load())
		server.serves.Store(true)
		time.Sleep(10 * time.Second)
		for range 20 {
			assert.NoError(t, musttest.Err(chat.Complete(t.Context(), model.Call{})))
		}
	})
}

// A server that says that it has too much to do is there: the next call is sent.
func TestAServerThatRefusesForNowIsNotAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &stopped{}
		chat := limits.Chat{Chat: server, Limits: limits.Limits{Gate: limits.NewGate()}}
		for range 20 {
			_, _ = chat.Complete(t.Context(), model.Call{})
		}
		time.Sleep(10 * time.Second)
		server.busy.Store(true)
		for range 3 {
			musttest.Refuse(chat.Complete(t.Context(), model.Call{}))(t, fault.ModelRateLimited)
		}
	})
}

// granting is a server that grants so many calls, or tokens, a window, and says what is left of them.
type granting struct {
	mu            sync.Mutex
	grant         int64
	tokens        int64 // of a call; 0: calls are granted
	window        time.Duration
	silent        bool
	began         time.Time
	used          int64
	calls, denied int
}

func (g *granting) Info() model.Info { return model.Info{Endpoint: "http://e", Paid: true} }

func (g *granting) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	g.mu.Lock()
	if time.Since(g.began) >= g.window {
		g.began, g.used = time.Now(), 0
	}
	cost := max(1, g.tokens)
	denied := g.used+cost > g.grant
	if g.calls++; denied {
		g.denied++
	} else {
		g.used += cost
	}
	left := model.Left{Known: !g.silent, Count: g.grant - g.used, Reset: g.window - time.Since(g.began)}
	g.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	quota := model.Quota{Requests: left}
	if g.tokens > 0 {
		quota = model.Quota{Tokens: left, Requests: model.Left{Known: true, Count: 1000}}
	}
	model.TellQuota(ctx, quota)
	if denied {
		return model.Reply{}, fault.ModelRateLimited.At("call", "m")
	}
	return model.Reply{}, nil
}

// What a server says is left slows the calls down before it has to refuse one.
// Promises: 70.
func TestAServerThatTellsItsQuotaRefusesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		server *granting
		denied bool
		least  time.Duration // that 50 calls take
		most   time.Duration
	}{
		"of calls":  {&granting{grant: 10, window: 10 * time.Second}, false, 40 * time.Second, 55 * time.Second},
		"of tokens": {&granting{grant: 100, tokens: 10, window: 10 * time.Second}, false, 40 * time.Second, 55 * time.Second},
		"ample":     {&granting{grant: 1000, window: 10 * time.Second}, false, 0, 2 * time.Second},
		"no report": {&granting{grant: 10, window: 10 * time.Second, silent: true}, true, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := c.server
				chat := limits.Chat{Chat: server, Limits: limits.Limits{Gate: gate(8)}}
				call := model.Call{User: "0123456789012345678901234567890123456789"} // ten tokens
				begun := time.Now()
				var callers sync.WaitGroup
				for range 50 {
					callers.Go(func() {
						for {
							if _, err := chat.Complete(t.Context(), call); err == nil {
								return
							}
							time.Sleep(time.Second)
						}
					})
				}
				callers.Wait()
				took := time.Since(begun)
				assert.True(t, (server.denied > 0) == c.denied && took >= c.least && took <= c.most,
					"%d of %d calls were refused, in %s", server.denied, server.calls, took)
			})
		})
	}
}

// A word that is out of date does not close the gate for good, and nonsense not for long.
func TestAQuotaThatIsSpentIsAskedAboutAgain(t *testing.T) {
	for name, c := range map[string]struct{ reset, want time.Duration }{
		"after the report": {7 * time.Second, 7 * time.Second}, "after a second": {0, time.Second},
		"after a minute, the most": {24 * time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := gate(8)
				ticket := musttest.Get(gate.Enter(t.Context()))(t)
				gate.TakeQuota(ticket, model.Quota{Requests: model.Left{Known: true, Reset: c.reset}}, 1)
				gate.Leave(nil)
				begun := time.Now()
				ticket = musttest.Get(gate.Enter(t.Context()))(t)
				assert.Equal(t, c.want, time.Since(begun), "admitted after")
				second, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.Error(t, musttest.Err(gate.Enter(second)), "two were let in before anything was heard")
				gate.TakeQuota(ticket, model.Quota{}, 1)
				gate.Leave(nil)
				assert.Equal(t, 8, crowd(t, gate, 40, nil))
			})
		})
	}
}

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
	wait              time.Duration
	times             int
	err               error
	reserved, settled []int
	names             []string
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
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate(1), Shared: shared, Rates: limits.NewRates(0, 100)}}
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
		limit := limits.Limits{Gate: gate(1), Shared: shared, Rates: limits.NewRates(1, 0)}
		embedder := limits.Embedder{Embedder: below, Limits: limit}
		begin := time.Now()
		musttest.Get2(embedder.Embed(t.Context(), []string{"12345678"}))(t)
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
		below, down := &endpoint{}, &rate{err: fault.StoreDown.At("reserve", "http://e")}
		chat := limits.Chat{Chat: below, Limits: limits.Limits{Gate: gate(1), Shared: down, Rates: limits.NewRates(1, 0)}}
		musttest.Refuse(chat.Complete(t.Context(), model.Call{}))(t, fault.StoreDown)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		full := limits.Limits{Gate: gate(1), Shared: &rate{wait: time.Second, times: 1000}, Rates: limits.NewRates(1, 0)}
		_, _, err := limits.Embedder{Embedder: below, Limits: full}.Embed(ctx, []string{"a"})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, below.calls)
	})
}

func TestAnAdmittedCallIsFinishedUnlessItsQueryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		below, limit := &endpoint{waits: time.Minute}, limits.Limits{Gate: gate(1)}
		for name, c := range map[string]struct {
			call func(context.Context) error
			want error
		}{
			"chat": {func(ctx context.Context) error {
				return musttest.Err(limits.Chat{Chat: below, Limits: limit}.Complete(ctx, model.Call{}))
			}, nil},
			"chat that ends with its caller": {func(ctx context.Context) error {
				chat := limits.Chat{Chat: below, Limits: limit}
				return musttest.Err(chat.Complete(model.CallerBound(ctx), model.Call{}))
			}, context.DeadlineExceeded},
			"embedder of a build": {func(ctx context.Context) error {
				_, _, err := limits.Embedder{Embedder: below, Limits: limit}.Embed(ctx, []string{"a"})
				return err
			}, nil},
			"embedder of a query": {func(ctx context.Context) error {
				_, _, err := limits.Embedder{Embedder: below, Limits: limit}.Embed(model.CallerBound(ctx), []string{"a"})
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
	limit, boom := limits.Limits{Gate: gate(1)}, &endpoint{boom: true}
	assert.Panics(t, func() { _, _ = limits.Chat{Chat: boom, Limits: limit}.Complete(t.Context(), model.Call{}) })
	assert.Panics(t, func() { _, _, _ = limits.Embedder{Embedder: boom, Limits: limit}.Embed(t.Context(), []string{"a"}) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	assert.NoError(t, musttest.Err(limit.Gate.Enter(ctx)), "the place is still taken")
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
		require.NoError(t, musttest.Err(limit.Gate.Enter(t.Context())))
		embedder := limits.Embedder{Embedder: model.MeterEmbedder(&endpoint{}, startled{}), Limits: limit}
		assert.Panics(t, func() { _, _, _ = embedder.Embed(t.Context(), []string{"a"}) }, "it was not asked ahead")
		limit.Gate.Leave(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		assert.NoError(t, musttest.Err(limit.Gate.Enter(ctx)), "the place is taken by a call that never comes")
	})
}

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
		below, gate, rates := &slow{waits: time.Second}, limits.NewGate(), limits.NewRates(0, 0)
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
		below, gate := &slow{waits: time.Minute}, limits.NewGate()
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
