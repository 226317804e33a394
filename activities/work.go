package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// stall is how long an activity may show no sign of life (an item done, a paid call admitted or answered) before it
// counts as hung. Every remote call has a shorter deadline of its own.
var stall = 12 * time.Minute

// workUnit runs a unit. It is refused where the run is stopped; its context is cancelled when the run is stopped while
// it works, when another run has its lease, and when it hangs: where it does not even notice that, the engine gives it
// to another worker.
func (c *call) workUnit(ctx context.Context, do task) error {
	watched, end := c.run.Watch(ctx)
	defer end()
	if err := c.run.CheckControl(watched); err != nil {
		return err
	}
	watched, cancel := context.WithCancelCause(watched)
	defer cancel(nil)
	renewing := runBeside(func(stop <-chan struct{}) { c.renewLease(ctx, stop, cancel) })
	err := runGuarded(watched, c.run, do)
	renewing()
	if cause := context.Cause(watched); err != nil && cause != nil {
		err = cause
	}
	if flushed := c.run.Flush(context.WithoutCancel(ctx)); err == nil {
		err = flushed
	}
	return err
}

// sendHeartbeats sends heartbeats while the activity gets on, and cancels it when it hangs.
func (c *call) sendHeartbeats(ctx context.Context, stop <-chan struct{}, cancel context.CancelCauseFunc) {
	callEvery(c.b.Heartbeat/4, stop, func() (more bool) {
		idle := time.Since(c.run.LastSign())
		if idle < stall {
			activity.RecordHeartbeat(ctx)
			return true
		}
		c.Log.Error("activity hangs", "run_id", c.run.Name(), "stage", c.run.Stage, "seconds", int(idle.Seconds()))
		cancel(fault.Stalled.At("work on", c.run.Stage).
			Because("it made no progress for " + stall.String()).
			Advise("the activity is retried; check the logs of the stores and the model server"))
		return false
	})
}

// renewLease renews the lease of the run while the activity works, and cancels it when another run has the lease. It
// goes on after the engine has cancelled the activity: what that still does is done under the lease.
func (c *call) renewLease(ctx context.Context, stop <-chan struct{}, cancel context.CancelCauseFunc) {
	ctx = context.WithoutCancel(ctx)
	callEvery(c.b.Heartbeat/4, stop, func() (more bool) {
		err := c.run.Renew(ctx)
		if err != nil {
			c.Log.Error("lease lost", "run_id", c.run.Name(), "stage", c.run.Stage, "error", err.Error())
			cancel(err)
		}
		return err == nil
	})
}

// runBeside begins work beside the caller's, which ends it by calling end.
func runBeside(work func(stop <-chan struct{})) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		work(stop)
	}()
	return func() {
		close(stop)
		<-done
	}
}

// callEvery calls do at an interval until it returns false or stop is closed.
func callEvery(interval time.Duration, stop <-chan struct{}, do func() (more bool)) {
	ticker := time.NewTicker(max(interval, 200*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if !do() {
			return
		}
	}
}

// runGuarded makes an error of a panic, without what the panic says: that may hold a document's text.
func runGuarded(ctx context.Context, run *upkeep.Run, do task) (err error) {
	defer parallel.CatchPanic(&err)
	return do(ctx, run)
}
