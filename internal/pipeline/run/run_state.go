package run

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/model"
)

// ChangeState reads, changes and writes the run's state.
func (r *Run) ChangeState(ctx context.Context, change func(*core.RunState)) error {
	state, err := r.ReadState(ctx)
	if err != nil {
		return err
	}
	change(&state)
	raw, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return r.Coordination.SetState(ctx, r.Name(), raw)
}

// ReadState reads the state of the run; one that is not there or cannot be read is empty.
func (r *Run) ReadState(ctx context.Context) (core.RunState, error) {
	state, err := ReadState(ctx, r.Coordination, r.Name())
	if err != nil || state == nil { // it is about a run that runs now: nothing in it is worth a halt
		return core.RunState{}, err
	}
	return *state, nil
}

// StartState starts the state of this run of the engine where another's, or none, is there.
func (r *Run) StartState(state *core.RunState, holder Holder, now time.Time) {
	if state.Report.Run != "" && state.RunID == holder.Run {
		return
	}
	*state = core.RunState{Workflow: holder.Workflow, RunID: holder.Run, Corpus: r.Settings.Corpus, StageAt: now}
	state.Paid, state.Inside = r.Settings.BuildsBy("openai"), r.Settings.Embedding.IsInside()
	state.Report = core.Report{
		Index: r.Job.Index, Generation: r.Generation, Run: r.Name(), RunID: holder.Run, Started: now,
		Status: core.StatusRunning, Currency: r.Settings.Currency, Version: version.String(),
	}
	state.Report.AddEvent(core.Event{At: now, Kind: core.EventStarted})
	_ = state.Spec.UnmarshalText([]byte(r.Spec)) // it was read by this digest, or there is none
}

// BeginStage closes the stage before and starts the next in the run's state.
func (r *Run) BeginStage(ctx context.Context, holder Holder, stage string, total int64) error {
	now := time.Now().UTC()
	paid, err := ReadTotals(ctx, r.Coordination, r.Name())
	if err != nil {
		return err
	}
	return r.ChangeState(ctx, func(state *core.RunState) {
		r.StartState(state, holder, now)
		goesOn(state, now)
		if state.Stage != "" && state.Stage != stage {
			state.Close(now, doneOf(state, paid))
		}
		if state.Stage != stage {
			state.StageAt, state.StageIdle = now, 0
			state.Report.AddEvent(core.Event{At: now, Kind: core.EventStage, Stage: stage})
		}
		state.Stage, state.Total, state.Bytes = stage, total, 0
		r.fillState(ctx, state)
		paid.FillAccount(&state.Report)
		addMoment(state, paid, now)
	})
}

// fillState fills in what is known when a stage begins: how much work it is, what the stages before found, and how long
// the generation before took. It is for people alone: what cannot be read is left out.
func (r *Run) fillState(ctx context.Context, state *core.RunState) {
	switch state.Stage {
	case core.StagePlan:
		state.Total = 0 // how many documents there are is what it finds out
		r.expectStages(ctx, state)
	case core.StageChunk:
		fixed, err := PlanFile.Read(ctx, r.Scratch)
		if err != nil {
			return
		}
		state.Report.Documents, state.Report.Diff = fixed.Plan.Documents, fixed.Plan.Diff
		state.Report.Refused, state.Report.Within = fixed.Plan.Refused, fixed.Plan.Within
		for _, unit := range fixed.Plan.Units {
			state.Bytes += unit.Bytes
		}
	case core.StageExtract:
		if shards, err := ShardsFile.Read(ctx, r.Scratch); err == nil {
			state.Report.Documents, state.Report.Chunks = shards.Counts.Documents, shards.Counts.Chunks
		}
	case core.StageReduce:
		if partitions, err := PartitionsFile.Read(ctx, r.Scratch); err == nil {
			state.Report.Mentions, state.Report.DeadLetters = partitions.Mentions, partitions.Dead
		}
	case core.StageShorten:
		r.countClasses(ctx, state)
	case core.StageEmbed:
		r.countTexts(ctx, state)
	case core.StageAudit:
		if fixed, err := AuditPlanFile.Read(ctx, r.Scratch); err == nil {
			for _, part := range fixed.Parts {
				state.Bytes += part.Unit.Segment.Bytes
			}
		}
	case core.StageRestore:
		if parts, err := RepairFile.Read(ctx, r.Scratch); err == nil {
			for _, part := range parts {
				state.Bytes += part.Unit.Segment.Bytes
			}
		}
	}
}

// doneOf returns how much a stage did that came to its end.
func doneOf(state *core.RunState, paid Account) int64 {
	if state.Total > 0 {
		return state.Total
	}
	return paid.Done[state.Stage] + paid.Again[state.Stage]
}

// countClasses counts what reduce found.
func (r *Run) countClasses(ctx context.Context, state *core.RunState) {
	partitions, err := PartitionsFile.Read(ctx, r.Scratch)
	classes := int64(0)
	for reduced, unread := range ReadEach(ctx, r, partitions.Partitions, ReduceFile) {
		err = errors.Join(err, unread)
		classes += reduced.Counts.Classes
	}
	if err == nil {
		state.Report.Classes = classes
	}
}

// countTexts counts the classes and chunks of the build that a model embeds.
func (r *Run) countTexts(ctx context.Context, state *core.RunState) {
	chunks, classes := r.Settings.Embedding.ByModel()
	state.Total = 0
	if shards, err := ShardsFile.Read(ctx, r.Scratch); err == nil && chunks {
		state.Total = shards.CountMade()
	}
	if classes {
		state.Total += max(0, state.Report.Classes) // of a night, by how many there are more
	}
}

// expectStages takes the stages of the run that built the current generation, where the same models did.
func (r *Run) expectStages(ctx context.Context, state *core.RunState) {
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil || current.Generation == "" || core.IsHinted(current.Generation) {
		return
	}
	before, err := r.Index.ReadReport(ctx, current.Generation)
	if err == nil && before.Models.Chat == labelOf(r.Settings) && len(before.Stages) > 1 && before.Chunks > 0 {
		state.Expected, state.ExpectedChunks = before.Stages, before.Chunks
	}
}

// labelOf returns how the extractor of a configuration is shown.
func labelOf(settings core.Spec) string {
	extraction, _ := settings.BuildChats()
	return model.Info{Provider: extraction[0], Model: extraction[1]}.Label()
}

// ClearPause takes the pause out of the state, with the problems that led to it.
func (r *Run) ClearPause(ctx context.Context) error {
	r.Unshown.forgetRun(r.Name())
	problems, err := r.Coordination.ReadProblems(ctx, r.Name())
	if err != nil {
		return err
	}
	for key := range problems {
		if err := r.Coordination.SetProblem(ctx, r.Name(), key, nil); err != nil {
			return err
		}
	}
	return r.ChangeState(ctx, func(state *core.RunState) {
		now := time.Now().UTC()
		if state.Report.Status == core.StatusPaused { // a run that waits tries again by itself
			state.Report.AddEvent(core.Event{At: now, Kind: core.EventResumed})
		}
		goesOn(state, now)
	})
}

// goesOn takes a pause or a wait out of the state.
func goesOn(state *core.RunState, now time.Time) {
	state.GoOn(now)
	state.Report.Status, state.Report.Reason, state.Report.Detail = core.StatusRunning, "", ""
	state.Waiting = nil
}

// refPatience is how long a run that waits looks for the text of its error: it may lie in the store that is down.
const refPatience = 3 * time.Second

// NoteWait records that a run waits for an outage to end, in its state alone: artifacts may be what is out.
func (r *Run) NoteWait(ctx context.Context, holder Holder, ending Ending) error {
	bounded, cancel := context.WithTimeout(ctx, refPatience)
	detail := r.ResolveDetail(bounded, ending)
	cancel()
	return r.ChangeState(ctx, func(state *core.RunState) {
		now := time.Now().UTC()
		r.StartState(state, holder, now)
		state.Stop(now)
		tries := 0
		if ending.Waiting != nil {
			tries = ending.Waiting.Tries
		}
		state.Report.AddEvent(core.Event{
			At: now, Kind: core.EventWaiting, Stage: state.Stage, Code: ending.Reason, Detail: detail, Count: tries,
		})
		state.Report.Status, state.Report.Reason, state.Report.Detail = ending.Status, ending.Reason, detail
		state.Waiting = ending.Waiting
	})
}

// NoteEnding notes how a run ends, or that it pauses. The stage in progress of a run that ends in the middle keeps what
// was done of it.
func (r *Run) NoteEnding(ctx context.Context, state *core.RunState, paid Account, ending Ending, now time.Time) {
	report := &state.Report
	event := core.Event{At: now, Stage: state.Stage, Code: ending.Reason, Detail: report.Detail}
	switch {
	case ending.Status == core.StatusPaused:
		state.Stop(now)
		event.Kind = core.EventPaused
	case core.IsTerminal(ending.Status):
		state.GoOn(now)
		done := doneOf(state, paid)
		if ending.Status == core.StatusFailed || ending.Status == core.StatusCancelled {
			done = paid.Done[state.Stage]
		}
		state.Close(now, done)
		state.Stage = ""
		report.Ended, report.ETASeconds, report.Version = &now, 0, version.String()
		event.Kind, event.Stage, event.Status = core.EventEnded, "", ending.Status
	default: // published, and collecting
		return
	}
	report.AddEvent(event)
	addMoment(state, paid, now)
}
