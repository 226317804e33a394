package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"
)

// UnitRange is the units From ≤ n < To.
type UnitRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// countUnits counts what ranges hold.
func countUnits(ranges []UnitRange) (n int) {
	for _, r := range ranges {
		n += r.To - r.From
	}
	return n
}

// compactRanges makes ranges of units in any order.
func compactRanges(numbers []int) []UnitRange {
	slices.Sort(numbers)
	var ranges []UnitRange
	for _, n := range numbers {
		if last := len(ranges) - 1; last >= 0 && ranges[last].To == n {
			ranges[last].To++
			continue
		}
		ranges = append(ranges, UnitRange{n, n + 1})
	}
	return ranges
}

// StageResult is what a stage or a shard did. It paused where Paused is a code: then some units are pending.
type StageResult struct {
	Done    int64       `json:"done"`
	Paused  string      `json:"paused,omitempty"`
	Ref     string      `json:"ref,omitempty"`
	Detail  string      `json:"detail,omitempty"`
	Pending []UnitRange `json:"pending,omitempty"` // units, of a shard batches, that are not finished
	Partial []ShardLeft `json:"partial,omitempty"` // extract: pending shards of which some batches are finished
}

// hasDetail reports whether there is more to read of the pause than its code.
func (r *StageResult) hasDetail() bool { return r.Ref != "" || r.Detail != "" }

// ShardLeft is a shard that paused: its pending batches; none where only its seal is left.
type ShardLeft struct {
	Shard   int         `json:"shard"`
	Pending []UnitRange `json:"pending,omitempty"`
}

// fanOut keeps a window of pieces in flight. The first failure cancels the rest: what they paid for is kept. A halting
// code stops it as well, but what is in flight is let finish.
type fanOut struct {
	pending  []UnitRange
	window   int
	room     func() bool      // for one more piece; nil: as far as the window goes
	wake     workflow.Channel // something else than a piece's end may have made room; nil: nothing does
	start    func(n int) workflow.Future
	ended    func(n int)                     // may be nil
	begun    func()                          // called once, when the last piece was started; may be nil
	hold     func() (code string, hold bool) // start nothing more, with the code of a pause where it is one
	halt     func(code string)               // called once, at the first halting code; may be nil
	finished int                             // pieces, for queries
	inflight int
	failed   error
	result   StageResult
	left     []int
}

// runPieces gives what was done and what is left; nothing is in flight any more when it returns.
func (f *fanOut) runPieces(ctx workflow.Context, cancel func()) (StageResult, error) {
	waiting := slices.Clone(f.pending)
	reported := false
	selector := workflow.NewSelector(ctx)
	if f.wake != nil {
		selector.AddReceive(f.wake, func(wake workflow.ReceiveChannel, _ bool) { wake.Receive(ctx, nil) })
	}
	for {
		code, hold := f.hold()
		if code != "" && f.result.Paused == "" {
			f.result.Paused = code
		}
		more := func() bool {
			return !hold && f.failed == nil && f.result.Paused == "" && ctx.Err() == nil && len(waiting) > 0
		}
		for more() && f.hasRoom() {
			n := waiting[0].From
			if waiting[0].From++; waiting[0].From == waiting[0].To {
				waiting = waiting[1:]
			}
			f.inflight++
			selector.AddFuture(f.start(n), func(future workflow.Future) { f.endPiece(ctx, n, future, cancel) })
		}
		if f.begun != nil && f.inflight > 0 && len(waiting) == 0 {
			f.begun()
			f.begun = nil
		}
		if f.result.Paused != "" && !reported && f.halt != nil {
			reported = true
			f.halt(f.result.Paused)
		}
		if f.inflight == 0 && (f.wake == nil || !more()) {
			break
		}
		selector.Select(ctx)
	}
	for _, r := range waiting {
		for n := r.From; n < r.To; n++ {
			f.left = append(f.left, n)
		}
	}
	f.result.Pending = compactRanges(f.left)
	if f.failed == nil {
		f.failed = ctx.Err()
	}
	return f.result, f.failed
}

// hasRoom reports whether one more piece may be in flight.
func (f *fanOut) hasRoom() bool {
	if f.room != nil {
		return f.room()
	}
	return f.inflight < f.window
}

// endPiece takes the result of a piece.
func (f *fanOut) endPiece(ctx workflow.Context, n int, future workflow.Future, cancel func()) {
	f.inflight--
	if f.ended != nil {
		f.ended(n)
	}
	var result StageResult // an activity's UnitResult reads as one
	if err := future.Get(ctx, &result); err != nil {
		why := causeOf(err)
		if !haltsStage(why.code) || ctx.Err() != nil {
			if f.failed == nil {
				f.failed = err
				cancel()
			}
			return
		}
		result = StageResult{Paused: why.code, Ref: why.ref, Detail: why.detail}
		f.left = append(f.left, n)
	} else if result.Paused != "" { // a shard
		f.left = append(f.left, n)
		f.result.Partial = append(f.result.Partial, ShardLeft{n, result.Pending})
	} else {
		f.finished++
	}
	f.result.Done += result.Done
	// The code of what went wrong says more than that of a piece that was stopped for it.
	if result.Paused != "" && (f.result.Paused == "" || !f.result.hasDetail() && result.hasDetail()) {
		f.result.Paused, f.result.Ref, f.result.Detail = result.Paused, result.Ref, result.Detail
	}
}
