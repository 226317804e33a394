// Package activities gives the engine the life of a build (internal/pipeline): thin methods on one struct, one file a
// stage, each opening a run, beating as long as it gets on, making one call and mapping the error. Names are verb and
// object, unique in the module, equal to the constants of workflows.
package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/workflows"
)

// Engine looks up workflow runs; the lease of a build depends on it.
type Engine interface {
	// Identity names the engine.
	Identity(ctx context.Context) (core.Engine, error)
	// DescribeRun says what it knows about a run.
	DescribeRun(ctx context.Context, holder run.Holder) (run.Standing, error)
	// Cancel asks for the end of a run, and does not wait for it. One that is over is no error.
	Cancel(ctx context.Context, holder run.Holder) error
}

// Activities holds what activities work with; the worker's main fills it.
type Activities struct {
	Ports  *run.Ports
	Engine Engine
	Log    *slog.Logger

	Telemetry *telemetry.Process              // nil: nothing is counted
	Notify    func(index string) webhook.Hook // the webhook of an index; nil: none has one
	Due       *Due                            // nil: other processes send what is due
	Self      fleet.Worker                    // what this process says of itself
}

// newJob returns the job of a build, as the packages below see it.
func newJob(b workflows.Build) run.Job {
	shape := b.Shape.WithDefaults()
	return run.Job{
		Index: b.Index, Generation: b.Generation, Spec: b.Spec, Fence: b.Fence, Attempt: b.Attempt,
		Backfill:      b.Backfill,
		ReplaceCorpus: b.ReplaceCorpus, Rebuild: b.Rebuild, Anew: b.Anew, Shard: shape.ShardChunks, Batch: shape.BatchChunks,
	}
}

// frame says how an activity works on a run.
type frame struct {
	stage  string
	folder string // of scratch, where there is no lease; empty: the fence's
	spec   bool   // the configuration is read, and the budget counts that a resume may have given
	unit   bool   // a unit of a stage, not done at all where the run is stopped; else it touches a few small objects
	bad    error  // what is wrong with the input besides the build; nil: nothing
}

// ofUnit is the frame of one unit of a stage.
func ofUnit(stage string) frame { return frame{stage: stage, spec: true, unit: true} }

// ofPart is the frame of a part of a stage.
func ofPart(u workflows.Unit) frame {
	return frame{stage: u.Stage, spec: true, unit: true, bad: checkUnit(u)}
}

// task is what is to be done on a run.
type task = func(context.Context, *upkeep.Run) error

// makeIn does something on a run, as runFrame does, and returns what that makes.
func makeIn[R any](
	ctx context.Context, a *Activities, b workflows.Build, f frame, do func(context.Context, *upkeep.Run) (R, error),
) (out R, err error) {
	err = a.runFrame(ctx, b, f, func(ctx context.Context, work *upkeep.Run) (err error) {
		out, err = do(ctx, work)
		return err
	})
	return out, err
}

// runFrame opens a run, does what is to be done on it, maps the error and closes the run. A panic anywhere below is an
// error like any other: the engine would put its text into history.
func (a *Activities) runFrame(ctx context.Context, b workflows.Build, f frame, do task) error {
	if err := errors.Join(checkBuild(b, f.stage, f.spec), f.bad); err != nil {
		return a.refuseInput(err)
	}
	job := newJob(b)
	if f.folder == "" {
		job = newHeldJob(ctx, b)
	}
	c := &call{Activities: a, run: upkeep.OpenBare(a.Ports, job, f.stage, f.folder), b: b, frame: f, records: !f.unit}
	err := c.superviseWork(ctx, do)
	if crash := fault.As(err); crash != nil { // mapError itself, or what it needs, panicked
		a.Log.Error("activity failed", "run_id", c.run.Name(), "stage", f.stage, "error", err.Error())
		return temporal.NewNonRetryableApplicationError(string(crash.Code), string(crash.Code), nil)
	}
	return err
}

// superviseWork does the work of a call. Heartbeats go out from before the first look at a store until the error is
// recorded, as long as the run gets on: one that hangs has its context cancelled.
func (c *call) superviseWork(ctx context.Context, do task) (err error) {
	defer parallel.CatchPanic(&err)
	defer c.run.Close()
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	working, c.shown = c.run.WithTrouble(working, c.problemKey(ctx))
	defer runBeside(func(stop <-chan struct{}) { c.sendHeartbeats(ctx, stop, cancel) })()
	return c.mapError(ctx, runGuarded(working, c.run, func(ctx context.Context, work *upkeep.Run) error {
		if c.spec {
			if err := work.Configure(ctx); err != nil {
				c.records = true
				return err
			}
			if c.b.Budget != nil {
				work.Grant(overlayBudget(c.b.Budget, work.Settings.Budget))
			}
		}
		if c.unit {
			return c.workUnit(ctx, do)
		}
		return do(ctx, work)
	}))
}

// newHeldJob returns the job with the holder that its lease must have. Units of a stage run in a workflow of their own,
// and know the build's by its id alone.
func newHeldJob(ctx context.Context, b workflows.Build) run.Job {
	out := newJob(b)
	out.Tries = int(activity.GetInfo(ctx).Attempt)
	out.Holder = run.Holder{Workflow: workflows.BuildID(b.Index, b.Generation), Heartbeat: b.Heartbeat}
	if own := holderOf(ctx); own.Workflow == out.Holder.Workflow {
		out.Holder.Run = own.Run
	}
	return out
}

// leaseHolderOf returns the run that this activity of a build belongs to, as its lease names it.
func leaseHolderOf(ctx context.Context, work *upkeep.Run) run.Holder {
	out := work.Holder
	out.Run = holderOf(ctx).Run
	return out
}

// holderOf returns the run of the engine that this activity belongs to.
func holderOf(ctx context.Context) run.Holder {
	execution := activity.GetInfo(ctx).WorkflowExecution
	return run.Holder{Workflow: execution.ID, Run: execution.RunID}
}

// call is one activity call.
type call struct {
	*Activities
	frame
	run     *upkeep.Run
	b       workflows.Build
	records bool        // it records how the run stands: worth retrying while a disk is full or a store is down
	shown   func() bool // a problem of this attempt
}

// problemKey returns the key of what status shows of this unit.
func (c *call) problemKey(ctx context.Context) string {
	return c.run.Stage + "/" + activity.GetInfo(ctx).ActivityID
}

// mapError maps an error for the engine: a code as type, a reference to the text as detail. History holds no text.
func (c *call) mapError(ctx context.Context, err error) error {
	info := activity.GetInfo(ctx)
	problem := c.problemKey(ctx)
	if err == nil {
		if info.Attempt > 1 || c.shown() { // the problem is over
			_ = c.run.Coordination.SetProblem(ctx, c.run.Name(), problem, nil)
		}
		return nil
	}
	if ctx.Err() != nil { // cancelled by the engine, or at the worker's shutdown
		return ctx.Err()
	}
	code, kind := fault.CodeOf(err), fault.KindOf(err)
	id := info.ActivityID
	if !plain.MatchString(id) { // a part of a key, and the caller's
		id = core.Sum(id).Short(16)
	}
	ref := c.run.Scratch.Key(fmt.Sprintf("errors/%s-%s.json", c.run.Stage, id))
	failure := run.Failure{Code: string(code), Text: err.Error()}
	if _, werr := blob.WriteJSON(ctx, c.run.Artifacts, ref, failure, blob.Cond{}); werr != nil {
		c.Log.Error("cannot store the error text", "run_id", c.run.Name(), "stage", c.run.Stage, "code", string(code))
		ref = ""
	}
	if code != fault.Paused && code != fault.Cancelled && c.run.Stage != stageSteer {
		c.run.ShowProblem(ctx, problem, core.Problem{Code: failure.Code, Object: c.run.Stage, Detail: failure.Text})
	}
	final := kind != fault.Transient || code == fault.ModelUnavailable && c.run.Book.ModelAway() // then the run waits
	if c.records && (code == fault.StoreFull || code == fault.StoreDown || code == fault.StoreDenied) {
		final = false
	}
	return temporal.NewApplicationErrorWithOptions(string(code), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: final, NextRetryDelay: fault.RetryAfter(err), Details: []any{ref},
	})
}
