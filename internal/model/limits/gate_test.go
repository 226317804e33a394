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
			if err := gate.Enter(t.Context()); err != nil {
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
	t.Helper()
	require.NoError(t, gate.Enter(t.Context()))
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
		"two refusals":        {2, time.Minute, 0},
		"three refusals":      {3, time.Minute, time.Minute},
		"no wish":             {3, 0, 0},
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

func TestAWaiterThatGivesUpLeavesNoPlaceTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(1)
		require.NoError(t, gate.Enter(t.Context()))
		gaveUp := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5+1)*time.Second)
			wg.Go(func() {
				defer cancel()
				if gate.Enter(ctx) != nil {
					mu.Lock()
					gaveUp++
					mu.Unlock()
					return
				}
				gate.Leave(nil)
			})
		}
		time.Sleep(3 * time.Second)
		gate.Leave(nil) // at the very moment at which ten others give up
		wg.Wait()
		assert.True(t, gaveUp >= 20, "%d gave up, want at least 20", gaveUp)
		assert.Equal(t, 1, crowd(t, gate, 5, nil))
	})
}

// The waiter has chosen to give up when its place comes free, and must hand it on.
func TestAWaiterThatIsAdmittedAsItGivesUpHandsItsPlaceOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			gate := gate(1)
			require.NoError(t, gate.Enter(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if gate.Enter(ctx) == nil {
					gate.Leave(nil)
				}
			})
			synctest.Wait()
			cancel()
			gate.Leave(nil)
			wg.Wait()
			late, stop := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, gate.Enter(late), "the place is lost")
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
			_, err := chat.Complete(t.Context(), model.Call{})
			assert.NoError(t, err)
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
			_, err := chat.Complete(t.Context(), model.Call{})
			assert.True(t, fault.Is(err, fault.ModelRateLimited), "%v", err)
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
	for name, c := range map[string]struct {
		reset, want time.Duration
	}{
		"after the report":         {7 * time.Second, 7 * time.Second},
		"after a second":           {0, time.Second},
		"after a minute, the most": {24 * time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := gate(8)
				ticket, err := gate.TakeTicket(t.Context())
				require.NoError(t, err)
				gate.TakeQuota(ticket, model.Quota{Requests: model.Left{Known: true, Reset: c.reset}}, 1)
				gate.Leave(nil)
				begun := time.Now()
				ticket, err = gate.TakeTicket(t.Context())
				require.NoError(t, err)
				assert.Equal(t, c.want, time.Since(begun), "admitted after")
				second, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.Error(t, gate.Enter(second), "two were let in before anything was heard")
				gate.TakeQuota(ticket, model.Quota{}, 1)
				gate.Leave(nil)
				assert.Equal(t, 8, crowd(t, gate, 40, nil))
			})
		})
	}
}
