package api_test

import (
	"context"
	"net/http"
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
	tags            map[string]bool
	asked           []string
	by              core.Operator
	err             error // of every method
}

func (c *fakeControl) note(ctx context.Context, what ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.by = append(c.asked, strings.Join(what, " ")), control.OperatorOf(ctx)
	return c.err
}

func (c *fakeControl) BuildIndex(ctx context.Context, r control.IndexRequest) (control.Run, error) {
	if err := c.note(ctx, "build", r.Spec.Index, r.Spec.Corpus, r.Once); err != nil {
		return control.Run{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest != "" && c.runs[c.newest].Status == core.StatusRunning {
		if r.Rebuild {
			return control.Run{}, fault.LeaseHeld.At("rebuild", r.Spec.Index).Because("run " + c.newest + " builds it")
		}
		return control.Run{Run: c.newest, Attached: true}, nil
	}
	return c.begin(r.Spec.Index, r.Generation), nil
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
	out.Index, out.Status = r.Spec.Index, core.StatusCompleted
	return out, c.note(ctx, "estimate", r.Spec.Index)
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
	if err := c.note(ctx, command, run); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.runs[run]
	switch {
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
	err := c.note(ctx, r.Action, r.Index, r.Generation, r.Name)
	out := core.Move{Index: r.Index, Action: r.Action, To: r.Generation, Name: r.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
	case r.Generation != "g1" && r.Generation != "g2":
		err = fault.UnknownGen.At(r.Action, r.Generation)
	case r.Action == core.ActionDiscard && r.Generation == "g1":
		err = fault.Usage.At("discard", r.Generation).Because("it is the served generation")
	case r.Action == core.ActionUntag && !c.tags[r.Name]:
		err = fault.NotFound.At("untag", r.Generation)
	case r.Name != "":
		c.tags[r.Name] = r.Action == core.ActionTag
	}
	return out, err
}

func (c *fakeControl) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	return []core.Letter{{Chunk: strings.Repeat("a", 32), Kind: core.LetterContent}}, c.note(ctx, "letters", index)
}

func (c *fakeControl) RetryFailed(ctx context.Context, r control.LettersRequest) (control.Run, error) {
	err := c.note(ctx, append([]string{"retry", r.Name}, r.Chunks...)...)
	c.mu.Lock()
	defer c.mu.Unlock()
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
	err := c.note(ctx, "schedule", r.Spec.Index, r.Schedule.Cron, r.Schedule.Timezone)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule = &control.Scheduled{Index: r.Spec.Index, Timezone: r.Schedule.Timezone}
	return control.Applied{}, err
}

func (c *fakeControl) PauseSchedule(ctx context.Context, index, note string) error {
	err := c.note(ctx, "pause nights", index, note)
	c.schedule.Paused, c.schedule.Note = true, note
	return err
}
func (c *fakeControl) ResumeSchedule(ctx context.Context, index, _ string) error {
	return c.note(ctx, "resume nights", index)
}
func (c *fakeControl) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	return control.Triggered{Index: index}, c.note(ctx, "trigger", index)
}
func (c *fakeControl) DeleteSchedule(ctx context.Context, index string) error {
	return c.note(ctx, "delete nights", index)
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
}

// operate serves the sample with control and a corpus; edit may change the configuration.
func operate(t testing.TB, edit func(*fixture, *api.Config)) *operated {
	t.Helper()
	o := &operated{control: &fakeControl{runs: map[string]control.Status{}, tags: map[string]bool{}}, corpus: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(o.corpus, "old.txt"), []byte("old"), 0o600))
	cfg, err := config.Load(config.Source{Set: []string{"indexes.sample.corpus=" + o.corpus}})
	require.NoError(t, err)
	o.fixture = serve(t, func(f *fixture, c *api.Config) {
		f.token, c.Policy.Token = ownerToken, ownerToken
		c.Desk = &desk.Desk{
			Connect: func(context.Context) (control.Control, error) { return o.control, nil },
			Config:  cfg, Artifacts: f.store, Corpora: folders{}, MostBytes: 1 << 20,
		}
		if edit != nil {
			edit(f, c)
		}
	})
	return o
}

// asOwner returns the headers of the owner.
func asOwner(more ...string) []string { return append(bearer(ownerToken), more...) }

// authorize adds the token of the fixture to a request.
func (f *fixture) authorize(request *http.Request) {
	if f.token != "" {
		request.Header.Set("Authorization", "Bearer "+f.token)
	}
}
