package model

import (
	"context"
	"sync/atomic"
	"time"
)

// Foresight is a Meter that can admit a request before there is a place for it at its endpoint, so that no place stands
// empty while the store of accounts is asked. Ahead is as Begin; what it gives is of one request, for a short while.
type Foresight interface {
	Meter
	AdmitAhead(ctx context.Context, task string, prompt int64) (*Admission, error)
}

// Admission of a request that was not sent yet. It is used once or given back once, whichever comes first.
type Admission struct {
	// Until is when it holds no more, whatever comes; what then is sent must be admitted again.
	Until time.Time
	// Holds reports, right before the request is sent, whether it may be by this admission.
	Holds func() bool
	// End counts what came back, as the function that Meter.Begin gives.
	End func(usage Usage, answered bool)

	done atomic.Bool
}

// takeEnd gives the end of the request that it admits; nil where it was used before, or given back, or holds no more.
func (a *Admission) takeEnd() func(Usage, bool) {
	if a == nil || !a.done.CompareAndSwap(false, true) {
		return nil
	}
	if !a.Holds() {
		a.End(Usage{}, false)
		return nil
	}
	return a.End
}

// GiveBack ends an admission whose request is not sent; one that was used it leaves alone, and so nil.
func (a *Admission) GiveBack() {
	if a != nil && a.done.CompareAndSwap(false, true) {
		a.End(Usage{}, false)
	}
}

type admitted struct{}

// WithAdmission has the next request within ctx be sent by an admission, where that still holds.
func WithAdmission(ctx context.Context, admission *Admission) context.Context {
	if admission == nil {
		return ctx
	}
	return context.WithValue(ctx, admitted{}, admission)
}

// NewAdmitter gives what admits a request of these texts, and of so many tokens beside them, before it has a place; nil
// where the model below costs nothing, or its meter has no foresight.
func NewAdmitter(metered any, task string, beside int, texts ...string) func(ctx context.Context) (*Admission, error) {
	below, ok := As[interface{ foresightOf() Foresight }](metered)
	if !ok || below.foresightOf() == nil {
		return nil
	}
	meter, prompt := below.foresightOf(), aboutTokens(texts...)+int64(beside)
	return func(ctx context.Context) (*Admission, error) { return meter.AdmitAhead(ctx, task, prompt) }
}

func (m meteredChat) foresightOf() Foresight     { return foresightOf(m.meter) }
func (m meteredEmbedder) foresightOf() Foresight { return foresightOf(m.meter) }

func foresightOf(meter Meter) Foresight {
	ahead, _ := meter.(Foresight)
	return ahead
}

type asked struct{}

// MarkAsked notes that a request begins to wait for its limits and for admission.
func MarkAsked(ctx context.Context) context.Context {
	return context.WithValue(ctx, asked{}, time.Now())
}

// AskedAt returns when the request of a context began to wait; not ok: it has no limits.
func AskedAt(ctx context.Context) (since time.Time, ok bool) {
	since, ok = ctx.Value(asked{}).(time.Time)
	return since, ok
}
