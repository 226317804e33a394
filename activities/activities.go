// Package activities gives the engine the life of a build (internal/build): thin methods on one struct, one file a
// stage, each opening a run, beating as long as it gets on, making one call and mapping the error. Names are verb and
// object, unique in the module, equal to the constants of workflows.
package activities

import (
	"context"
	"fmt"
	"log/slog"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// Engine tells about workflow runs; the lease of a build depends on it.
type Engine interface {
	// Closed tells whether a run has ended; an unknown run has.
	Closed(ctx context.Context, holder build.Holder) (bool, error)
}

// Activities holds what activities work with; the worker's main fills it.
type Activities struct {
	Ports  *build.Ports
	Engine Engine
	Log    *slog.Logger
}

// job is the build as the packages below see it.
func job(b workflows.Build) build.Job {
	shape := b.Shape.Filled()
	return build.Job{
		Index: b.Index, Generation: b.Generation, Spec: b.Spec, Fence: b.Fence, Attempt: b.Attempt,
		ReplaceCorpus: b.ReplaceCorpus, Rebuild: b.Rebuild, Anew: b.Anew, Shard: shape.ShardChunks, Batch: shape.BatchChunks,
	}
}

// with opens a run, with the budget that a resume may have given it, does what is to be done and maps the error. Where
// the run cannot be opened its error is told beside it all the same.
func (a *Activities) with(ctx context.Context, b workflows.Build, stage string, do func(*call) error) error {
	run, err := a.Ports.Open(ctx, job(b), stage)
	c := &call{Activities: a, run: run, b: b, records: err != nil}
	if err == nil {
		if b.Budget != nil {
			run.Grant(over(b.Budget, run.Settings.Budget))
		}
		err = do(c)
	}
	err = c.outcome(ctx, err)
	run.Close()
	return err
}

// holder is the run of the engine that this activity belongs to.
func holder(ctx context.Context) build.Holder {
	execution := activity.GetInfo(ctx).WorkflowExecution
	return build.Holder{Workflow: execution.ID, Run: execution.RunID}
}

// call is one activity call.
type call struct {
	*Activities
	run     *build.Run
	b       workflows.Build
	records bool // it records how the run stands: worth retrying while a disk is full or a store is down
}

// short runs an activity that touches a few small objects, whether the run is paused or not.
func (a *Activities) short(
	ctx context.Context, b workflows.Build, stage string, do func(context.Context, *build.Run) error,
) error {
	return a.with(ctx, b, stage, func(c *call) error {
		c.records = true
		return guarded(ctx, c.run, do)
	})
}

// unit runs one unit of a stage: not at all where the run is stopped, with heartbeats as long as it gets on.
func (a *Activities) unit(
	ctx context.Context, b workflows.Build, stage string, do func(context.Context, *build.Run) error,
) error {
	return a.with(ctx, b, stage, func(c *call) error { return c.work(ctx, do) })
}

// outcome maps an error for the engine: a code as type, a reference to the text as detail. History holds no text.
func (c call) outcome(ctx context.Context, err error) error {
	info := activity.GetInfo(ctx)
	problem := c.run.Stage + "/" + info.ActivityID
	if err == nil {
		if info.Attempt > 1 { // what it tells is over
			_ = c.run.Coordination.SetProblem(ctx, c.run.Name(), problem, nil)
		}
		return nil
	}
	if ctx.Err() != nil { // cancelled by the engine, or at the worker's shutdown
		return ctx.Err()
	}
	code, kind := fault.CodeOf(err), fault.KindOf(err)
	ref := c.run.Scratch.Key(fmt.Sprintf("errors/%s-%s.json", c.run.Stage, info.ActivityID))
	failure := build.Failure{Code: string(code), Text: err.Error()}
	if _, werr := blob.WriteJSON(ctx, c.run.Artifacts, ref, failure, blob.Cond{}); werr != nil {
		c.Log.Error("error text not stored", "run_id", c.run.Name(), "stage", c.run.Stage, "code", string(code))
		ref = ""
	}
	if code != fault.Paused && code != fault.Cancelled && c.run.Stage != stageSteer {
		c.run.ShowProblem(ctx, problem, corpus.Problem{Code: failure.Code, Object: c.run.Stage, Detail: failure.Text})
	}
	final := kind != fault.Transient
	if c.records && (code == fault.StoreFull || code == fault.StoreDown || code == fault.StoreDenied) {
		final = false
	}
	return temporal.NewApplicationErrorWithOptions(string(code), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: final, NextRetryDelay: fault.RetryAfter(err), Details: []any{ref},
	})
}
