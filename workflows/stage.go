package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// StageInput is a stage: Units pieces of work, or those of them that are pending.
type StageInput struct {
	Build
	Stage    string      `json:"stage"`
	Activity string      `json:"activity,omitempty"` // empty: a child workflow per shard
	Units    int         `json:"units"`
	Items    int64       `json:"items,omitempty"` // of one unit: bounds how long it may take
	Sizes    []int       `json:"sizes,omitempty"` // extract: chunks of each shard
	Pending  []UnitRange `json:"pending,omitempty"`
	Partial  []ShardLeft `json:"partial,omitempty"` // extract: shards that were begun
	Done     int64       `json:"done,omitempty"`
}

// Stage runs the units of a stage, at most a window of them at once: what the fleet can do. When the history grows long
// it lets what is in flight finish and continues as new: no child outlives it, and the only signals that it receives
// are about children that have not ended, so nothing is lost. When a unit ends with a code that pauses a run it lets
// the rest finish too, and completes with the units that are left.
func Stage(ctx workflow.Context, in StageInput) (StageResult, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	if len(in.Pending) == 0 && in.Units > 0 {
		in.Pending = []UnitRange{{0, in.Units}}
	}
	before := in.Units - countUnits(in.Pending)
	var shards []workflow.ChildWorkflowFuture
	var open *spread // of extraction
	f := fanOut{
		pending: in.Pending,
		start: func(n int) workflow.Future {
			if in.Activity != "" {
				unit := Unit{Build: in.Build, Stage: in.Stage, N: n}
				return workflow.ExecuteActivity(withBatch(ctx, in.Build, in.Activity, in.Items), in.Activity, unit)
			}
			id := fmt.Sprintf("%s/%s/s-%05d", BuildID(in.Index, in.Generation), in.Stage, n)
			input, begun := in.newShardInput(n), open.beginShard(n)
			input.Window, input.Tell = begun.window, open.listens
			shard := workflow.ExecuteChildWorkflow(withChild(ctx, id), ShardName, input)
			shards, begun.run = append(shards, shard), shard
			return shard
		},
		hold: func() (string, bool) { return "", workflow.GetInfo(ctx).GetContinueAsNewSuggested() },
		halt: func(code string) {
			for _, shard := range shards {
				if !shard.IsReady() {
					shard.SignalChildWorkflow(ctx, signalDrain, code)
				}
			}
		},
	}
	if err := f.answerState(ctx, in, before, in.Units); err != nil {
		return StageResult{}, err
	}
	if in.Activity != "" {
		f.followFleet(ctx, in)
	} else {
		open = newSpread(ctx, &f, in)
	}
	result, err := f.runPieces(ctx, cancel)
	result.Done += in.Done
	if err != nil {
		return result, err
	}
	for _, shard := range in.Partial { // those that were not started again are as they were
		pending := func(r UnitRange) bool { return r.From <= shard.Shard && shard.Shard < r.To }
		reported := func(left ShardLeft) bool { return left.Shard == shard.Shard }
		if slices.ContainsFunc(result.Pending, pending) && !slices.ContainsFunc(result.Partial, reported) {
			result.Partial = append(result.Partial, shard)
		}
	}
	slices.SortFunc(result.Partial, func(a, b ShardLeft) int { return a.Shard - b.Shard })
	if result.Paused == "" && len(result.Pending) > 0 {
		in.Pending, in.Partial, in.Done = result.Pending, result.Partial, result.Done
		return StageResult{}, workflow.NewContinueAsNewError(ctx, StageName, in)
	}
	return result, nil
}

// newShardInput returns the input of one shard: all of it, or what is left of it.
func (in StageInput) newShardInput(n int) ShardInput {
	shard := ShardInput{Build: in.Build, Shard: n, Chunks: in.Sizes[n]}
	for _, left := range in.Partial {
		if left.Shard == n {
			shard.Begun, shard.Pending = true, left.Pending
		}
	}
	return shard
}

// ShardInput is one shard of extraction.
type ShardInput struct {
	Build
	Shard   int         `json:"shard"`
	Chunks  int         `json:"chunks"`
	Window  int         `json:"window"`            // batches in flight until the stage sends another number
	Tell    bool        `json:"tell,omitempty"`    // the stage when nothing more is to begin
	Begun   bool        `json:"begun,omitempty"`   // only the pending batches are left, or the seal
	Pending []UnitRange `json:"pending,omitempty"` // batches
}

// signalDrain is sent by a stage to its shards when one of them paused: what is in flight ends, nothing more begins.
const signalDrain = "drain"

// ExtractShard runs the batches of a shard and seals it. It pauses as a stage does. A shard has at most 2,000 batches,
// with the default shape 79: some 500 events.
func ExtractShard(ctx workflow.Context, in ShardInput) (StageResult, error) {
	batches := in.Shape.CountBatches(in.Chunks)
	if !in.Begun && batches > 0 {
		in.Pending = []UnitRange{{0, batches}}
	}
	drain := workflow.GetSignalChannel(ctx, signalDrain)
	running, cancel := workflow.WithCancel(ctx)
	defer cancel()
	items := int64(min(in.Chunks, in.Shape.WithDefaults().BatchChunks))
	f := fanOut{
		pending: in.Pending,
		start: func(n int) workflow.Future {
			unit := Unit{Build: in.Build, Stage: "extract", N: in.Shard, Batch: n}
			return workflow.ExecuteActivity(withBatch(running, in.Build, ExtractChunks, items), ExtractChunks, unit)
		},
	}
	f.obeyStage(running, in.Window, drain)
	if in.Tell {
		f.begun = func() { tellStage(running, Counted{in.Shard, (f.inflight + 1) / 2}) }
	}
	about := StageInput{Build: in.Build, Stage: "extract"}
	if err := f.answerState(ctx, about, batches-countUnits(in.Pending), batches); err != nil {
		return StageResult{}, err
	}
	result, err := f.runPieces(running, cancel)
	if err != nil || len(result.Pending) > 0 {
		return result, err
	}
	result.Paused, result.Ref, result.Detail = "", "", "" // it was to drain, and is finished
	if in.Tell && batches > 0 {
		tellStage(ctx, Counted{in.Shard, 0})
	}
	unit := Unit{Build: in.Build, Stage: "extract", N: in.Shard, Batch: batches}
	err = executeActivity(withBatch(ctx, in.Build, SealShard, int64(in.Chunks)), SealShard, unit, nil)
	if why := causeOf(err); err != nil && ctx.Err() == nil && haltsStage(why.code) {
		result.Paused, result.Ref, result.Detail = why.code, why.ref, why.detail
		return result, nil
	}
	return result, err
}

// obeyStage has a shard's window follow what its stage sends; it wakes the fan-out, which may have nothing in flight.
func (f *fanOut) obeyStage(ctx workflow.Context, window int, drain workflow.ReceiveChannel) {
	f.window, f.wake = window, workflow.NewBufferedChannel(ctx, 1)
	draining, code, over := false, "", false
	f.hold = func() (string, bool) { return code, draining }
	reported := workflow.NewSelector(ctx)
	reported.AddReceive(drain, func(signal workflow.ReceiveChannel, _ bool) {
		signal.Receive(ctx, &code)
		draining = true
	})
	reported.AddReceive(workflow.GetSignalChannel(ctx, signalWindow), func(signal workflow.ReceiveChannel, _ bool) {
		signal.Receive(ctx, &f.window)
	})
	reported.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { over = true })
	workflow.Go(ctx, func(ctx workflow.Context) {
		for !over {
			reported.Select(ctx)
			f.wake.SendAsync(true)
		}
	})
}

// answerState answers QueryState with how far the units are.
func (f *fanOut) answerState(ctx workflow.Context, in StageInput, before, total int) error {
	return workflow.SetQueryHandler(ctx, QueryState, func() (State, error) {
		state := State{
			Index: in.Index, Generation: in.Generation, Phase: PhaseRunning, Stage: in.Stage,
			Done: before + f.finished, Total: total, Paused: f.result.Paused, Budget: in.Budget,
		}
		if state.Paused != "" {
			state.Phase = PhasePausing
		}
		return state, nil
	})
}
