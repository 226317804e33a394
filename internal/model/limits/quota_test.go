package limits_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
)

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
