package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Waits between the tries of a run that waits for an outage to end.
const (
	firstWait   = 30 * time.Second
	longestWait = 10 * time.Minute
)

// DefaultOutage is how long a run waits in all, between tries, before it needs a person.
const DefaultOutage = 12 * time.Hour

// Waiting reports a run that waits to try again.
type Waiting struct {
	Since time.Time `json:"since"` // the first failure without progress after it
	Next  time.Time `json:"next"`  // when it is tried again
	Tries int       `json:"tries"` // that failed
}

// outage is what a run knows of the one that it waits for. Waits are added up, not read from clocks, so that a clock
// that jumps neither ends the patience nor makes it endless.
type outage struct {
	Waiting
	waited time.Duration
	done   int64 // by the stage, when it last failed
}

// shouldWait reports whether the run waits by itself for what this code stands for to end.
func (r *run) shouldWait(code string) bool {
	if !waited[code] {
		return false
	}
	if r.now.left != nil && r.now.left.Done > r.outage.done { // it got on since: this is another outage
		r.outage = outage{done: r.now.left.Done}
	}
	return r.outage.waited < r.Shape.Outage
}

// waitOutage lets some time go by, longer with every try, and has the run try again. A person may resume it sooner,
// pause or cancel it meanwhile; nothing of it is in flight, so nothing is paid for. It gives the cause that keeps the
// run from trying, where there still is one.
func (r *run) waitOutage(ctx workflow.Context, why cause) (next cause, err error) {
	delay := min(firstWait<<min(r.outage.Tries, 10), longestWait)
	now := workflow.Now(ctx)
	if r.outage.Tries == 0 {
		r.outage.Since = now
	}
	r.outage.Tries++
	r.outage.Next, r.outage.waited = now.Add(delay), r.outage.waited+delay
	r.phase, r.code, r.steering.noting = PhaseWaiting, why.code, true
	about := r.outage.Waiting
	end := End{
		Build: r.Build, Status: statusWaiting, Reason: why.code, Ref: why.ref, Detail: why.detail, Waiting: &about,
	}
	noted := executeActivity(withSoon(ctx, r.Build, 30*time.Second), r.endActivity, end, nil)
	r.steering.noting = false
	if noted != nil && ctx.Err() != nil { // else the store that would tell of the wait is what is waited for
		return cause{}, ctx.Err()
	}
	if err := r.upsertAttributes(ctx, statusWaiting); err != nil {
		return cause{}, err
	}
	over := func() bool { return r.phase != PhaseWaiting || r.steering.wish == wishPause }
	if _, err := workflow.AwaitWithTimeout(ctx, delay, over); err != nil {
		return cause{}, err
	}
	if !over() {
		// Written down like a person's resume, which takes the old problems away, and shows whether stores answer.
		_, failed := r.writeCommand(ctx, UpdateResume, nil)
		if err := workflow.Await(ctx, func() bool { return !r.steering.cancelling }); err != nil {
			return cause{}, err
		}
		if next = causeOf(failed); failed != nil && !over() && waited[next.code] {
			return next, nil
		}
	}
	if r.phase == PhaseWaiting {
		r.phase, r.code = PhaseRunning, ""
	}
	return cause{}, r.upsertAttributes(ctx, statusRunning)
}
