package api_test

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
)

// runControl is a recorder that keeps what it starts.
type runControl struct {
	controltest.Recorder
	keeps    sync.Mutex
	Runs     map[string]control.Status // by name
	Newest   string                    // name of the run that began last
	Schedule *control.Scheduled        // nil: none
	Spec     core.Spec                 // of the last build
}

// note remembers a command. The caller unlocks.
func (c *runControl) note(ctx context.Context, what ...string) (unlock func(), err error) {
	c.keeps.Lock()
	return c.keeps.Unlock, c.Note(ctx, what[0], strings.Join(what[1:], " "))
}

// BuildIndex starts a run, or joins the one that goes on.
func (c *runControl) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
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
func (c *runControl) begin(index, generation string) control.Run {
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

// ReadStatus returns what is kept of a run.
func (c *runControl) ReadStatus(_ context.Context, run string) (control.Status, error) {
	c.keeps.Lock()
	defer c.keeps.Unlock()
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
func (c *runControl) steer(ctx context.Context, command, run, status string) error {
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
func (c *runControl) PauseRun(ctx context.Context, run string) (control.Stopped, error) {
	return control.Stopped{InFlight: new(int64)}, c.steer(ctx, "pause", run, core.StatusPaused)
}

// ResumeRun resumes a run that is paused.
func (c *runControl) ResumeRun(ctx context.Context, run string, _ *core.Budget) error {
	return c.steer(ctx, "resume", run, core.StatusRunning)
}

// CancelRun cancels a run.
func (c *runControl) CancelRun(ctx context.Context, run string) (control.Stopped, error) {
	return control.Stopped{}, c.steer(ctx, "cancel", run, core.StatusCancelled)
}

// ListBranches is not noted: a promotion asks whether its branch is one of the index.
func (c *runControl) ListBranches(context.Context, string) ([]core.Branch, error) {
	return c.Branches, nil
}

// WatchQuestions adds what is asked for, if it can be kept, removes any question, and lists one.
func (c *runControl) WatchQuestions(ctx context.Context, r control.WatchRequest) ([]core.Question, error) {
	if len(r.Add) == 0 && r.Remove == "" {
		c.keeps.Lock()
		defer c.keeps.Unlock()
		c.Inputs = append(c.Inputs, r)
		return []core.Question{{ID: strings.Repeat("0", 32), Question: "Who?"}}, nil
	}
	asked := []string{"watch", r.Index, r.Remove}
	for i := range r.Add {
		if _, err := r.Add[i].Normalize(); err != nil {
			return nil, fault.InvalidParam.At("add standing question", "").Because(err)
		}
		r.Add[i].ID = strings.Repeat("0", 32)
		asked = append(asked, r.Add[i].Question, strings.Join(r.Add[i].Labels, ","), r.Add[i].Notify)
	}
	unlock, err := c.note(ctx, asked...)
	defer unlock()
	return r.Add, err
}

// MoveGeneration moves g1 and g2 alone, and promotes any branch.
func (c *runControl) MoveGeneration(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	unlock, err := c.note(ctx, r.Action, r.Index, r.Generation, cmp.Or(r.Name, r.Base))
	defer unlock()
	c.Inputs = append(c.Inputs, r)
	switch {
	case r.Action == core.ActionPromote:
	case r.Generation != "g1" && r.Generation != "g2":
		err = fault.UnknownGen.At(r.Action, r.Generation)
	case r.Action == core.ActionDiscard && r.Generation == "g1":
		err = fault.Usage.At("discard", r.Generation).Because("it is the served generation")
	}
	return core.Move{Index: r.Index, Action: r.Action, To: r.Generation, Name: r.Name}, err
}

// RetryFailed begins a round where chunks are named.
func (c *runControl) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	unlock, err := c.note(ctx, append([]string{"retry", r.Name}, r.Chunks...)...)
	defer unlock()
	if err != nil || len(r.Chunks) == 0 {
		return control.Run{}, err
	}
	return c.begin(r.Name, "retry-1"), nil
}

// ReadSchedule returns the schedule that was applied.
func (c *runControl) ReadSchedule(_ context.Context, index string) (control.Scheduled, error) {
	c.keeps.Lock()
	defer c.keeps.Unlock()
	if c.Schedule == nil {
		return control.Scheduled{}, fault.NotFound.At("find the schedule of", index).Because("the index has no schedule")
	}
	return *c.Schedule, nil
}

// ApplySchedule keeps a schedule.
func (c *runControl) ApplySchedule(ctx context.Context, r control.ScheduleRequest) (control.Applied, error) {
	unlock, err := c.note(ctx, "schedule", r.Spec.Index, r.Schedule.Cron, r.Schedule.Timezone)
	defer unlock()
	c.Schedule = &control.Scheduled{Index: r.Spec.Index, Timezone: r.Schedule.Timezone}
	c.Schedule.Paused = r.Paused != nil && *r.Paused
	return control.Applied{Paused: c.Schedule.Paused}, err
}
