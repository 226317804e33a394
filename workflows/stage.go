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
	f := fanOut{
		from:   in.Next,
		to:     in.Units,
		window: in.Window,
		start:  func(n int) workflow.Future { return in.start(ctx, n) },
		drain:  func() bool { return workflow.GetInfo(ctx).GetContinueAsNewSuggested() },
	}
	next, done, err := f.run(ctx, cancel)
	in.Next, in.Done = next, in.Done+done
	if err != nil {
		return UnitResult{Done: in.Done}, err
	}
	if in.Next < in.Units {
		return UnitResult{}, workflow.NewContinueAsNewError(ctx, StageName, in)
	}
	return UnitResult{Done: in.Done}, nil
}

// fanOut keeps a window of pieces in flight. The first failure stops the rest: what it paid for is kept.
type fanOut struct {
	from, to int
	window   int
	start    func(n int) workflow.Future
	drain    func() bool // start nothing more
}

// run gives the first piece that was not started, what the finished ones did, and the first failure; nothing is in
// flight any more when it returns.
func (f fanOut) run(ctx workflow.Context, cancel func()) (next int, done int64, failed error) {
	next = f.from
	inflight := 0
	sel := workflow.NewSelector(ctx)
	for next < f.to || inflight > 0 {
		for drain := f.drain(); !drain && failed == nil && next < f.to && inflight < f.window && ctx.Err() == nil; {
			future := f.start(next)
			next++
			inflight++
			sel.AddFuture(future, func(x workflow.Future) {
				inflight--
				var result UnitResult
				if err := x.Get(ctx, &result); err != nil {
					if failed == nil {
						failed = err
						cancel()
					}
					return
				}
				done += result.Done
			})
		}
		if inflight == 0 {
			break
		}
		sel.Select(ctx)
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return next, done, failed
}

// start runs one unit: an activity, or for extraction a child workflow.
func (in StageInput) start(ctx workflow.Context, n int) workflow.Future {
	u := Unit{Build: in.Build, Stage: in.Stage, N: n}
	if in.Activity != "" {
		return workflow.ExecuteActivity(long(ctx, in.Build), in.Activity, u)
	}
	id := fmt.Sprintf("%s/%s/s-%05d", BuildID(in.Index, in.Generation), in.Stage, n)
	return workflow.ExecuteChildWorkflow(
		child(ctx, id),
		ShardName,
		ShardInput{Build: in.Build, Shard: n, Chunks: in.Sizes[n]},
	)
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
	bctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	f := fanOut{
		to:     batches,
		window: shardWindow,
		drain:  func() bool { return false },
		start: func(n int) workflow.Future {
			return workflow.ExecuteActivity(
				long(bctx, in.Build),
				ExtractChunks,
				Unit{Build: in.Build, Stage: "extract", N: in.Shard, Batch: n},
			)
		},
	}
	_, done, err := f.run(bctx, cancel)
	total := UnitResult{Done: done}
	if err != nil {
		return total, err
	}
	var sealed UnitResult
	err = workflow.ExecuteActivity(long(ctx, in.Build), SealShard, Unit{Build: in.Build, Stage: "extract", N: in.Shard, Batch: batches}).
		Get(ctx, &sealed)
	return total, err
}
