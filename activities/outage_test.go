package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/workflows"
)

// outage is a store of artifacts that is down, or slow, when it is asked to be.
type outage struct {
	blob.Store
	down atomic.Bool
	slow atomic.Pointer[chan struct{}] // closed when the store may answer
}

func (o *outage) ask(ctx context.Context) error {
	if answer := o.slow.Load(); answer != nil {
		select {
		case <-*answer:
		case <-time.After(long):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if o.down.Load() {
		return fault.StoreDown.At("reach", "artifacts").Because("connection refused")
	}
	return nil
}

func (o *outage) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := o.ask(ctx); err != nil {
		return nil, blob.Info{}, err
	}
	return o.Store.Get(ctx, key, r)
}

func (o *outage) Put(ctx context.Context, key string, body io.Reader, size int64, c blob.Cond) (blob.Info, error) {
	if err := o.ask(ctx); err != nil {
		return blob.Info{}, err
	}
	return o.Store.Put(ctx, key, body, size, c)
}

func (o *outage) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return o.ListRange(ctx, prefix, after, "")
}

func (o *outage) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	if err := o.ask(ctx); err != nil {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, err) }
	}
	return o.Store.ListRange(ctx, prefix, after, until)
}

// plant is what activities work with, in memory, and the build that they work on.
type plant struct {
	*activities.Activities
	store *outage
	build workflows.Build
	env   *testsuite.TestActivityEnvironment
	suite testsuite.WorkflowTestSuite
}

func newPlant(t *testing.T) *plant {
	t.Helper()
	p := &plant{store: &outage{Store: blobmemory.New()}}
	coordination := coordmemory.New()
	ports := &run.Ports{
		Artifacts: p.store, Coordination: coordination, Records: recordsmemory.New(), Vectors: vectorsmemory.New(),
		Ledger: ledger.New(p.store, coordination), CPU: make(chan struct{}, 1), Log: slog.New(slog.DiscardHandler),
	}
	p.Activities = &activities.Activities{Ports: ports, Engine: closed{}, Log: ports.Log}
	digest := must(artifact.Index{Store: p.store, Name: "docs"}.PutSpec(t.Context(), core.Spec{Index: "docs"}))(t)
	p.build = workflows.Build{
		Index: "docs", Generation: "g1", Spec: digest.String(), Fence: 1, Heartbeat: 800 * time.Millisecond,
		Shape: workflows.DefaultShape(),
	}
	p.suite.SetLogger(log.NewStructuredLogger(ports.Log))
	p.env = p.suite.NewTestActivityEnvironment()
	p.env.RegisterActivity(p.Activities)
	return p
}

func (p *plant) state(t *testing.T) core.RunState {
	t.Helper()
	var state core.RunState
	raw, err := p.Ports.Coordination.ReadState(t.Context(), "docs/g1")
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &state)
	}
	require.NoError(t, err)
	return state
}

// Short ones too: a store that answers slowly must not look like a dead worker, nor hide one.
func TestActivitiesBeatFromTheirFirstLookAtAStore(t *testing.T) {
	for name, input := range map[string]func(p *plant) any{
		workflows.BeginStage: func(p *plant) any { return workflows.StageState{Build: p.build, Stage: "chunk", Total: 9} },
		workflows.EndBuild: func(p *plant) any {
			return workflows.End{Build: p.build, Status: core.StatusPaused, Reason: "model_auth"}
		},
		workflows.TakeLease:   func(p *plant) any { return p.build },
		workflows.OpenRestore: func(p *plant) any { return p.build },
		workflows.PlanBuild:   func(p *plant) any { return p.build },
	} {
		p := newPlant(t)
		beat := make(chan struct{})
		once := sync.OnceFunc(func() { close(beat) })
		p.store.slow.Store(&beat) // the store takes its time until it does
		p.env.SetOnActivityHeartbeatListener(func(info *activity.Info, _ converter.EncodedValues) {
			if info.ActivityType.Name == name {
				once()
			}
		})
		_, _ = p.env.ExecuteActivity(name, input(p)) // what it comes to is not asked here
		select {
		case <-beat:
		default:
			t.Errorf("%s did not beat while the store took its time", name)
		}
	}
}

func TestAWaitIsWrittenDownWhileArtifactsAreDown(t *testing.T) {
	p := newPlant(t)
	begin := workflows.StageState{Build: p.build, Stage: "load", Total: 3}
	_, err := p.env.ExecuteActivity(workflows.BeginStage, begin)
	require.NoError(t, err)
	p.store.down.Store(true)
	since := time.Date(2026, 3, 1, 12, 3, 0, 0, time.UTC)
	waits := workflows.End{
		Build: p.build, Status: core.StatusWaiting, Reason: "store_unavailable", Ref: "docs/runs/g1/1/errors/e.json",
		Waiting: &workflows.Waiting{Since: since, Next: since.Add(time.Minute), Tries: 2},
	}
	_, err = p.env.ExecuteActivity(workflows.EndBuild, waits)
	require.NoError(t, err)
	got := p.state(t)
	if got.Report.Status != core.StatusWaiting || got.Report.Reason != "store_unavailable" || got.Waiting == nil ||
		*got.Waiting != (core.Waiting{Since: since, Next: since.Add(time.Minute), Tries: 2}) || got.Stage != "load" {
		t.Errorf("%+v, %+v", got.Report, got.Waiting)
	}
	p.store.down.Store(false)
	begin.Stage = "segment"
	_, err = p.env.ExecuteActivity(workflows.BeginStage, begin)
	require.NoError(t, err)
	if got = p.state(t); got.Report.Status != core.StatusRunning || got.Report.Reason != "" || got.Waiting != nil {
		t.Errorf("when it goes on: %+v, %+v", got.Report, got.Waiting)
	}
}

// A collect that can neither work nor report gives up at once: the run ends, and its end reports and gives the lease
// back.
func TestACollectGivesUpSoonAndTheEndTellsOfIt(t *testing.T) {
	p := newPlant(t)
	lease := must(p.env.ExecuteActivity(workflows.TakeLease, p.build))(t)
	require.NoError(t, lease.Get(&p.build.Fence))
	begin := workflows.StageState{Build: p.build, Stage: "collect"}
	_, err := p.env.ExecuteActivity(workflows.BeginStage, begin)
	require.NoError(t, err)
	p.store.down.Store(true)
	attempts, failed := p.collect()
	var app *temporal.ApplicationError
	require.True(t, errors.As(failed, &app) && app.Type() == "store_unavailable" && app.NonRetryable() && attempts <= 3,
		"%d attempts, %v", attempts, failed)
	p.store.down.Store(false)
	end := workflows.End{
		Build: p.build, Status: core.StatusCompleted,
		Warning: &workflows.Warning{Code: "store_unavailable", Object: "collect"},
	}
	for range 2 { // an attempt whose answer is lost is repeated
		_, err := p.env.ExecuteActivity(workflows.EndBuild, end)
		require.NoError(t, err)
	}
	report := p.state(t).Report
	want := []core.Problem{{Code: "store_unavailable", Object: "collect"}}
	if report.Status != core.StatusCompleted || !slices.Equal(report.Problems, want) || report.ProblemsTotal != 1 {
		t.Errorf("%s, %+v", report.Status, report.Problems)
	}
	var held core.Lease
	key := artifact.Index{Store: p.store, Name: "docs"}.LeaseKey()
	if _, err := blob.ReadJSON(t.Context(), p.store, key, &held); err != nil || held.Workflow != "" {
		t.Errorf("the lease is kept: %+v, %v", held, err)
	}
}

// collect runs CollectGarbage as a workflow does, with retries, and counts its attempts.
func (p *plant) collect() (attempts int, err error) {
	env := p.suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.RegisterActivity(p.Activities)
	env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { attempts++ })
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx,
			workflow.ActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 10}})
		unit := workflows.Unit{Build: p.build, Stage: "collect"}
		return workflow.ExecuteActivity(ctx, workflows.CollectGarbage, unit).Get(ctx, nil)
	})
	return attempts, env.GetWorkflowError()
}

// must returns a value that came without an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
