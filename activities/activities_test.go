package activities_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/workflows"
)

// outage is a store of artifacts that is down, or slow, when it is asked to be.
type outage struct {
	artifacttest.Around
	down atomic.Bool
	slow atomic.Pointer[chan struct{}] // closed when the store may answer
	why  error                         // of one that is down; nil: no one answers
}

func (o *outage) ask(ctx context.Context, _ artifacttest.Op, _ string, call func() error) error {
	if answer := o.slow.Load(); answer != nil {
		select {
		case <-*answer:
		case <-time.After(long):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if o.down.Load() {
		return cmp.Or(o.why, error(fault.StoreDown.At("reach", "artifacts").Because("connection refused")))
	}
	return call()
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
	p, coordination := &plant{store: &outage{}}, coordmemory.New()
	p.store.Around = artifacttest.Around{Store: blobmemory.New(), Do: p.store.ask}
	ports := &run.Ports{
		Artifacts: p.store, Coordination: coordination, Records: recordsmemory.New(), Vectors: vectorsmemory.New(),
		Ledger: ledger.New(p.store, coordination), CPU: make(chan struct{}, 1), Log: slog.New(slog.DiscardHandler),
	}
	p.Activities = &activities.Activities{Ports: ports, Engine: closed{}, Log: ports.Log}
	digest := musttest.Get(artifact.Index{Store: p.store, Name: "docs"}.PutSpec(t.Context(), core.Spec{Index: "docs"}))(t)
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
		p, beat := newPlant(t), make(chan struct{})
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

// What records how a run stands outlasts a store that denies it; a unit ends, so that the run pauses.
func TestWhatRecordsARunIsTriedAgainWhileAStoreDeniesIt(t *testing.T) {
	for name, ends := range map[string]bool{workflows.OpenRestore: false, workflows.SealRestore: true} {
		p := newPlant(t)
		p.build.Generation, p.build.Spec = "restore-1", ""
		p.store.why = fault.StoreDenied.At("reach", "artifacts").Because("no permission")
		p.store.down.Store(true)
		var app *temporal.ApplicationError
		_, err := p.env.ExecuteActivity(name, p.build)
		assert.True(t, errors.As(err, &app) && app.Type() == string(fault.StoreDenied) && app.NonRetryable() == ends,
			"%s: %v", name, err)
	}
}

func TestAWaitIsWrittenDownWhileArtifactsAreDown(t *testing.T) {
	p := newPlant(t)
	begin := workflows.StageState{Build: p.build, Stage: "load", Total: 3}
	musttest.Get(p.env.ExecuteActivity(workflows.BeginStage, begin))(t)
	p.store.down.Store(true)
	since := time.Date(2026, 3, 1, 12, 3, 0, 0, time.UTC)
	waits := workflows.End{
		Build: p.build, Status: core.StatusWaiting, Reason: "store_unavailable", Ref: "docs/runs/g1/1/errors/e.json",
		Waiting: &workflows.Waiting{Since: since, Next: since.Add(time.Minute), Tries: 2},
	}
	musttest.Get(p.env.ExecuteActivity(workflows.EndBuild, waits))(t)
	got := p.state(t)
	assert.True(t, got.Report.Status == core.StatusWaiting && got.Report.Reason == "store_unavailable" &&
		got.Waiting != nil && *got.Waiting == (core.Waiting{Since: since, Next: since.Add(time.Minute), Tries: 2}) &&
		got.Stage == "load", "%+v, %+v", got.Report, got.Waiting)
	p.store.down.Store(false)
	begin.Stage = "segment"
	musttest.Get(p.env.ExecuteActivity(workflows.BeginStage, begin))(t)
	if got = p.state(t); got.Report.Status != core.StatusRunning || got.Report.Reason != "" || got.Waiting != nil {
		t.Errorf("when it goes on: %+v, %+v", got.Report, got.Waiting)
	}
}

// A collect that can neither work nor report gives up at once: the run ends, and its end reports and gives the lease
// back.
func TestACollectGivesUpSoonAndTheEndTellsOfIt(t *testing.T) {
	p := newPlant(t)
	require.NoError(t, musttest.Get(p.env.ExecuteActivity(workflows.TakeLease, p.build))(t).Get(&p.build.Fence))
	begin := workflows.StageState{Build: p.build, Stage: "collect"}
	musttest.Get(p.env.ExecuteActivity(workflows.BeginStage, begin))(t)
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
		musttest.Get(p.env.ExecuteActivity(workflows.EndBuild, end))(t)
	}
	report := p.state(t).Report
	want := []core.Problem{{Code: "store_unavailable", Object: "collect"}}
	assert.True(t, report.Status == core.StatusCompleted && slices.Equal(report.Problems, want) &&
		report.ProblemsTotal == 1, "%s, %+v", report.Status, report.Problems)
	var held core.Lease
	_, err := blob.ReadJSON(t.Context(), p.store, artifact.Index{Store: p.store, Name: "docs"}.LeaseKey(), &held)
	assert.True(t, err == nil && held.Workflow == "", "the lease is kept: %+v, %v", held, err)
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

// closed is an engine whose every run is over but those that the test runs.
type closed struct{}

func (closed) Identity(context.Context) (core.Engine, error) {
	return core.Engine{Cluster: "c", Address: "here:7233", Namespace: "default"}, nil
}
func (closed) DescribeRun(context.Context, run.Holder) (run.Standing, error) {
	return run.StandingClosed, nil
}
func (closed) Cancel(context.Context, run.Holder) error { return nil }

// bench runs activities over stores in memory, for index docs.
type bench struct {
	*activities.Activities
	*testsuite.TestActivityEnvironment
	index artifact.Index
	build workflows.Build
}

func newBench(t *testing.T) *bench {
	p := newPlant(t)
	p.Ports.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: builtin.Chat{}, Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
	}
	p.build.Fence, p.build.Heartbeat = 0, time.Second
	return &bench{p.Activities, p.env, artifact.Index{Store: p.store, Name: "docs"}, p.build}
}

func (b *bench) take() (fence int64, err error) {
	value, err := b.ExecuteActivity(workflows.TakeLease, b.build)
	if err == nil {
		err = value.Get(&fence)
	}
	return fence, err
}

func (b *bench) hold(t *testing.T, lease core.Lease) {
	musttest.Get(blob.WriteJSON(t.Context(), b.index.Store, b.index.LeaseKey(), lease, blob.Cond{}))(t)
}

func (b *bench) held(t *testing.T) core.Lease {
	lease, _ := musttest.Get2(run.ReadLease(t.Context(), b.index))(t)
	return lease
}

func TestTakingALeaseWaitsForTheProcessesOfARunThatIsOver(t *testing.T) {
	b := newBench(t)
	fence, err := b.take()
	if got := b.held(t); err != nil || fence != 1 || got.Engine.Cluster != "c" || got.Heartbeat != time.Second {
		t.Fatalf("fence %d, %v, lease %+v", fence, err, got)
	}
	b.hold(t, core.Lease{Workflow: "build/docs/g0", Run: "r0", Fence: 7, Heartbeat: time.Second})
	began := time.Now()
	fence = musttest.Get(b.take())(t)
	assert.True(t, fence == 8 && time.Since(began) >= time.Second, "fence %d after %s", fence, time.Since(began))
}

const long = 3 * time.Minute

// A unit that works when its run has lost the lease is a zombie: it is cancelled with the reason.
func TestAUnitWhoseLeaseIsLostStops(t *testing.T) {
	b := newBench(t)
	b.build.Fence = 3
	b.hold(t, core.Lease{Workflow: workflows.BuildID("docs", "g1"), Run: "r1", Fence: 3, Heartbeat: time.Second})
	var renewed bool
	b.Ports.Corpora = func(ctx context.Context, _ string) (blob.Store, error) {
		for until := time.Now().Add(long); !renewed && time.Now().Before(until); { // the unit works
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
			}
			renewed = !b.held(t).Renewed.IsZero()
		}
		b.hold(t, core.Lease{Workflow: "build/docs/g2", Run: "r2", Fence: 4, Heartbeat: time.Second})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(long):
			return nil, errors.New("it worked on")
		}
	}
	_, err := b.ExecuteActivity(workflows.PlanBuild, b.build)
	var app *temporal.ApplicationError
	assert.True(t, errors.As(err, &app) && app.Type() == string(fault.LeaseLost) && app.NonRetryable(), "%v", err)
	assert.True(t, renewed, "the lease was not renewed while the unit worked")
	got := b.held(t)
	assert.True(t, got.Fence == 4 && got.Run == "r2", "the lease is %+v", got)
}

// yielding is an engine in which one run goes on until it is cancelled.
type yielding struct {
	closed
	mu        sync.Mutex
	open      string
	cancelled []string
}

func (y *yielding) DescribeRun(_ context.Context, holder run.Holder) (run.Standing, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if holder.Workflow == y.open {
		return run.StandingOpen, nil
	}
	return run.StandingClosed, nil
}

func (y *yielding) Cancel(_ context.Context, holder run.Holder) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.cancelled, y.open = append(y.cancelled, holder.Workflow), ""
	return nil
}

// A build that needs the lease ends the build of a backfill that has it, and no other.
// Promises: 45.
func TestABuildOfABackfillYieldsItsLease(t *testing.T) {
	for _, test := range []struct {
		name, taker, holder string
		yields              bool
	}{
		{"a night", "g1", "build/docs/backfill-old-1-1", true},
		{"another backfill", "backfill-new-1-1", "build/docs/backfill-old-1-1", false},
		{"a night that meets a night", "g1", "build/docs/g0", false},
	} {
		b, engine := newBench(t), &yielding{open: test.holder}
		b.Engine = engine
		b.build.Generation = test.taker
		b.hold(t, core.Lease{Workflow: test.holder, Run: "r0", Fence: 7, Heartbeat: time.Second})
		fence, err := b.take()
		if !test.yields {
			assert.True(t, err != nil && len(engine.cancelled) == 0 && b.held(t).Workflow == test.holder,
				"%s: %v, %q", test.name, err, engine.cancelled)
			continue
		}
		assert.True(t, err == nil && fence == 8 && len(engine.cancelled) == 1,
			"%s: fence %d, %v, %q", test.name, fence, err, engine.cancelled)
		control := musttest.Get(run.ReadControl(t.Context(), b.Ports.Coordination, "docs/backfill-old-1-1"))(t)
		assert.True(t, control.Stop == run.CommandCancel, "%s: %+v: calls of what yields may start", test.name, control)
	}
}

// What no program of ours sends is refused before anything is opened for it.
func TestABackfillWithoutAPlainNameIsRefused(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"", "../old", "Old"} {
		b.build.Backfill = name
		_, err := b.ExecuteActivity(workflows.OpenBackfill, b.build)
		assert.True(t, err != nil && typeOf(err) == string(fault.InvalidParam), "%q: %v", name, err)
	}
}

func typeOf(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

func (p *plant) measured(t *testing.T) workflows.Capacity {
	var capacity workflows.Capacity
	value, err := p.env.ExecuteActivity(workflows.MeasureFleet, p.build)
	if err == nil {
		err = value.Get(&capacity)
	}
	require.NoError(t, err)
	return capacity
}

func TestAMeasureCountsWhoCanDoTheRunsWork(t *testing.T) {
	p := newPlant(t)
	p.Self = fleet.Worker{Queue: "q", Version: "1"}
	assert.Equal(t, workflows.Capacity{}, p.measured(t), "a fleet without a member")
	for name, value := range map[string]string{
		"a": `{"queue":"q","version":"1","slots":64,"cpu":8}`, "b": `{"queue":"q","version":"1","slots":1,"cpu":1}`,
		"of computing alone":  `{"queue":"q","version":"1","slots":0,"cpu":4,"apart":true}`,
		"of both queues":      `{"queue":"q","version":"1","slots":10,"cpu":2,"apart":true}`,
		"of an older version": `{"queue":"q","slots":64,"cpu":8}`,
		"of another queue":    `{"queue":"r","version":"1","slots":64,"cpu":8}`,
	} {
		musttest.Get2(p.Ports.Coordination.Beat(t.Context(), name, []byte(value), nil, time.Hour))(t)
	}
	for want, spec := range map[workflows.Capacity]core.Spec{
		{Workers: 3, Slots: 75, CPU: 11}: {Index: "docs"},
		{Workers: 3, Slots: 75, CPU: 11, Chat: 500, Embed: 500}: {
			Index: "docs", Chat: core.ChatModel{Provider: "openai"}, Embedding: core.EmbedModel{Provider: "openai"},
			Limits: core.Limits{Concurrency: 500},
		},
		{Workers: 3, Slots: 75, CPU: 11, Chat: 64}: {Index: "docs", Chat: core.ChatModel{Provider: "openai"}},
	} {
		digest := musttest.Get(artifact.Index{Store: p.store, Name: "docs"}.PutSpec(t.Context(), spec))(t)
		p.build.Spec = digest.String()
		want.Computing = 6
		assert.True(t, p.measured(t) == want, "%+v, want %+v", p.measured(t), want)
	}
	p.build.Spec = "" // of a restore, or an audit
	got, want := p.measured(t), (workflows.Capacity{Workers: 3, Slots: 75, CPU: 11, Computing: 6})
	assert.True(t, got == want, "without a configuration: %+v, want %+v", got, want)
}

// Who stops a process because a run ended must not take its notice with them.
func TestANoticeIsDueFromTheEndOfARunUntilItWasTried(t *testing.T) {
	for name, status := range map[string]int{"taken": http.StatusOK, "refused": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			reported := 0
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				reported++
				w.WriteHeader(status)
			}))
			defer receiver.Close()
			p := newPlant(t)
			p.Due = &activities.Due{}
			p.Notify = func(string) webhook.Hook {
				return webhook.Hook{URL: receiver.URL, Secret: "a secret to sign with", On: []string{config.OnFailed}}
			}
			end := workflows.End{Build: p.build, Status: core.StatusFailed, Reason: "internal"}
			musttest.Get(p.env.ExecuteActivity(workflows.EndBuild, end))(t)
			none := musttest.EndedContext(t)
			require.False(t, p.Due.Wait(none), "nothing is due after the end of a run that a webhook asks for")
			_, err := p.env.ExecuteActivity(workflows.SendNotice, workflows.Notice{
				Build: p.build, ID: "r-1", RunID: "r", Status: core.StatusFailed, Reason: "internal", At: time.Now(),
			})
			assert.True(t, (err == nil) == (status == http.StatusOK) && reported == 1, "reported %d times, %v", reported, err)
			assert.True(t, p.Due.Wait(none), "it is due still")
		})
	}
}

// Changes of standing questions go, with both answers, to the webhook that each names, or to that of the index where it
// asks for them; an end that nobody asks for is sent for them alone.
// Promises: 171.
func TestChangesOfStandingQuestionsReachTheWebhooksThatTheyName(t *testing.T) {
	var mu sync.Mutex
	got, calls, down := map[string]webhook.Body{}, map[string]int{}, "/legal"
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var body webhook.Body
		_ = json.NewDecoder(request.Body).Decode(&body)
		mu.Lock()
		got[request.URL.Path] = body
		calls[request.URL.Path]++
		mu.Unlock()
		if request.URL.Path == down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer receiver.Close()
	p := newPlant(t)
	hook := webhook.Hook{
		URL: receiver.URL + "/ops", Secret: "a secret to sign with", On: []string{config.OnWatched},
		Named: map[string]string{"legal": receiver.URL + "/legal", "other": receiver.URL + "/other"},
	}
	p.Notify = func(string) webhook.Hook { return hook }
	path := artifact.Index{Name: "docs"}.GenerationKey("g1", artifact.WatchedName)
	lines := "{rubbish\n"
	for _, name := range []string{"", "legal", "legal", "gone"} {
		lines += fmt.Sprintf(`{"question":"Who?","notify":%q,"before":{"quote":"Ada"},"after":{"quote":"Tom"}}`+"\n", name)
	}
	musttest.Get(blob.Write(t.Context(), p.store, path, []byte(lines), blob.Cond{}))(t)
	state := core.RunState{RunID: "r", Report: core.Report{Watched: &core.Watched{Changed: 4, Path: path}}}
	require.NoError(t, p.Ports.Coordination.SetState(t.Context(), "docs/g1", musttest.Get(json.Marshal(state))(t)))
	var ended workflows.Ended
	end := workflows.End{Build: p.build, Status: core.StatusCompleted}
	require.NoError(t, musttest.Get(p.env.ExecuteActivity(workflows.EndBuild, end))(t).Get(&ended))
	require.True(t, ended.Notify, "no notice is sent of a run that completed and changed answers")
	require.NoError(t, p.Ports.Coordination.SetState(t.Context(), "docs/g1", musttest.Get(json.Marshal(state))(t)))
	notice := workflows.Notice{Build: p.build, ID: "r-1", RunID: "r", Status: core.StatusCompleted, At: time.Now()}
	var sent []string
	p.env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		_ = details.Get(&sent)
	})
	_, err := p.env.ExecuteActivity(workflows.SendNotice, notice)
	require.True(t, err != nil && slices.Equal(sent, []string{"r-1"}), "%v, sent: %v", err, sent)
	down = ""
	p.env.SetHeartbeatDetails(sent)
	musttest.Get(p.env.ExecuteActivity(workflows.SendNotice, notice))(t)
	require.True(t, calls["/ops"] == 1 && calls["/legal"] == 2, "what was sent is sent again: %v", calls)
	p.env.SetHeartbeatDetails([]string{})
	require.Len(t, got, 2, "%+v", got)
	ops, legal := got["/ops"], got["/legal"]
	assert.True(t, ops.Event == config.OnWatched && ops.ID == "r-1" && len(ops.Questions) == 1, "%+v", ops)
	assert.True(t, legal.ID == "r-1-legal" && legal.QuestionsChanged == 2 && legal.Questions[1].Before.Quote == "Ada" &&
		legal.Questions[1].After.Quote == "Tom", "%+v", legal)
	hook.On = []string{config.OnCompleted}
	musttest.Get(p.env.ExecuteActivity(workflows.SendNotice, notice))(t)
	assert.True(t, got["/ops"].Event == config.OnCompleted && len(got["/ops"].Questions) == 0,
		"texts reach a webhook that does not ask for them: %+v", got["/ops"])
}

func TestAnEndThatIsNotRecordedOrThatNobodyIsToldOfOwesNothing(t *testing.T) {
	p := newPlant(t)
	p.Due = &activities.Due{}
	none := musttest.EndedContext(t)
	end := workflows.End{Build: p.build, Status: core.StatusFailed, Reason: "internal"}
	_, err := p.env.ExecuteActivity(workflows.EndBuild, end)
	assert.True(t, err == nil && p.Due.Wait(none), "no webhook is configured: %v", err)
	p.Notify = func(string) webhook.Hook {
		return webhook.Hook{URL: "http://127.0.0.1:1", Secret: "a secret to sign with", On: []string{config.OnFailed}}
	}
	p.store.down.Store(true)
	end.Attempt++
	_, err = p.env.ExecuteActivity(workflows.EndBuild, end)
	assert.True(t, err != nil && p.Due.Wait(none), "the end is not recorded: %v", err)
}

func TestAPanicReachesHistoryAsACodeAlone(t *testing.T) {
	const secret = "text of a document"
	check := func(t *testing.T, err error) {
		var reported *temporal.ApplicationError
		assert.True(t, errors.As(err, &reported) && reported.Type() == string(fault.Internal) &&
			!strings.Contains(err.Error(), secret), "%v", err)
	}
	b := newBench(t)
	b.Ports.Corpora = func(context.Context, string) (blob.Store, error) { panic(secret) }
	b.build.Fence = 3
	b.hold(t, core.Lease{Workflow: workflows.BuildID("docs", "g1"), Run: "r1", Fence: 3})
	_, err := b.ExecuteActivity(workflows.PlanBuild, b.build)
	check(t, err)
	b.Engine = nil // what takes the lease has no engine to ask
	_, err = b.ExecuteActivity(workflows.TakeLease, b.build)
	check(t, err)
	b.Ports.Coordination = nil // what records the error panics too
	_, err = b.ExecuteActivity(workflows.PlanBuild, b.build)
	check(t, err)
}

func sound() workflows.Build {
	return workflows.Build{
		Index: "docs", Generation: "g1", Spec: strings.Repeat("0", 64), Heartbeat: 1e9, Shape: workflows.DefaultShape(),
	}
}

// hostile returns inputs that no program of ours sends, by what is wrong with them.
func hostile() map[string]workflows.Build {
	good, out := sound(), map[string]workflows.Build{}
	bad := func(name string, change func(*workflows.Build)) {
		b := good
		change(&b)
		out[name] = b
	}
	bad("an index that leads out", func(b *workflows.Build) { b.Index = "../../../.." })
	bad("an index that is absolute", func(b *workflows.Build) { b.Index = "/etc" })
	bad("no index", func(b *workflows.Build) { b.Index = "" })
	bad("the ledger as index", func(b *workflows.Build) { b.Index = "ledger" })
	bad("a generation that leads out", func(b *workflows.Build) { b.Generation = "../../other/generations/g" })
	bad("no generation", func(b *workflows.Build) { b.Generation = "" })
	bad("a digest that is a path", func(b *workflows.Build) { b.Spec = "../../../../home/me/spec" })
	bad("a reference out of the run", func(b *workflows.Build) { b.Anew = "other/runs/g1/1/errors/x.json" })
	bad("a fence below zero", func(b *workflows.Build) { b.Fence = -1 })
	return out
}

// inputOf makes an activity's input of a build: the build itself, or what embeds it.
func inputOf(typ reflect.Type, b workflows.Build) any {
	input := reflect.New(typ).Elem()
	if typ == reflect.TypeFor[workflows.Build]() {
		return b
	}
	input.FieldByName("Build").Set(reflect.ValueOf(b))
	if stage := input.FieldByName("Stage"); stage.IsValid() {
		stage.SetString("extract")
	}
	if command := input.FieldByName("Command"); command.IsValid() {
		command.SetString(workflows.UpdatePause)
	}
	return input.Interface()
}

// refusing runs activities over a store that reports whether it was asked anything.
func refusing(t *testing.T) (*testsuite.TestActivityEnvironment, *artifacttest.Memory) {
	store := artifacttest.New()
	all := &activities.Activities{Engine: closed{}, Log: slog.New(slog.DiscardHandler), Ports: &run.Ports{
		Artifacts: store, Coordination: coordmemory.New(), Log: slog.New(slog.DiscardHandler),
	}}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(all)
	return env, store
}

// refused checks that an activity ends with the code, for good, without a word of the input and before any store is
// asked.
func refused(t *testing.T, name string, err error, store *artifacttest.Memory) {
	var app *temporal.ApplicationError
	assert.True(t, errors.As(err, &app) && app.Type() == string(fault.InvalidParam) && app.NonRetryable() &&
		app.Message() == string(fault.InvalidParam), "%s: %v", name, err)
	for _, op := range []artifacttest.Op{artifacttest.Get, artifacttest.Put, artifacttest.Stat, artifacttest.List} {
		n := store.Calls(op)
		assert.True(t, n <= 0, "%s: %d calls of %v", name, n, op)
	}
}

// Anyone who reaches the engine may send anything: every activity refuses what is no name before it opens anything.
func TestEveryActivityRefusesWhatIsNoName(t *testing.T) {
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		input := method.Type.In(2)
		for what, b := range hostile() {
			bare := strings.HasSuffix(method.Name, "Restore") || method.Name == workflows.RestorePart ||
				strings.Contains(method.Name, "Audit")
			if bare && b.Spec == "" { // a restore and an audit have no configuration
				continue
			}
			env, store := refusing(t)
			_, err := env.ExecuteActivity(method.Name, inputOf(input, b))
			refused(t, method.Name+", "+what, err, store)
		}
	}
}

// In a fleet of two versions a worker may be given work of a run that the other began: it opens nothing, and another
// worker gets it.
func TestWorkOfAnotherFormatIsLeftToItsWorkers(t *testing.T) {
	other := sound()
	other.Shape.Format = workflows.Format + 1
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		env, store := refusing(t)
		_, err := env.ExecuteActivity(method.Name, inputOf(method.Type.In(2), other))
		var app *temporal.ApplicationError
		assert.True(t, errors.As(err, &app) && app.Type() == string(fault.EngineDown) && !app.NonRetryable(),
			"%s: %v", method.Name, err)
		n := store.Calls(artifacttest.Get) + store.Calls(artifacttest.Put)
		assert.True(t, n <= 0, "%s: %d calls of the store", method.Name, n)
	}
}

func TestPartsOfInputsThatAreNoNamesAreRefused(t *testing.T) {
	good, outside := sound(), "docs/runs/g1/../../../other/current.json"
	for name, c := range map[string]struct {
		activity string
		input    any
	}{
		"a stage that is a path":        {workflows.BeginStage, workflows.StageState{Build: good, Stage: "../../x"}},
		"a unit's stage that is a path": {workflows.ExtractChunks, workflows.Unit{Build: good, Stage: "a/b"}},
		"a unit below zero":             {workflows.ReducePartition, workflows.Unit{Build: good, Stage: "reduce", N: -1}},
		"a batch below zero":            {workflows.SealShard, workflows.Unit{Build: good, Stage: "extract", Batch: -1}},
		"an end that quotes another index": {
			workflows.EndBuild, workflows.End{Build: good, Status: "failed", Ref: "other/current.json"},
		},
		"an end that quotes a file outside": {workflows.EndBuild, workflows.End{Build: good, Status: "failed", Ref: outside}},
		"a warning that quotes a file outside": {
			workflows.EndBuild,
			workflows.End{Build: good, Status: "completed", Warning: &workflows.Warning{Code: "x", Ref: outside}},
		},
		"the end of a restore that quotes another index": {
			workflows.EndRestore, workflows.End{Build: good, Status: "failed", Ref: "ledger/store.json"},
		},
		"an audit of no part": {workflows.OpenAudit, workflows.Audited{Build: good, Part: 8, Of: 7}},
		"the end of an audit that quotes another index": {
			workflows.EndAudit, workflows.End{Build: good, Status: "failed", Ref: "ledger/store.json"},
		},
		"a command that is none": {workflows.SteerRun, workflows.Steer{Build: good, Command: "rm"}},
	} {
		env, store := refusing(t)
		_, err := env.ExecuteActivity(c.activity, c.input)
		refused(t, name, err, store)
	}
}

// golden are the names that histories hold: a renamed activity breaks runs in progress.
const golden = `AimBackfill AuditPart BeginStage ChunkDocuments CollectGarbage EmbedPart EndAudit EndBackfill EndBuild EndRestore EnrichPart ExtractChunks ImportVectors LoadPart MeasureFleet NoteBackfill OpenAudit OpenBackfill OpenNight OpenRestore PayBackfill PayBatches PlanBuild
PublishBuild ReducePartition RepairPart RestorePart SealAudit SealChunks SealEnrichment SealExtraction SealRepair SealRestore SealShard SendNotice ShortenPartition SteerRun TakeLease VerifyPart WritePiece WriteSegments`

// What an activity returns is what the codec seals: one without a value could be answered by everybody.
func TestActivitiesHaveTheGoldenNamesAndReturnAValue(t *testing.T) {
	var got []string
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		of := typ.Method(i)
		got = append(got, of.Name)
		assert.True(t, of.Type.NumOut() == 2 && of.Type.Out(0).Kind() != reflect.Pointer, "%s returns no value, or a pointer", of.Name)
	}
	slices.Sort(got)
	assert.Equal(t, strings.Fields(golden), got)
}
