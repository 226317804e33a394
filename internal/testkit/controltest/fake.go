// Package controltest has a control of runs for tests of what calls one.
package controltest

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Fake is a control that keeps what it starts, and remembers what it was asked and by whom.
type Fake struct {
	control.Control // what is not below is not asked for
	mu              sync.Mutex
	Runs            map[string]control.Status // by name
	Newest          string                    // name of the run that began last
	Schedule        *control.Scheduled        // nil: none
	Asked           []string                  // commands and what they name, in their order
	Spec            core.Spec                 // of the last build
	By              core.Operator             // of the last command
	Err             error                     // that commands return
}

// note remembers a command. The caller unlocks.
func (c *Fake) note(ctx context.Context, what ...string) (unlock func(), err error) {
	c.mu.Lock()
	c.Asked, c.By = append(c.Asked, strings.Join(what, " ")), control.OperatorOf(ctx)
	return c.mu.Unlock, c.Err
}

// BuildIndex starts a run, or joins the one that goes on.
func (c *Fake) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	unlock, err := c.note(ctx, "build", r.Spec.Index, r.Spec.Corpus, r.Once)
	defer unlock()
	c.Spec = r.Spec
	switch {
	case err != nil:
		return control.Run{}, err
	case c.Runs[c.Newest].Status != core.StatusRunning:
		return c.begin(r.Spec.Index, r.Generation), nil
	case r.Rebuild || r.Generation != "" && c.Newest != r.Spec.Index+"/"+r.Generation:
		return control.Run{}, fault.LeaseHeld.At("rebuild", r.Spec.Index).Because("run " + c.Newest + " builds it")
	}
	return control.Run{Run: c.Newest, Attached: true}, nil
}

// begin keeps a run that goes on. The caller holds the lock.
func (c *Fake) begin(index, generation string) control.Run {
	if generation == "" {
		generation = "g9"
	}
	c.Newest = index + "/" + generation
	var status control.Status
	status.SetName(c.Newest)
	status.Status, status.Started = core.StatusRunning, time.Now().UTC()
	c.Runs[c.Newest] = status
	return control.Run{Run: c.Newest}
}

// EstimateBuild estimates nothing.
func (c *Fake) EstimateBuild(ctx context.Context, r control.IndexRequest) (out core.Estimated, err error) {
	unlock, err := c.note(ctx, "estimate", r.Spec.Index)
	defer unlock()
	return out, err
}

// ReadStatus returns what is kept of a run.
func (c *Fake) ReadStatus(_ context.Context, run string) (control.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.Contains(run, "/") {
		run = c.Newest
	}
	status, ok := c.Runs[run]
	if !ok {
		return status, fault.RunNotFound.At("find run", run)
	}
	return status, nil
}

// steer puts a run that is known into a state.
func (c *Fake) steer(ctx context.Context, command, run, status string) error {
	unlock, err := c.note(ctx, command, run)
	defer unlock()
	known, ok := c.Runs[run]
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.RunNotFound.At(command, run)
	case core.IsTerminal(known.Status):
		return fault.RunEnded.At(command, run).Because("it has ended")
	case known.Status == status:
		return fault.Usage.At(command, run).Because("it is " + status)
	}
	known.Status = status
	c.Runs[run] = known
	return nil
}

// PauseRun pauses a run that goes on.
func (c *Fake) PauseRun(ctx context.Context, run string) (control.Stopped, error) {
	return control.Stopped{InFlight: new(int64)}, c.steer(ctx, "pause", run, core.StatusPaused)
}

// ResumeRun resumes a run that is paused.
func (c *Fake) ResumeRun(ctx context.Context, run string, _ *core.Budget) error {
	return c.steer(ctx, "resume", run, core.StatusRunning)
}

// CancelRun cancels a run.
func (c *Fake) CancelRun(ctx context.Context, run string) (control.Stopped, error) {
	return control.Stopped{}, c.steer(ctx, "cancel", run, core.StatusCancelled)
}

// ListGenerations lists g1, which is served, and g2, which is held.
func (c *Fake) ListGenerations(context.Context, string) ([]artifact.Generation, error) {
	return []artifact.Generation{{Generation: "g1", State: "current"}, {Generation: "g2", State: core.GenerationHeld}}, nil
}

// ListBranches lists a branch of any index.
func (c *Fake) ListBranches(_ context.Context, index string) ([]core.Branch, error) {
	return []core.Branch{{Name: index + "-large", Base: index}}, nil
}

// DiscardLetters discards any letter.
func (c *Fake) DiscardLetters(ctx context.Context, r control.LettersRequest) error {
	unlock, err := c.note(ctx, append(append([]string{"discard letters", r.Name}, r.Chunks...), r.Why)...)
	defer unlock()
	return err
}

// MoveGeneration moves g1 and g2 alone, and promotes any branch.
func (c *Fake) MoveGeneration(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	unlock, err := c.note(ctx, r.Action, r.Index, r.Generation, cmp.Or(r.Name, r.Base))
	defer unlock()
	switch {
	case r.Action == core.ActionPromote:
	case r.Generation != "g1" && r.Generation != "g2":
		err = fault.UnknownGen.At(r.Action, r.Generation)
	case r.Action == core.ActionDiscard && r.Generation == "g1":
		err = fault.Usage.At("discard", r.Generation).Because("it is the served generation")
	}
	return core.Move{Index: r.Index, Action: r.Action, To: r.Generation, Name: r.Name}, err
}

// DeadLetters lists one letter.
func (c *Fake) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	unlock, err := c.note(ctx, "letters", index)
	defer unlock()
	return []core.Letter{{Chunk: strings.Repeat("a", 32), Kind: core.LetterContent}}, err
}

// RetryFailed begins a round where chunks are named.
func (c *Fake) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	unlock, err := c.note(ctx, append([]string{"retry", r.Name}, r.Chunks...)...)
	defer unlock()
	if err != nil || len(r.Chunks) == 0 {
		return control.Run{}, err
	}
	return c.begin(r.Name, "retry-1"), nil
}

// ReadSchedule returns the schedule that was applied.
func (c *Fake) ReadSchedule(_ context.Context, index string) (control.Scheduled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Schedule == nil {
		return control.Scheduled{}, fault.NotFound.At("find the schedule of", index).Because("the index has no schedule")
	}
	return *c.Schedule, nil
}

// ApplySchedule keeps a schedule.
func (c *Fake) ApplySchedule(ctx context.Context, r control.ScheduleRequest) (control.Applied, error) {
	unlock, err := c.note(ctx, "schedule", r.Spec.Index, r.Schedule.Cron, r.Schedule.Timezone)
	defer unlock()
	c.Schedule = &control.Scheduled{Index: r.Spec.Index, Timezone: r.Schedule.Timezone}
	c.Schedule.Paused = r.Paused != nil && *r.Paused
	return control.Applied{Paused: c.Schedule.Paused}, err
}

// command remembers a command to a schedule.
func (c *Fake) command(ctx context.Context, what ...string) error {
	unlock, err := c.note(ctx, what...)
	unlock()
	return err
}

// PauseSchedule notes the command.
func (c *Fake) PauseSchedule(ctx context.Context, index, note string) error {
	return c.command(ctx, "pause nights", index, note)
}

// ResumeSchedule notes the command.
func (c *Fake) ResumeSchedule(ctx context.Context, index, note string) error {
	return c.command(ctx, "resume nights", index, note)
}

// TriggerSchedule notes the command.
func (c *Fake) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	return control.Triggered{Index: index}, c.command(ctx, "trigger", index)
}

// DeleteSchedule notes the command.
func (c *Fake) DeleteSchedule(ctx context.Context, index string) error {
	return c.command(ctx, "delete nights", index)
}
