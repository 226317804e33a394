package stage

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
)

// Health knows, over the units of a run in one process, whether a model serves a task at all. An answer of no use (a
// refusal, or a text that cannot be read) is the item's own only where the model served another request that was sent
// later; where none did, one small request finds out. So a server that refuses everything for a while, from the first
// call or in the middle of a run, costs no item. While it is in doubt nothing else is sent: all wait for the small
// request.
type Health struct {
	mu     sync.Mutex
	served time.Time // when the last request was sent that came to something
	down   time.Time // when the last small request was sent that came to nothing
	cause  error
	bad    int           // items with an answer of no use, since a request was served
	since  time.Time     // when the request of the first of them was sent
	asking chan struct{} // one small request at a time
	first  firsts
}

// doubtful is how many items in a row come to nothing before others wait for the small request.
const doubtful = 2

// NewHealth knows nothing yet.
func NewHealth() *Health { return &Health{asking: make(chan struct{}, 1)} }

// good takes that a request came to something. Nobody may care.
func (h *Health) good(sent time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if sent.After(h.served) {
		h.served = sent
	}
	if h.served.After(h.since) {
		h.bad = 0
	}
}

// useless takes that the first request for an item came to nothing.
func (h *Health) useless(sent time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.served.After(sent) || h.down.After(sent) { // it says nothing new
		return
	}
	if h.bad == 0 || sent.Before(h.since) {
		h.since = sent
	}
	h.bad++
}

// errDoubt has a request wait that was about to be sent.
var errDoubt = errors.New("the model is in doubt")

// free gives errDoubt where a request that was begun at the given time must not be sent as things stand.
func (h *Health) free(began time.Time) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bad >= doubtful || h.fell(began) {
		return errDoubt
	}
	return nil
}

// fell tells that the last that is heard is a small request after the given time, and that it came to nothing.
func (h *Health) fell(began time.Time) bool { return h.down.After(began) && !h.served.After(h.down) }

// settle waits until the model is in doubt no longer; an error says that it does not serve.
func (h *Health) settle(ctx context.Context, began time.Time, probe func(context.Context) error) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	doubt, since, fell, cause := h.bad >= doubtful, h.since, h.fell(began), h.cause
	h.mu.Unlock()
	switch {
	case fell:
		return cause
	case doubt:
		return h.serves(ctx, since, probe)
	}
	return nil
}

// verdict tells whether a request that was sent later was served, and why none is: an error of a small request.
func (h *Health) verdict(sent time.Time) (served bool, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.served.After(sent):
		return true, nil
	case h.down.After(sent):
		return false, h.cause
	}
	return false, nil
}

// serves finds out whether the model serves requests sent later than the given time; an error says that it does not.
func (h *Health) serves(ctx context.Context, sent time.Time, probe func(context.Context) error) error {
	select {
	case h.asking <- struct{}{}:
		defer func() { <-h.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if served, cause := h.verdict(sent); served || cause != nil {
		return cause
	}
	began := time.Now()
	err := probe(ctx)
	if err == nil {
		h.good(began)
	} else if ctx.Err() == nil { // all who wait hear of it; whoever asks later finds out anew
		h.mu.Lock()
		h.down, h.cause, h.bad = began, err, 0
		h.mu.Unlock()
	}
	return err
}

// probe asks for what any healthy model gives.
func probe[T any](chat model.Chat, call model.Call, read func(string) (T, bool)) func(context.Context) error {
	return func(ctx context.Context) error {
		call.User, call.Input, call.Name, call.Ref = model.ProbeText, model.ProbeText, "Marie Curie", ""
		var reply model.Reply
		err := retry.Do(model.Urgent(ctx), func(ctx context.Context) error {
			var err error
			reply, err = chat.Complete(ctx, call)
			return err
		})
		if err != nil {
			return err
		}
		if _, ok := readable(read, reply.Text); ok {
			return nil
		}
		info := chat.Info()
		return fault.ModelRefused.At("read answers of chat model", info.Endpoint+" model "+info.Model).
			Because("one answer after the other cannot be read; to a plain sentence it said: " + firstWords(reply.Text)).
			Advise("see the log of the model server, or of the gateway before it")
	}
}

// firstWords of an answer to the probe, which holds nobody's text.
func firstWords(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}
