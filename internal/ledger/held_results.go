package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// How long a caller waits for its paid result to be stored, by what keeps it from being stored: an outage is likely to
// end, room is made by a person. The result itself is held until it is stored, for as long as the process lives.
const (
	patienceDown   = 5 * time.Minute
	patienceFull   = 10 * time.Second
	patienceDenied = 0
)

// Waits between two tries to store what is held.
const (
	firstRetry   = 200 * time.Millisecond
	longestRetry = 5 * time.Second
	oneTry       = time.Minute // a write that takes longer is tried again
)

// mayHeal reports whether a result that could not be stored may be stored later, and how long its caller waits for
// that.
func mayHeal(err error) (patience time.Duration, may bool) {
	switch {
	case err == nil:
		return 0, false
	case fault.Is(err, fault.StoreFull):
		return patienceFull, true
	case fault.Is(err, fault.StoreDenied):
		return patienceDenied, true
	}
	return patienceDown, fault.KindOf(err) == fault.Transient
}

// holding is what was paid for and is not stored yet.
type holding struct {
	mu     sync.Mutex
	byName map[string]*held // by the name of the claim, which is kept as long
}

// held is one such result.
type held struct {
	since time.Time
	most  time.Duration // patience of callers; 0: as the cause deserves
	retry chan struct{} // asks for a try now
	done  chan struct{} // closed when it is stored, or never will be
	entry *Entry        // with done
	err   error         // with done

	mu    sync.Mutex
	cause error         // of the last try
	tried chan struct{} // closed at the end of the next try
	last  time.Time     // when the last try ended
}

func (h *holding) findHeld(name string) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byName[name]
}

// findOldest gives what is held longest, nil where nothing is.
func (h *holding) findOldest() *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	var oldest *held
	for _, one := range h.byName {
		if oldest == nil || one.since.Before(oldest.since) {
			oldest = one
		}
	}
	return oldest
}

// holdResult keeps a result that could not be stored and goes on trying. release is called when that is over.
func (l *Ledger) holdResult(
	ctx context.Context, name string, cause error, write func(context.Context) (*Entry, error), release func(),
) *held {
	one := &held{
		since: time.Now(), last: time.Now(), cause: cause, most: l.Patience,
		retry: make(chan struct{}, 1), done: make(chan struct{}), tried: make(chan struct{}),
	}
	l.held.mu.Lock()
	if l.held.byName == nil {
		l.held.byName = map[string]*held{}
	}
	l.held.byName[name] = one
	l.held.mu.Unlock()
	go func() {
		one.retryStore(ctx, write)
		l.held.mu.Lock()
		if l.held.byName[name] == one {
			delete(l.held.byName, name)
		}
		l.held.mu.Unlock()
		close(one.done)
		release()
	}()
	return one
}

// retryStore tries until the result is stored, or never will be.
func (h *held) retryStore(ctx context.Context, write func(context.Context) (*Entry, error)) {
	wait := firstRetry
	if h.most > 0 {
		wait = min(wait, h.most)
	}
	for ; ; wait = min(2*wait, longestRetry) {
		select {
		case <-h.retry:
		case <-time.After(wait):
		}
		entry, err := write(ctx)
		if _, may := mayHeal(err); !may {
			h.entry, h.err = entry, err
			return
		}
		h.mu.Lock()
		h.last, h.cause = time.Now(), err
		close(h.tried)
		h.tried = make(chan struct{})
		h.mu.Unlock()
	}
}

// waitStored waits for the result to be stored, as long as the cause deserves patience, or until ctx ends. The cause is
// the error then.
func (h *held) waitStored(ctx context.Context) (*Entry, error) {
	for {
		h.mu.Lock()
		cause, tried := h.cause, h.tried
		h.mu.Unlock()
		patience, _ := mayHeal(cause)
		if h.most > 0 {
			patience = h.most
		}
		if time.Since(h.since) >= patience {
			select {
			case <-h.done:
				return h.entry, h.err
			default:
				return nil, cause
			}
		}
		select {
		case <-h.done:
			return h.entry, h.err
		case <-tried:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// awaitRetry waits for the next try, and has it made now where the last one was a while ago: a later caller must not
// get an error that is over.
func (h *held) awaitRetry(ctx context.Context) {
	pause := time.Second
	if h.most > 0 {
		pause = min(pause, h.most)
	}
	h.mu.Lock()
	tried, recent := h.tried, time.Since(h.last) < pause
	h.mu.Unlock()
	if !recent {
		select {
		case h.retry <- struct{}{}:
		default:
		}
	}
	select {
	case <-tried:
	case <-h.done:
	case <-ctx.Done():
	}
}

// AwaitReady waits while results that were paid for cannot be stored, and gives the cause where that lasts: no caller
// should pay for another one meanwhile.
func (l *Ledger) AwaitReady(ctx context.Context) error {
	for {
		one := l.held.findOldest()
		if one == nil {
			return nil
		}
		one.awaitRetry(ctx)
		if _, err := one.waitStored(ctx); err != nil {
			return err
		}
	}
}

// FindTrouble returns why results that were paid for cannot be stored, nil where none are held.
func (l *Ledger) FindTrouble() error {
	one := l.held.findOldest()
	if one == nil {
		return nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.cause
}

// Drain waits until everything that was paid for is stored, or until ctx ends: then it gives the cause, and what is
// held is lost with the process.
func (l *Ledger) Drain(ctx context.Context) error {
	for {
		one := l.held.findOldest()
		if one == nil {
			return nil
		}
		select {
		case <-one.done:
		case <-ctx.Done():
			return l.FindTrouble()
		}
	}
}
