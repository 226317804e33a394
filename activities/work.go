package activities

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/fault"
)

// stall is how long a unit may show no sign of life (an item done, a paid call admitted or answered) before it counts
// as hung. Every remote call has a shorter deadline of its own.
var stall = 12 * time.Minute

// work runs a unit. It is refused where the run is stopped; its context is cancelled when the run is stopped while it
// works. Heartbeats go out as long as the unit gets on: one that hangs is cancelled, and where it does not even notice
// that, the engine gives it to another worker.
func (c call) work(ctx context.Context, do func(context.Context, *build.Run) error) error {
	watched, end := c.run.Watch(ctx)
	defer end()
	if err := c.run.Look(watched); err != nil {
		return err
	}
	err := c.beating(ctx, watched, do)
	if flushed := c.run.Flush(context.WithoutCancel(ctx)); err == nil {
		err = flushed
	}
	return err
}

// beating does what is to be done under a watched context, with heartbeats. The error is why it was cancelled, where it
// was.
func (c call) beating(ctx, watched context.Context, do func(context.Context, *build.Run) error) error {
	watched, cancel := context.WithCancelCause(watched)
	defer cancel(nil)
	var heartbeats sync.WaitGroup
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	heartbeats.Go(func() { c.beat(beats, cancel) })
	heartbeats.Go(func() { c.renew(beats, cancel) })
	err := guarded(watched, c.run, do)
	stop()
	heartbeats.Wait()
	if cause := context.Cause(watched); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	return err
}

// renew renews the lease of the run while the unit works, and cancels it when another run has the lease. It goes on
// after the engine has cancelled the unit: what that still does is done under the lease.
func (c call) renew(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(max(c.b.Heartbeat/4, 200*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.run.Renew(ctx); err != nil {
			c.Log.Error("lease lost", "run_id", c.run.Name(), "stage", c.run.Stage, "error", err.Error())
			cancel(err)
			return
		}
	}
}

// beat sends heartbeats while the unit gets on, and cancels it when it hangs.
func (c call) beat(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(max(c.b.Heartbeat/4, 200*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		idle := time.Since(c.run.LastSign())
		if idle < stall {
			activity.RecordHeartbeat(ctx)
			continue
		}
		c.Log.Error("unit hangs", "run_id", c.run.Name(), "stage", c.run.Stage, "seconds", int(idle.Seconds()))
		cancel(fault.Stalled.At("work on", c.run.Stage).
			Because("it showed no progress for " + stall.String()).
			Advise("it is tried again; see the logs of the stores and of the model server"))
		return
	}
}

// guarded makes an error of a panic: its text belongs beside the run like any other's, not into the engine's history.
func guarded(ctx context.Context, run *build.Run, do func(context.Context, *build.Run) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fault.Internal.At("work on", run.Stage).
				Because(fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())).
				Advise("this is a fault of the program: report it with this text")
		}
	}()
	return do(ctx, run)
}
