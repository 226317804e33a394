package stage

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
)

// Health knows, over the units of a run in one process, whether a model serves a task at all. An answer of no use (a
// refusal, or a text that cannot be read) is the item's own only where the model served another request that was sent
// later. While the model is in doubt nothing new is sent: all wait for what is under way. Where that decides nothing,
// one of the items that wait is asked for, which costs nothing beside what it brings; where that comes to nothing too,
// or no item is left, one small request decides. So a server that refuses everything for a while, from the first call
// or in the middle of a run, costs no item, and a server that stumbles now and then is not paid for small requests.
type Health struct {
	mu      sync.Mutex
	served  time.Time // when the last request was sent that came to something
	down    time.Time // when the last small request was sent that came to nothing
	cause   error
	bad     int           // items with an answer of no use, since a request was served
	since   time.Time     // when the request of the first of them was sent
	tried   bool          // since then, an item was asked for in doubt
	asking  bool          // a small request is under way
	under   int           // items that are asked for, but for those that wait for a verdict
	changed chan struct{} // closed when any of this changes
	first   firsts
}

const (
	// doubtful is how many items in a row come to nothing before others wait.
	doubtful = 2
	// longestHearing bounds the wait for what is under way: a request may hang.
	longestHearing = time.Minute
)

// NewHealth knows nothing yet.
func NewHealth() *Health { return &Health{changed: make(chan struct{})} }

// wakeWaiters wakes all who wait. The caller holds the lock.
func (h *Health) wakeWaiters() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// enterItem counts an item that is asked for, until leave is called.
func (h *Health) enterItem() (leave func()) {
	if h == nil {
		return func() {}
	}
	count := func(by int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.under += by
		h.wakeWaiters()
	}
	count(1)
	return func() { count(-1) }
}

// noteSuccess takes that a request came to something. h may be nil.
func (h *Health) noteSuccess(sent time.Time) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteServed(sent)
	h.wakeWaiters()
}

// noteServed takes that the model served a request. The caller holds the lock.
func (h *Health) noteServed(sent time.Time) {
	if sent.After(h.served) {
		h.served = sent
	}
	if h.served.After(h.since) {
		h.bad, h.tried = 0, false
	}
}

// noteUseless takes that the first request for an item came to nothing.
func (h *Health) noteUseless(sent time.Time) {
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

// checkDoubt gives errDoubt where a request that was begun at the given time must not be sent as things stand. The one
// that is sent in doubt is held by a small request alone.
func (h *Health) checkDoubt(began time.Time, inDoubt bool) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bad >= doubtful && !inDoubt || h.probeFailed(began) {
		return errDoubt
	}
	return nil
}

// probeFailed says that the last that is heard is a small request after the given time, and that it came to nothing.
func (h *Health) probeFailed(began time.Time) bool {
	return h.down.After(began) && !h.served.After(h.down)
}

// settleDoubt waits until the model is in doubt no longer, or the caller's request is the one that is sent in doubt. An
// error says that the model does not serve.
func (h *Health) settleDoubt(
	ctx context.Context, began time.Time, probe func(context.Context) error,
) (inDoubt bool, err error) {
	if h == nil {
		return false, nil
	}
	h.mu.Lock()
	doubt, since, fell, cause := h.bad >= doubtful, h.since, h.probeFailed(began), h.cause
	h.mu.Unlock()
	switch {
	case fell:
		return false, cause
	case doubt:
		return h.awaitVerdict(ctx, since, probe, true)
	}
	return false, nil
}

// checkServing finds out whether the model serves requests sent later than the given time; an error says that it does
// not.
func (h *Health) checkServing(ctx context.Context, sent time.Time, probe func(context.Context) error) error {
	_, err := h.awaitVerdict(ctx, sent, probe, false)
	return err
}

// awaitVerdict does what checkServing does for an item that waits meanwhile. mayGo says that the caller has a request
// that it would send: goes says that it shall, though nothing is decided.
func (h *Health) awaitVerdict(
	ctx context.Context, sent time.Time, probe func(context.Context) error, mayGo bool,
) (goes bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under--
	h.wakeWaiters()
	defer func() { h.under++ }()
	patience := time.NewTimer(longestHearing)
	defer patience.Stop()
	for impatient := false; ; {
		switch {
		case h.served.After(sent):
			return false, nil
		case h.down.After(sent):
			return false, h.cause
		case h.asking, h.under > 0 && !impatient:
		case mayGo && !h.tried:
			h.tried = true
			return true, nil
		default:
			return false, h.sendProbe(ctx, probe)
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-patience.C:
			impatient = true
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if h.mu.Lock(); err != nil {
			return false, err
		}
	}
}

// sendProbe sends the small request. The caller holds the lock, which others have meanwhile.
func (h *Health) sendProbe(ctx context.Context, probe func(context.Context) error) error {
	h.asking = true
	h.mu.Unlock()
	began := time.Now()
	err := errPanicked
	defer func() {
		h.mu.Lock()
		h.asking = false
		switch {
		case err == nil:
			h.noteServed(began)
		case ctx.Err() == nil: // all who wait hear of it; a later caller finds out again
			h.down, h.cause, h.bad, h.tried = began, err, 0, false
		}
		h.wakeWaiters()
	}()
	err = probe(ctx)
	return err
}

// errPanicked is the outcome of a small request that never returned.
var errPanicked = errors.New("the request panicked")

// newProbe asks for what any healthy model gives.
func newProbe[T any](chat model.Chat, call model.Call, read func(string) (T, bool)) func(context.Context) error {
	return func(ctx context.Context) error {
		instructions, _, whole := strings.Cut(call.User, model.TextFollows)
		if call.User = model.ProbeText; whole {
			call.User = instructions + model.TextFollows + model.ProbeText
		}
		call.Input, call.Name, call.Ref = model.ProbeText, "Marie Curie", ""
		if len(call.Pictures) > 0 {
			call.Pictures = [][]byte{model.ProbePicture()}
		}
		var reply model.Reply
		var unreadable error // where a plain sentence brings that, too, asking again brings nothing else
		err := retry.Do(model.WithUrgency(ctx), func(ctx context.Context) error {
			var err error
			if reply, err = chat.Complete(ctx, call); fault.Is(err, fault.ModelUnreadable) {
				unreadable, err = err, nil
			}
			return err
		})
		if err == nil {
			err = unreadable
		}
		if err != nil {
			return err
		}
		if _, ok := readAnswer(read, reply.Text); ok {
			return nil
		}
		info := chat.Info()
		return fault.ModelRefused.At("read answers of chat model", info.Endpoint+" model "+info.Model).
			Because("its answers are unreadable; its answer to a plain sentence was: " + firstWords(reply.Text)).
			Advise("check the log of the model server or its gateway")
	}
}

// firstWords returns the beginning of an answer to the probe, which holds no text of a document.
func firstWords(text string) string {
	const most = 200
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}
