// Package limits wraps models with the limits of an endpoint: concurrency that adapts (additive increase,
// multiplicative decrease), and requests and tokens per minute that all workers share through the classes port.
package limits

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Gate admits calls to one endpoint, first come, first served. Its width starts at the configured concurrency, halves
// when the server says that it is too much (429, 503, time-outs) and grows by one for each width of successes.
type Gate struct {
	mu       sync.Mutex
	max      float64
	width    float64
	inflight int
	waiting  list.List // of chan struct{}: closed when admitted
	until    time.Time // nothing is admitted before
	timer    *time.Timer
	cooled   time.Time // no second halving before
	streak   int       // refusals since the last success
}

// NewGate makes a gate of the given concurrency (0 = 64).
func NewGate(concurrency int) *Gate {
	if concurrency <= 0 {
		concurrency = 64
	}
	return &Gate{max: float64(concurrency), width: float64(concurrency)}
}

// Resize sets the concurrency.
func (g *Gate) Resize(concurrency int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := float64(concurrency); concurrency > 0 && c != g.max {
		g.max, g.width = c, c
		g.admit()
	}
}

// admit lets in who waits and fits; each wakes alone, since thousands may wait. The caller holds the lock.
func (g *Gate) admit() {
	if wait := time.Until(g.until); wait > 0 {
		if g.timer == nil && g.waiting.Len() > 0 {
			g.timer = time.AfterFunc(wait, func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.timer = nil
				g.admit()
			})
		}
		return
	}
	for g.inflight < int(g.width) && g.waiting.Len() > 0 {
		g.inflight++
		close(g.waiting.Remove(g.waiting.Front()).(chan struct{}))
	}
}

// Enter waits for admission. The caller must Leave when it returns nil.
func (g *Gate) Enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in := make(chan struct{})
	g.mu.Lock()
	el := g.waiting.PushBack(in)
	g.admit()
	g.mu.Unlock()
	select {
	case <-in:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-in: // admitted at the same moment: give the place on
		g.inflight--
		g.admit()
	default:
		g.waiting.Remove(el)
	}
	return ctx.Err()
}

// Leave gives the place back and learns from the outcome.
func (g *Gate) Leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inflight--
	switch code := fault.CodeOf(err); {
	case err == nil:
		g.streak = 0
		g.width = min(g.max, g.width+1/g.width)
	case code == fault.ModelRateLimited || code == fault.ModelUnavailable:
		now := time.Now()
		if now.After(g.cooled) {
			g.width = max(1, g.width/2)
			g.cooled = now.Add(time.Second)
		}
		g.streak++
		// The refused call waits by itself; everyone waits once refusals come in a row.
		if d := fault.RetryAfter(err); d > 0 && g.streak >= 3 && now.Add(d).After(g.until) {
			g.until = now.Add(min(d, 5*time.Minute))
		}
	}
	g.admit()
}

// Limits of an endpoint.
type Limits struct {
	Gate            *Gate
	Shared          coordination.Claims
	PerMinute       int
	TokensPerMinute int
}

// enter waits for the shared rate, then for the gate.
func (l Limits) enter(ctx context.Context, endpoint string, tokens int) error {
	for l.PerMinute > 0 || l.TokensPerMinute > 0 {
		reserved, err := l.Shared.Reserve(ctx, endpoint, 1, tokens, l.PerMinute, l.TokensPerMinute)
		if err != nil {
			return err
		}
		if reserved.Wait == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(reserved.Wait, 5*time.Second)):
		}
	}
	return l.Gate.Enter(ctx)
}

func (l Limits) settle(ctx context.Context, endpoint string, estimated int, used int64, err error) {
	if l.TokensPerMinute > 0 && err == nil && used > 0 {
		_ = l.Shared.Settle(ctx, endpoint, int(used)-estimated) // an estimate that stays costs speed, not money
	}
}

// Chat limits a chat model.
type Chat struct {
	model.Chat
	Limits
}

// Complete implements model.Chat. Tokens are estimated at four bytes each, the reply as long as the input.
func (c Chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	est := (len(call.System)+len(call.User))/4 + len(call.Input)/4
	endpoint := c.Info().Endpoint + " chat"
	if err := c.enter(ctx, endpoint, est); err != nil {
		return model.Reply{}, err
	}
	// Once admitted a call is finished: it costs the same, and what it brings is kept.
	r, err := c.Chat.Complete(context.WithoutCancel(ctx), call)
	c.Gate.Leave(err)
	c.settle(ctx, endpoint, est, r.Usage.Prompt+r.Usage.Completion, err)
	return r, err
}

// Embedder limits an embedder.
type Embedder struct {
	model.Embedder
	Limits
	Query bool // calls end with their query: nothing is kept of them
}

// keep is the context of an admitted call.
func (e Embedder) keep(ctx context.Context) context.Context {
	if e.Query || model.IsCallerBound(ctx) {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// Embed implements model.Embedder.
func (e Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	est := 0
	for _, t := range texts {
		est += len(t) / 4
	}
	endpoint := e.Info().Endpoint + " embed"
	if err := e.enter(ctx, endpoint, est); err != nil {
		return nil, model.Usage{}, err
	}
	vs, u, err := e.Embedder.Embed(e.keep(ctx), texts)
	e.Gate.Leave(err)
	e.settle(ctx, endpoint, est, u.Prompt, err)
	return vs, u, err
}
