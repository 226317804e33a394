package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"
)

// StageInput is a stage: Units pieces of work, of which those before Next are done.
type StageInput struct {
	Build
	Stage    string `json:"stage"`
	Activity string `json:"activity,omitempty"` // empty: a child workflow per shard
	Units    int    `json:"units"`
	Sizes    []int  `json:"sizes,omitempty"` // extract: chunks of each shard
	Window   int    `json:"window"`
	Next     int    `json:"next"`
	Done     int64  `json:"done"`
}

// Stage runs the units of a stage, at most Window at once. When the history grows long it lets what is in flight finish
// and continues as new: no signals are used and no child outlives it, so nothing is lost.
func Stage(ctx workflow.Context, in StageInput) (UnitResult, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	var failed error
	inflight := 0
	sel := workflow.NewSelector(ctx)
	for in.Next < in.Units || inflight > 0 {
		drain := workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		for !drain && failed == nil && in.Next < in.Units && inflight < in.Window && ctx.Err() == nil {
			n := in.Next
			in.Next++
			inflight++
			sel.AddFuture(in.start(ctx, n), func(f workflow.Future) {
				inflight--
				var r UnitResult
				if err := f.Get(ctx, &r); err != nil {
					if failed == nil {
						failed = err
						cancel() // what is in flight stops; what it paid for is kept
					}
					return
				}
				in.Done += r.Done
			})
		}
		if inflight == 0 {
			break
		}
		sel.Select(ctx)
	}
	if failed != nil {
		return UnitResult{Done: in.Done}, failed
	}
	if err := ctx.Err(); err != nil {
		return UnitResult{Done: in.Done}, err
	}
	if in.Next < in.Units {
		return UnitResult{}, workflow.NewContinueAsNewError(ctx, StageName, in)
	}
	return UnitResult{Done: in.Done}, nil
}

// start runs one unit: an activity, or for extraction a child workflow.
func (in StageInput) start(ctx workflow.Context, n int) workflow.Future {
	u := Unit{Build: in.Build, Stage: in.Stage, N: n}
	if in.Activity != "" {
		return workflow.ExecuteActivity(long(ctx, in.Build), in.Activity, u)
	}
	id := fmt.Sprintf("%s/%s/s-%05d", BuildID(in.Index, in.Generation), in.Stage, n)
	return workflow.ExecuteChildWorkflow(child(ctx, id), ShardName, ShardInput{Build: in.Build, Shard: n, Chunks: in.Sizes[n]})
}

// ShardInput is one shard of extraction.
type ShardInput struct {
	Build
	Shard  int `json:"shard"`
	Chunks int `json:"chunks"`
}

// shardWindow is how many batches of a shard are in flight: enough that the next one starts while the last items of
// another wait for their model.
const shardWindow = 6

// ExtractShard runs the batches of a shard and seals it. A shard has at most 79 batches: some 320 events.
func ExtractShard(ctx workflow.Context, in ShardInput) (UnitResult, error) {
	batches := (in.Chunks + BatchChunks - 1) / BatchChunks
	lctx, cancel := workflow.WithCancel(long(ctx, in.Build))
	defer cancel()
	var total UnitResult
	var failed error
	inflight := 0
	sel := workflow.NewSelector(ctx)
	for next := 0; next < batches || inflight > 0; {
		for failed == nil && next < batches && inflight < shardWindow && ctx.Err() == nil {
			f := workflow.ExecuteActivity(lctx, ExtractChunks, Unit{Build: in.Build, Stage: "extract", N: in.Shard, Batch: next})
			next++
			inflight++
			sel.AddFuture(f, func(f workflow.Future) {
				inflight--
				var r UnitResult
				if err := f.Get(ctx, &r); err != nil {
					if failed == nil {
						failed = err
						cancel()
					}
					return
				}
				total.Done += r.Done
			})
		}
		if inflight == 0 {
			break
		}
		sel.Select(ctx)
	}
	if failed != nil {
		return total, failed
	}
	if err := ctx.Err(); err != nil {
		return total, err
	}
	var sealed UnitResult
	err := workflow.ExecuteActivity(long(ctx, in.Build), SealShard, Unit{Build: in.Build, Stage: "extract", N: in.Shard, Batch: batches}).Get(ctx, &sealed)
	return total, err
}
