// Package limits wraps models with the limits of an endpoint: concurrency that adapts (additive increase,
// multiplicative decrease), and requests and tokens per minute that all workers share through the coordination port.
package limits

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// longestWait before the shared rate is asked again: others may have given back what they did not use.
const longestWait = 5 * time.Second

// Limits of an endpoint.
type Limits struct {
	Gate   *Gate
	Shared coordination.Claims
	Rates  *Rates // nil: none
	Scope  string // of calls that have limits of their own at the endpoint; empty: of all others
}

// ahead admits a request while it waits for its place; nil: that is asked once it has one.
type ahead func(ctx context.Context) (*model.Admission, error)

// enter waits for the shared rate, then for the gate. The admission is nil where none was asked for, or it is too old.
func (l Limits) enter(ctx context.Context, endpoint string, tokens int, admit ahead) (Ticket, *model.Admission, error) {
	for {
		_, _, changed := l.Rates.currentRates()
		if err := l.Gate.refuseCall(ctx, false); err != nil {
			return Ticket{}, nil, err
		}
		if err := l.reserveRequest(ctx, endpoint, tokens); err != nil {
			return Ticket{}, nil, err
		}
		ticket, admission, err := l.Gate.enterGate(ctx, admit)
		if err != nil {
			return Ticket{}, nil, err
		}
		select {
		case <-changed: // while it waited: what it was let through by counts no more
			admission.GiveBack()
			l.Gate.giveBack()
			continue
		default:
		}
		if err := l.Gate.refuseCall(ctx, true); err != nil {
			admission.GiveBack()
			l.Gate.giveBack()
			l.returnTokens(ctx, endpoint, tokens)
			return Ticket{}, nil, err
		}
		return ticket, admission, nil
	}
}

// returnTokens gives back what was reserved for a call that is not sent.
func (l Limits) returnTokens(ctx context.Context, endpoint string, tokens int) {
	if l.limitsTokens() {
		_ = l.Shared.Settle(ctx, endpoint, -tokens) // an estimate that stays costs speed, not money
	}
}

// reserveRequest waits for one request of so many tokens.
func (l Limits) reserveRequest(ctx context.Context, endpoint string, tokens int) error {
	for {
		perMinute, tokensPerMinute, changed := l.Rates.currentRates()
		if perMinute <= 0 && tokensPerMinute <= 0 {
			break
		}
		reserved, err := l.Shared.Reserve(ctx, endpoint, 1, tokens, perMinute, tokensPerMinute)
		if err != nil {
			return err
		}
		if reserved.Wait == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(min(reserved.Wait, longestWait)):
		}
	}
	return nil
}

// settleTokens corrects the reservation by what the server reported, whether or not its answer was of use.
func (l Limits) settleTokens(ctx context.Context, endpoint string, estimated int, used int64) {
	if used > 0 && l.limitsTokens() {
		_ = l.Shared.Settle(ctx, endpoint, int(used)-estimated) // an estimate that stays costs speed, not money
	}
}

// hearQuota has the gate hear what answers say of the quota.
func (l Limits) hearQuota(ctx context.Context, ticket Ticket, tokens int) context.Context {
	return model.OnQuota(ctx, func(quota model.Quota) { l.Gate.TakeQuota(ticket, quota, tokens) })
}

// errPanicked is the outcome that the gate hears of a call that never returned; it learns nothing from it.
const errPanicked = panicked("the call panicked")

type panicked string

func (p panicked) Error() string { return string(p) }

// Chat limits a chat model.
type Chat struct {
	model.Chat
	Limits
}

// Unwrap gives the model below, for model.As.
func (c Chat) Unwrap() model.Chat { return c.Chat }

// Complete implements model.Chat. Tokens are estimated at four bytes each, the reply as long as the input.
func (c Chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	ctx = model.MarkAsked(ctx)
	estimated := (len(call.System)+len(call.User))/4 + len(call.Input)/4 + call.CountPictures()
	endpoint := c.Info().Endpoint + " chat" + c.Scope
	admit := model.NewAdmitter(c.Chat, call.Task, call.CountPictures(), call.System, call.User)
	ticket, admission, err := c.enter(ctx, endpoint, estimated, admit)
	if err != nil {
		return model.Reply{}, err
	}
	defer admission.GiveBack()
	var reply model.Reply
	err = errPanicked
	defer func() { c.Gate.Leave(err) }()
	if err = model.CheckSend(ctx); err != nil {
		c.returnTokens(ctx, endpoint, estimated)
		return reply, err
	}
	err = errPanicked
	admitted := model.BeforeAgain(keepContext(ctx), func() error { return c.reserveRequest(ctx, endpoint, 0) })
	admitted = c.hearQuota(admitted, ticket, estimated)
	reply, err = c.Chat.Complete(model.WithAdmission(admitted, admission), call)
	c.settleTokens(ctx, endpoint, estimated, reply.Usage.Prompt+reply.Usage.Completion)
	return reply, err
}

// Embedder limits an embedder.
type Embedder struct {
	model.Embedder
	Limits
}

// Unwrap gives the embedder below, for model.As.
func (e Embedder) Unwrap() model.Embedder { return e.Embedder }

// keepContext returns the context of an admitted call. Unless it is bound to its caller it is finished: it costs the
// same, and what it brings is kept.
func keepContext(ctx context.Context) context.Context {
	if model.IsCallerBound(ctx) {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// Embed implements model.Embedder.
func (e Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	ctx = model.MarkAsked(ctx)
	estimated := estimateTokens(texts)
	endpoint := e.Info().Endpoint + " embed"
	admit := model.NewAdmitter(e.Embedder, model.EmbedTask, 0, texts...)
	ticket, admission, err := e.enter(ctx, endpoint, estimated, admit)
	if err != nil {
		return nil, model.Usage{}, err
	}
	defer admission.GiveBack()
	err = errPanicked
	defer func() { e.Gate.Leave(err) }()
	var embedded [][]float32
	var usage model.Usage
	admitted := model.BeforeAgain(keepContext(ctx), func() error { return e.reserveRequest(ctx, endpoint, 0) })
	admitted = model.WithAdmission(e.hearQuota(admitted, ticket, estimated), admission)
	embedded, usage, err = e.Embedder.Embed(admitted, texts)
	e.settleTokens(ctx, endpoint, estimated, usage.Prompt)
	return embedded, usage, err
}

// estimateTokens returns how many tokens texts have, before anybody counts.
func estimateTokens(texts []string) int {
	tokens := 0
	for _, text := range texts {
		tokens += len(text) / 4
	}
	return tokens
}

// Ranker limits a reranker. Its calls end with their caller: nothing is kept of them.
type Ranker struct {
	rerank.Ranker
	Limits
}

// Rerank implements rerank.Ranker.
func (r Ranker) Rerank(
	ctx context.Context, question string, texts []string,
) (scores []float64, usage model.Usage, err error) {
	ctx = model.MarkAsked(ctx)
	estimated := len(question)/4 + estimateTokens(texts)
	endpoint := r.Info().Endpoint + " rerank"
	ticket, _, err := r.enter(ctx, endpoint, estimated, nil)
	if err != nil {
		return nil, model.Usage{}, err
	}
	err = errPanicked
	defer func() { r.Gate.Leave(err) }()
	if err = model.CheckSend(ctx); err != nil {
		return nil, model.Usage{}, err
	}
	err = errPanicked
	admitted := model.BeforeAgain(ctx, func() error { return r.reserveRequest(ctx, endpoint, 0) })
	scores, usage, err = r.Ranker.Rerank(r.hearQuota(admitted, ticket, estimated), question, texts)
	r.settleTokens(ctx, endpoint, estimated, usage.Prompt)
	return scores, usage, err
}
