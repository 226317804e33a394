package limits

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// defaultConcurrency of an endpoint that is not configured.
const defaultConcurrency = 64

const (
	forgetOwner = 10 * time.Minute // after this long without a call of its own, an owner's bound no longer counts
	coolDown    = time.Second      // refusals that come within it halve the width once
	stopAfter   = 3                // refusals in a row after which everyone waits as long as the server asked
)

// Gate admits calls to one endpoint, first come, first served. Its width starts at the configured concurrency, halves
// when the server says that it is too much (429, 503, time-outs) and grows by one for each width of successes.
//
// Several owners (indexes) may share an endpoint, each with a concurrency of its own. The strictest one that was used
// in the last ten minutes bounds the gate, since it is a statement about what the endpoint can take.
//
// Where the server says what is left of a quota, no more are admitted than that, and none until it is filled again
// where nothing is left: then one call finds out how much there is.
//
// A gate that shares its concurrency with other processes (Join) admits no more than its share of it.
type Gate struct {
	mu       sync.Mutex
	bounds   map[string]bound
	max      float64 // the strictest bound
	learned  float64 // what the server bears, from refusals and successes; infinite before the first refusal
	inflight int
	waiting  list.List // of *waiter
	until    time.Time // nothing is admitted before
	timer    *time.Timer
	cooled   time.Time // no second halving before
	streak   int       // refusals since the last success
	admitted int64     // calls, ever
	quota    grant
	outage   outage
	shared   *share // nil: the concurrency is this process's alone
	pace     pace
	peak     int // calls in flight and waiting, at most, since the last Want
}

// bound is the concurrency that an owner configured, and when it was last used.
type bound struct {
	concurrency int
	used        time.Time
}

// NewGate makes a gate of the default concurrency; Limit sets another.
func NewGate() *Gate {
	return &Gate{
		bounds: map[string]bound{}, max: defaultConcurrency, learned: math.Inf(1), quota: grant{left: math.Inf(1)},
	}
}

// Concurrency returns what a configured one means: 0 is the default.
func Concurrency(configured int) int {
	if configured <= 0 {
		return defaultConcurrency
	}
	return configured
}

// SetLimit says that owner wants at most this many calls in flight (0 = 64) and uses the gate now. What the gate
// learned of the server stays: no bound widens what refusals have narrowed.
func (g *Gate) SetLimit(owner string, concurrency int) {
	concurrency = Concurrency(concurrency)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bounds[owner] = bound{concurrency, time.Now()}
	g.boundByOwners()
	g.admitWaiters()
}

// ChangeLimit sets the limit of an owner that uses the gate already; it does not count as a use of it now.
func (g *Gate) ChangeLimit(owner string, concurrency int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, uses := g.bounds[owner]
	if !uses {
		return
	}
	known.concurrency = Concurrency(concurrency)
	g.bounds[owner] = known
	g.boundByOwners()
	g.admitWaiters()
}

// giveBack ends an admission of which no use was made.
func (g *Gate) giveBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inflight--
	g.quota.left++
	g.reportFree()
	g.admitWaiters()
}

// boundByOwners bounds the gate by who used it of late, and reports whether anybody did. The caller holds the lock.
func (g *Gate) boundByOwners() bool {
	strictest := math.MaxInt
	for name, owner := range g.bounds {
		if time.Since(owner.used) > forgetOwner {
			delete(g.bounds, name)
			continue
		}
		strictest = min(strictest, owner.concurrency)
	}
	if len(g.bounds) == 0 {
		return false
	}
	g.max = float64(strictest)
	return true
}

// currentWidth returns how many calls may be in flight.
func (g *Gate) currentWidth() float64 { return min(g.currentBound(), g.learned) }

// currentBound returns what the configuration allows of it, or this process's share of that.
func (g *Gate) currentBound() float64 {
	if g.shared == nil {
		return g.max
	}
	return min(g.max, float64(g.shared.currentPlaces()))
}

// admitWaiters lets in who waits and fits; each wakes alone, since thousands may wait. The caller holds the lock.
func (g *Gate) admitWaiters() {
	if wait := time.Until(g.until); wait > 0 {
		g.admitLater(wait)
		return
	}
	for g.inflight < int(g.currentWidth()) && g.waiting.Len() > 0 {
		if wait := g.quota.untilOpen(g.inflight); wait > 0 {
			g.admitLater(wait)
			return
		}
		place := g.waiting.Remove(g.waiting.Front()).(*waiter)
		place.ticket = Ticket{number: g.admitted + 1, answered: g.admitted - int64(g.inflight)}
		g.inflight++
		g.admitted++
		g.quota.left--
		close(place.admitted)
	}
	g.tellNear()
}

// tellNear notifies those whose turn comes while the payer would be asked. The caller holds the lock.
func (g *Gate) tellNear() {
	if g.currentWidth() < 1 {
		return
	}
	next := g.waiting.Front()
	for n := g.pace.countAhead(); n > 0 && next != nil; n-- {
		if waiting := next.Value.(*waiter); waiting.near != nil {
			select {
			case <-waiting.near:
			default:
				close(waiting.near)
			}
		}
		next = next.Next()
	}
}

// admitLater admits after a while. The caller holds the lock.
func (g *Gate) admitLater(wait time.Duration) {
	if g.timer != nil {
		g.timer.Stop() // what it waits for may come sooner by now
	}
	if g.waiting.Len() == 0 {
		return
	}
	g.timer = time.AfterFunc(wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.timer = nil
		g.admitWaiters()
	})
}

// waiter is one who waits to be admitted.
type waiter struct {
	admitted chan struct{}
	near     chan struct{} // closed when its turn is near; nil where no caller waits for it
	ticket   Ticket        // when it is admitted
}

// Ticket is a call's place among all that were admitted: how many came before it, and had come back by then.
type Ticket struct{ number, answered int64 }

// Enter waits for admission; urgent calls (model.Urgent) before the others. The caller must Leave when it returns no
// error.
func (g *Gate) Enter(ctx context.Context) (Ticket, error) {
	ticket, _, err := g.enterGate(ctx, nil)
	return ticket, err
}

// enterGate takes a ticket for a call that its payer has to admit, too: that is asked when its turn is near, so that
// no place stands empty meanwhile. What was asked too early is given back, and nil beside the place.
func (g *Gate) enterGate(ctx context.Context, admit ahead) (Ticket, *model.Admission, error) {
	if err := ctx.Err(); err != nil {
		return Ticket{}, nil, err
	}
	waiting := &waiter{admitted: make(chan struct{})}
	if admit != nil {
		waiting.near = make(chan struct{})
	}
	place := g.queueCall(waiting, model.IsUrgent(ctx))
	select {
	case <-waiting.admitted:
		return waiting.ticket, nil, nil
	case <-ctx.Done():
		return Ticket{}, nil, g.unqueueCall(waiting, place, ctx.Err())
	case <-waiting.near: // never, where it is nil
	}
	began := time.Now()
	returned := false
	defer func() {
		if !returned { // it panicked: the place that is still to come would never be given back
			_ = g.unqueueCall(waiting, place, errPanicked)
		}
	}()
	admission, err := admit(ctx)
	returned = true
	if err != nil {
		return Ticket{}, nil, g.unqueueCall(waiting, place, err)
	}
	if admission != nil {
		g.pace.recordWait(time.Since(began))
		old := time.NewTimer(time.Until(admission.Until))
		defer old.Stop()
		select {
		case <-waiting.admitted:
			return waiting.ticket, admission, nil
		case <-old.C: // the gate was closed meanwhile, or the server became slow
			admission.GiveBack()
		case <-ctx.Done():
		}
	}
	select {
	case <-waiting.admitted:
		return waiting.ticket, admission, nil
	case <-ctx.Done():
		admission.GiveBack()
		return Ticket{}, nil, g.unqueueCall(waiting, place, ctx.Err())
	}
}

// queueCall has a call wait for its turn.
func (g *Gate) queueCall(waiting *waiter, urgent bool) *list.Element {
	g.mu.Lock()
	defer g.mu.Unlock()
	push := g.waiting.PushBack
	if urgent {
		push = g.waiting.PushFront
	}
	place := push(waiting)
	g.peak = max(g.peak, g.inflight+g.waiting.Len())
	g.admitWaiters()
	g.askShare()
	return place
}

// unqueueCall ends a wait for a reason, which it returns.
func (g *Gate) unqueueCall(waiting *waiter, place *list.Element, reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-waiting.admitted: // at the same moment: give the place on
		g.inflight--
		g.quota.left++
		g.reportFree()
		g.admitWaiters()
	default:
		g.waiting.Remove(place)
		g.tellNear()
	}
	return reason
}

// Leave gives the place back and learns from the outcome.
func (g *Gate) Leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inflight--
	g.pace.recordFree(time.Now())
	g.outage.noteOutcome(err, time.Now())
	switch code := fault.CodeOf(err); {
	case err == nil:
		g.streak = 0
		if bound := max(1, g.currentBound()); g.learned < bound {
			g.learned = min(bound, g.learned+1/g.learned)
		}
	case code == fault.ModelRateLimited || code == fault.ModelUnavailable:
		now := time.Now()
		if now.After(g.cooled) {
			g.learned = max(1, g.currentWidth()/2)
			g.cooled = now.Add(coolDown)
		}
		g.streak++
		// The refused call waits by itself; everyone waits once refusals come in a row.
		if asked := fault.RetryAfter(err); asked > 0 && g.streak >= stopAfter && now.Add(asked).After(g.until) {
			g.until = now.Add(asked)
		}
	}
	g.reportFree()
	g.admitWaiters()
}
