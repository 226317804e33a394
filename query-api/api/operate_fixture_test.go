package api_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/query-api/api"
)

// ownerToken is what the owner of a data directory shows.
const ownerToken = "the-token-of-dev-json"

// fakeControl is a control that keeps what it starts, and remembers what it was asked and by whom.
type fakeControl struct {
	control.Control // what is not below is not asked for
	mu              sync.Mutex
	runs            map[string]control.Status
	newest          string
	schedule        *control.Scheduled
	asked           []string
	spec            core.Spec // of the last build
	by              core.Operator
	err             error // of what is noted
}

// note remembers a command. The caller unlocks.
func (c *fakeControl) note(ctx context.Context, what ...string) (unlock func(), err error) {
	c.mu.Lock()
	c.asked, c.by = append(c.asked, strings.Join(what, " ")), control.OperatorOf(ctx)
	return c.mu.Unlock, c.err
}

func (c *fakeControl) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	unlock, err := c.note(ctx, "build", r.Spec.Index, r.Spec.Corpus, r.Once)
	defer unlock()
	c.spec = r.Spec
	switch {
	case err != nil:
		return control.Run{}, err
	case c.runs[c.newest].Status != core.StatusRunning:
		return c.begin(r.Spec.Index, r.Generation), nil
	case r.Rebuild || r.Generation != "" && c.newest != r.Spec.Index+"/"+r.Generation:
		return control.Run{}, fault.LeaseHeld.At("rebuild", r.Spec.Index).Because("run " + c.newest + " builds it")
	}
	return control.Run{Run: c.newest, Attached: true}, nil
}

// begin keeps a run that goes on. The caller holds the lock.
func (c *fakeControl) begin(index, generation string) control.Run {
	if generation == "" {
		generation = "g9"
	}
	c.newest = index + "/" + generation
	var status control.Status
	status.SetName(c.newest)
	status.Status, status.Started = core.StatusRunning, time.Now().UTC()
	c.runs[c.newest] = status
	return control.Run{Run: c.newest}
}

func (c *fakeControl) EstimateBuild(ctx context.Context, r control.IndexRequest) (out core.Estimated, err error) {
	unlock, err := c.note(ctx, "estimate", r.Spec.Index)
	defer unlock()
	return out, err
}

func (c *fakeControl) ReadStatus(_ context.Context, run string) (control.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.Contains(run, "/") {
		run = c.newest
	}
	status, ok := c.runs[run]
	if !ok {
		return status, fault.RunNotFound.At("find run", run)
	}
	return status, nil
}

// steer puts a run that is known into a state.
func (c *fakeControl) steer(ctx context.Context, command, run, status string) error {
	unlock, err := c.note(ctx, command, run)
	defer unlock()
	known, ok := c.runs[run]
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
	c.runs[run] = known
	return nil
}

func (c *fakeControl) PauseRun(ctx context.Context, run string) (control.Stopped, error) {
	return control.Stopped{InFlight: new(int64)}, c.steer(ctx, "pause", run, core.StatusPaused)
}
func (c *fakeControl) ResumeRun(ctx context.Context, run string, _ *core.Budget) error {
	return c.steer(ctx, "resume", run, core.StatusRunning)
}
func (c *fakeControl) CancelRun(ctx context.Context, run string) (control.Stopped, error) {
	return control.Stopped{}, c.steer(ctx, "cancel", run, core.StatusCancelled)
}
func (c *fakeControl) ListGenerations(context.Context, string) ([]artifact.Generation, error) {
	return []artifact.Generation{{Generation: "g1", State: "current"}, {Generation: "g2", State: core.GenerationHeld}}, nil
}

func (c *fakeControl) MoveGeneration(ctx context.Context, r control.MoveRequest) (core.Move, error) {
	unlock, err := c.note(ctx, r.Action, r.Index, r.Generation, r.Name)
	defer unlock()
	switch {
	case r.Generation != "g1" && r.Generation != "g2":
		err = fault.UnknownGen.At(r.Action, r.Generation)
	case r.Action == core.ActionDiscard && r.Generation == "g1":
		err = fault.Usage.At("discard", r.Generation).Because("it is the served generation")
	}
	return core.Move{Index: r.Index, Action: r.Action, To: r.Generation, Name: r.Name}, err
}

func (c *fakeControl) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	unlock, err := c.note(ctx, "letters", index)
	defer unlock()
	return []core.Letter{{Chunk: strings.Repeat("a", 32), Kind: core.LetterContent}}, err
}

func (c *fakeControl) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	unlock, err := c.note(ctx, append([]string{"retry", r.Name}, r.Chunks...)...)
	defer unlock()
	if err != nil || len(r.Chunks) == 0 {
		return control.Run{}, err
	}
	return c.begin(r.Name, "retry-1"), nil
}

func (c *fakeControl) ReadSchedule(_ context.Context, index string) (control.Scheduled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schedule == nil {
		return control.Scheduled{}, fault.NotFound.At("find the schedule of", index).Because("the index has no schedule")
	}
	return *c.schedule, nil
}

func (c *fakeControl) ApplySchedule(ctx context.Context, r control.ScheduleRequest) (control.Applied, error) {
	unlock, err := c.note(ctx, "schedule", r.Spec.Index, r.Schedule.Cron, r.Schedule.Timezone)
	defer unlock()
	c.schedule = &control.Scheduled{Index: r.Spec.Index, Timezone: r.Schedule.Timezone}
	c.schedule.Paused = r.Paused != nil && *r.Paused
	return control.Applied{Paused: c.schedule.Paused}, err
}

// command remembers a command to a schedule.
func (c *fakeControl) command(ctx context.Context, what ...string) error {
	unlock, err := c.note(ctx, what...)
	unlock()
	return err
}

func (c *fakeControl) PauseSchedule(ctx context.Context, index, note string) error {
	return c.command(ctx, "pause nights", index, note)
}
func (c *fakeControl) ResumeSchedule(ctx context.Context, index, note string) error {
	return c.command(ctx, "resume nights", index, note)
}
func (c *fakeControl) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	return control.Triggered{Index: index}, c.command(ctx, "trigger", index)
}
func (c *fakeControl) DeleteSchedule(ctx context.Context, index string) error {
	return c.command(ctx, "delete nights", index)
}

// folders opens every corpus as the folder that it is.
type folders struct{}

func (folders) OpenCorpus(_ context.Context, uri string) (blob.Store, error) {
	return dir.OpenCorpus(uri)
}
func (folders) GrantCorpora(string, bool) error { return nil }

// operated is a server with control, whose owner asks.
type operated struct {
	*fixture
	control *fakeControl
	corpus  string // folder of the index sample
	desk    *desk.Desk
}

// operate serves the sample with control and a corpus; edit may change the configuration.
func operate(t testing.TB, edit func(*fixture, *api.Config)) *operated {
	t.Helper()
	o := &operated{control: &fakeControl{runs: map[string]control.Status{}}, corpus: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(o.corpus, "old.txt"), []byte("old"), 0o600))
	cfg := must(config.Load(config.Source{Set: []string{"indexes.sample.corpus=" + o.corpus}}))(t)
	o.fixture = serve(t, func(f *fixture, c *api.Config) {
		f.token, c.Policy.Token = ownerToken, ownerToken
		o.desk = &desk.Desk{
			Connect: func(context.Context) (control.Control, error) { return o.control, nil },
			Config:  cfg, Artifacts: f.store, Corpora: folders{}, MostBytes: 1 << 20,
		}
		if c.Desk = o.desk; edit != nil {
			edit(f, c)
		}
	})
	return o
}
