package limits

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// Pauses between the tries of a server that does not answer.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// outage is a server that failed stopAfter times in a row as unavailable: one call at a time finds out whether it
// serves again, after a pause that grows. Other calls fail meanwhile without being sent.
type outage struct {
	failed int // in a row
	cause  error
	pause  time.Duration
	until  time.Time // no call is sent before
	trying bool      // a call that finds out is under way
}

// noteOutcome takes the outcome of a call that was sent. Of calls that fail together one makes the pause longer.
func (o *outage) noteOutcome(err error, now time.Time) {
	if err == nil || fault.Is(err, fault.ModelRateLimited) || fault.Is(err, fault.ModelRejected) { // it answers
		*o = outage{}
		return
	}
	if !fault.Is(err, fault.ModelUnavailable) {
		return
	}
	o.failed, o.cause = o.failed+1, err
	if o.failed >= stopAfter && (o.trying || !now.Before(o.until)) {
		o.trying = false
		o.pause = min(max(firstPause, 2*o.pause), longestPause)
		o.until = now.Add(o.pause)
	}
}

// refuseCall returns the cause where a call must not be sent for now. Calls that a person waits for and urgent ones are
// always sent. With sending, the caller sends the call right away, and is the one that finds out.
func (g *Gate) refuseCall(ctx context.Context, sending bool) error {
	if model.IsUrgent(ctx) || model.IsCallerBound(ctx) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.outage.failed < stopAfter {
		return nil
	}
	if now.Before(g.outage.until) {
		return g.outage.cause
	}
	if sending {
		g.outage.trying, g.outage.until = true, now.Add(g.outage.pause)
	}
	return nil
}
