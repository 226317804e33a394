package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

func encode(t *testing.T, value any) []byte { return musttest.Get(json.Marshal(value))(t) }

func refuse(message, kind string) func(context.Context, client.UpdateWorkflowOptions) error {
	return func(context.Context, client.UpdateWorkflowOptions) error {
		return temporal.NewNonRetryableApplicationError(message, kind, nil)
	}
}

// oldWorker knows pause and resume of builds, and nothing of restores.
func oldWorker(_ context.Context, update client.UpdateWorkflowOptions) error {
	if update.UpdateName != "cancel" && update.WorkflowID == "build/docs/g1" {
		return nil
	}
	message := "unknown update " + update.UpdateName + ". KnownUpdates=[pause resume]"
	return temporal.NewApplicationError(message, "errorString")
}

func TestCommandsReachTheWorkflowOfTheirRun(t *testing.T) {
	for name, c := range map[string]struct{ run, workflow string }{
		"a build":            {"docs/g1", "build/docs/g1"},
		"by its workflow id": {"build/docs/g1", "build/docs/g1"},
		"a restore":          {"docs/restore-20260102t030405z", "restore/docs"},
		"an index":           {"docs", "build/docs/g1"},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			b.temporal.Executions["build/docs/g1"] = running
			b.temporal.Executions["restore/docs"] = running
			budget := &core.Budget{Calls: 10, Money: 2.5}
			b.must(b.PauseRun(t.Context(), c.run))
			b.must(b.ResumeRun(t.Context(), c.run, nil))
			b.must(b.ResumeRun(t.Context(), c.run, budget))
			b.must(b.CancelRun(t.Context(), c.run))
			names := []string{}
			for _, update := range b.temporal.Updates {
				names = append(names, update.UpdateName)
				assert.True(t, update.WorkflowID == c.workflow && update.WaitForStage == client.WorkflowUpdateStageCompleted,
					"%s went to %s, waiting for %v", update.UpdateName, update.WorkflowID, update.WaitForStage)
			}
			assert.Equal(t, []string{"pause", "resume", "resume", "cancel"}, names)
			assert.Equal(t, `[{}]`, string(encode(t, b.temporal.Updates[1].Args)), "resume takes")
			const want = `[{"budget":{"calls":10,"money":2.5}}]`
			assert.Equal(t, want, string(encode(t, b.temporal.Updates[2].Args)), "resume with a budget takes")
			assert.Empty(t, b.temporal.Cancelled, "cancelled past the workflow: %q", b.temporal.Cancelled)
		})
	}
}

func TestWhatAWorkflowRefusesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		message, kind string
		code          fault.Code
		says          []string
	}{
		"not paused":     {"the run is not paused", "usage", fault.Usage, []string{"resume run docs/g1", "is not paused"}},
		"resumed twice":  {"the run is being resumed already", "usage", fault.Usage, []string{"being resumed already"}},
		"another kind":   {"odd", "errorString", fault.Usage, []string{"odd"}},
		"no kind at all": {"odd", "", fault.Usage, []string{"odd"}},
		"a spent budget": {
			"the run has spent its budget", "budget_spent", fault.BudgetSpent, []string{"--budget-calls", "--budget-money"},
		},
		"a store": {"redis is away", "store_unavailable", fault.StoreDown, []string{"redis is away"}},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			b.temporal.Executions["build/docs/g1"] = running
			b.temporal.Answer = refuse(c.message, c.kind)
			musttest.Fail(t, b.ResumeRun(t.Context(), "docs/g1", nil), c.code, c.says...)
		})
	}
}

func TestASpentBudgetNeedsANewOne(t *testing.T) {
	b := newBench(t)
	b.temporal.Executions["build/docs/g1"] = running
	state := core.RunState{Report: core.Report{
		Status: core.StatusPaused, Reason: "budget_spent", Cost: 1.5,
		Calls: core.Calls{Extract: 20, Embed: 3}, Tokens: core.Tokens{Prompt: 100, Embedding: 11},
	}}
	b.setState("docs/g1", state)
	err := b.ResumeRun(t.Context(), "docs/g1", nil)
	musttest.Fail(t, err, fault.BudgetSpent, "docs/g1", "23 calls", "111 tokens", "1.5", "--budget-calls", "--budget-money")
	assert.Empty(t, b.temporal.Updates, "the workflow was asked all the same")
	musttest.Fail(t, b.ResumeRun(t.Context(), "docs/g1", &core.Budget{Calls: -1}), fault.Usage, "negative")
	for _, spent := range []core.Budget{{Calls: 23}, {Tokens: 100}, {Money: 1.5}, {Calls: 1000, Tokens: 111}} {
		err := b.ResumeRun(t.Context(), "docs/g1", &spent)
		musttest.Fail(t, err, fault.Usage, "docs/g1", "has already spent", "set a larger budget")
		assert.True(t, strings.Count(err.Error(), "larger") == 1 && len(b.temporal.Updates) == 0,
			"%d updates, %v", len(b.temporal.Updates), err)
	}
	b.must(b.ResumeRun(t.Context(), "docs/g1", &core.Budget{Calls: 40}))
	state.Report.Reason = "paused"
	b.setState("docs/g1", state)
	b.must(b.ResumeRun(t.Context(), "docs/g1", nil))
}

func TestCommandsToARunThatIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*bench)
		code    fault.Code
		says    string
	}{
		"it completed": {
			func(b *bench) { b.writeReport("g1", core.StatusCompleted) }, fault.RunEnded, "run docs/g1 has ended: completed",
		},
		"it was held": {func(b *bench) { b.setState("docs/g1", state(core.StatusHeld)) }, fault.RunEnded, "has ended: held"},
		"it was ended": {
			func(b *bench) { b.setState("docs/g1", state(core.StatusPaused)) }, fault.RunEnded, "outside of its own control",
		},
		"it never was":   {func(*bench) {}, fault.RunNotFound, "the run does not exist"},
		"its state lost": {func(b *bench) { b.putState("{") }, fault.RunNotFound, "the run does not exist"},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			c.prepare(b)
			for command, do := range map[string]func() error{
				"pause":  func() error { return b.PauseRun(t.Context(), "docs/g1") },
				"resume": func() error { return b.ResumeRun(t.Context(), "docs/g1", nil) },
				"cancel": func() error { return b.CancelRun(t.Context(), "docs/g1") },
			} {
				musttest.Fail(t, do(), c.code, command+" run docs/g1", c.says, "unweaver status")
			}
		})
	}
}

func state(status string) core.RunState { return core.RunState{Report: core.Report{Status: status}} }

func TestAnOldWorkerIsCancelledThroughTemporal(t *testing.T) {
	for name, run := range map[string]string{"a build": "docs/g1", "a restore": "docs/restore-1"} {
		onBench(t, name, func(t *testing.T, b *bench) {
			b.temporal.Executions["build/docs/g1"] = running
			b.temporal.Executions["restore/docs"] = running
			b.temporal.Answer = oldWorker
			b.must(b.CancelRun(t.Context(), run))
			want := map[string]string{"a build": "build/docs/g1", "a restore": "restore/docs"}[name]
			assert.True(t, reflect.DeepEqual(b.temporal.Cancelled, []string{want}), "%q, %q", b.temporal.Cancelled, want)
		})
	}
	b := newBench(t)
	b.temporal.Executions["restore/docs"] = running
	b.temporal.Answer = oldWorker
	musttest.Fail(t, b.PauseRun(t.Context(), "docs/restore-1"), fault.Usage, "does not support this command", "unweaver cancel")
}

func TestACommandThatNoWorkerObeys(t *testing.T) {
	hang := func(ctx context.Context, _ client.UpdateWorkflowOptions) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		pollers   int
		says      string
		cancelled int
	}{
		"none polls":          {0, "no worker polled", 1},
		"one polls and hangs": {1, "no worker carried out the command within 1m30s", 1},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b *bench) {
				b.temporal.Executions["build/docs/g1"] = running
				b.temporal.Answer, b.temporal.Pollers = hang, c.pollers
				begin := time.Now()
				musttest.Fail(t, b.PauseRun(t.Context(), "docs/g1"), fault.EngineDown, "pause run docs/g1", c.says)
				assert.Equal(t, 90*time.Second, time.Since(begin), "waited")
				musttest.Fail(t, b.CancelRun(t.Context(), "docs/g1"), fault.EngineDown, c.says, "Temporal was asked to cancel the run")
				assert.Len(t, b.temporal.Cancelled, c.cancelled, "cancelled %q", b.temporal.Cancelled)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				assert.ErrorIs(t, b.PauseRun(ctx, "docs/g1"), context.DeadlineExceeded, "the caller's own end")
			})
		})
	}
}

func TestATemporalThatIsDownIsNamed(t *testing.T) {
	b := newBench(t)
	b.temporal.Down = serviceerror.NewUnavailable("connection refused")
	for name, do := range map[string]func() error{
		"pause":  func() error { return b.PauseRun(t.Context(), "docs/g1") },
		"cancel": func() error { return b.CancelRun(t.Context(), "docs/g1") },
		"status": func() error { _, err := b.ReadStatus(t.Context(), "docs/g1"); return err },
		"index":  func() error { _, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "g1")); return err },
		"attach": func() error { _, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "")); return err },
	} {
		t.Run(name, func(t *testing.T) { musttest.Fail(t, do(), fault.EngineDown, "127.0.0.1:7233", "connection refused") })
	}
	assert.Empty(t, b.temporal.Cancelled, "a Temporal that is down was asked twice")
}

func TestPauseAndCancelTellWhatIsInFlight(t *testing.T) {
	b := newBench(t)
	b.temporal.Executions["build/docs/g1"] = running
	for says, want := range map[string]string{`{"in_flight":5}`: "5", `{"in_flight":0}`: "0", "": "untold"} {
		b.temporal.Says = says
		for name, command := range map[string]func(context.Context, string) (control.Stopped, error){
			"pause": b.Service.PauseRun, "cancel": b.Service.CancelRun,
		} {
			stopped, err := command(t.Context(), "docs/g1")
			got := "untold"
			if stopped.InFlight != nil {
				got = strconv.FormatInt(*stopped.InFlight, 10)
			}
			assert.True(t, err == nil && got == want,
				"%s of a worker that says %q: %s in flight, %v; want %s", name, says, got, err, want)
		}
	}
}

func (b *bench) hold(lease core.Lease) {
	musttest.Get(blob.WriteJSON(b.t.Context(), b.art.Store, b.art.LeaseKey(), lease, blob.Cond{}))(b.t)
}

func (b *bench) leased() core.Lease {
	lease, _, err := run.ReadLease(b.t.Context(), b.art)
	b.must(err)
	return lease
}

var foreign = core.Lease{
	Engine:   core.Engine{Cluster: "theirs", Address: "temporal.example:7233", Namespace: "prod"},
	Workflow: "build/docs/g1", Run: "r1", Fence: 7, Heartbeat: 6 * time.Second,
}

func TestALostRunGivesUpItsLeaseAndKeepsItsFence(t *testing.T) {
	for name, work := range map[string]string{"by its name": "docs/g1", "by the index": "docs"} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b *bench) {
				b.hold(foreign)
				began := time.Now()
				b.must(b.MarkLost(t.Context(), work))
				lease := b.leased()
				assert.True(t, lease.Workflow == "" && lease.Fence == 7, "the lease is %+v", lease)
				took := time.Since(began)
				assert.True(t, took >= foreign.Heartbeat, "freed after %s: no check saw whether a process renews it", took)
				b.must(b.MarkLost(t.Context(), work)) // its answer may have been lost
			})
		})
	}
}

func TestARunIsNotLostWhileItRunsOrAProcessWorksOnIt(t *testing.T) {
	for name, test := range map[string]struct {
		arrange func(*bench)
		run     string
		code    fault.Code
		says    []string
	}{
		"our engine runs it": {
			func(b *bench) { b.temporal.Executions["build/docs/g1"] = running }, "docs/g1", fault.LeaseHeld,
			[]string{"is not lost", "unweaver cancel docs/g1"},
		},
		"our engine is away": {func(b *bench) { b.temporal.Down = errDown }, "docs/g1", fault.EngineDown, nil},
		"a process renews it": {
			func(b *bench) {
				time.AfterFunc(3*time.Second, func() {
					renewed := foreign
					renewed.Renewed = time.Now()
					b.hold(renewed)
				})
			}, "docs/g1", fault.LeaseHeld, []string{"working on run docs/g1", "temporal.example:7233, namespace prod"},
		},
		"another run holds it": {
			func(*bench) {}, "docs/g2", fault.Usage, []string{"docs/g1 holds it", "unweaver cancel docs/g1 --lost"},
		},
		"a restore": {func(*bench) {}, "docs/restore-1", fault.Usage, []string{"restore"}},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b *bench) {
				b.hold(foreign)
				test.arrange(b)
				musttest.Fail(t, b.MarkLost(t.Context(), test.run), test.code, test.says...)
				assert.Equal(t, "build/docs/g1", b.leased().Workflow, "the lease")
			})
		})
	}
}

func TestALeaseThatNobodyUnderstandsIsMendedAboveEveryFence(t *testing.T) {
	b := newBench(t)
	b.write(b.art.LeaseKey(), `{"workflow":"build/docs/g1","run":"r1","fence":-3}`)
	b.write(b.art.RunKey("g1", "41", "build.json"), "{}")
	b.write(b.art.RunKey("restore-1", "restore", "parts.json"), "[]")
	musttest.Fail(t, b.MarkLost(t.Context(), "docs/g1"), fault.SegmentDamage, "its fence is -3", "unweaver cancel docs --lost")
	b.temporal.Executions["build/docs/g9"] = running
	musttest.Fail(t, b.MarkLost(t.Context(), "docs"), fault.LeaseHeld, "docs/g9")
	b.temporal.Executions["build/docs/g9"] = completed
	b.must(b.MarkLost(t.Context(), "docs"))
	lease := b.leased()
	assert.True(t, lease.Workflow == "" && lease.Fence >= 41, "the lease is %+v", lease)
}

// A name may be used again after a run that published nothing: what that one left must not pass for the new one's end.
// Promises: 48.
func TestAStartedRunIsNotMistakenForAnEarlierOneOfItsName(t *testing.T) {
	b := newBench(t)
	first := musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "docs", "nightly")))(b.t)
	left := core.RunState{RunID: first.RunID, Workflow: "build/docs/nightly"}
	left.Report = core.Report{Status: core.StatusCompleted, RunID: first.RunID}
	b.setState("docs/nightly", left)
	b.temporal.Executions["build/docs/nightly"] = completed
	status, err := b.ReadStatus(t.Context(), first.ExactName())
	require.True(t, err == nil && status.Status == core.StatusCompleted, "%+v, %v", status, err)
	second := musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "docs", "nightly")))(b.t)
	require.True(t, second.RunID != "" && second.RunID != first.RunID, "runs %+v and %+v", first, second)
	status, err = b.ReadStatus(t.Context(), second.ExactName())
	assert.True(t, err == nil && status.Status == core.StatusRunning, "it has just begun: %+v, %v", status.Status, err)
	b.temporal.Executions["build/docs/nightly"] = terminated
	status, err = b.ReadStatus(t.Context(), second.ExactName())
	assert.True(t, err == nil && status.Status == core.StatusFailed && status.Reason == "terminated",
		"it left nothing: %+v %s, %v", status.Status, status.Reason, err)
	left.RunID, left.Report.RunID, left.Report.Status = second.RunID, second.RunID, core.StatusHeld
	b.setState("docs/nightly", left)
	status, err = b.ReadStatus(t.Context(), second.ExactName())
	assert.True(t, err == nil && status.Status == core.StatusHeld, "it was held: %+v, %v", status.Status, err)
}

const (
	running    = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	completed  = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	terminated = enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

// faulty is a coordination store some of whose sources fail.
type faulty struct {
	coordination.Store
	state, progress error
}

// deaf is a record store that may not answer.
type deaf struct {
	records.Store
	ping error
}

func (f *faulty) ReadState(ctx context.Context, run string) ([]byte, error) {
	if f.state != nil {
		return nil, f.state
	}
	return f.Store.ReadState(ctx, run)
}

func (f *faulty) ReadAccounts(ctx context.Context, run string) (map[string][]byte, error) {
	if f.progress != nil {
		return nil, f.progress
	}
	return f.Store.ReadAccounts(ctx, run)
}

func (d *deaf) Ping(ctx context.Context) error {
	if d.ping != nil {
		return d.ping
	}
	return d.Store.Ping(ctx)
}

// bench is a service over stores of its own and a Temporal in memory.
type bench struct {
	*service.Service
	t        *testing.T
	temporal *fakeTemporal
	classes  *faulty
	records  *deaf
	art      artifact.Index // of index docs
	pulled   bool           // publish publishes what an image brought
}

// PauseRun and Cancel are those of the service without their answer.
func (b *bench) PauseRun(ctx context.Context, run string) error {
	return musttest.Err(b.Service.PauseRun(ctx, run))
}
func (b *bench) CancelRun(ctx context.Context, run string) error {
	return musttest.Err(b.Service.CancelRun(ctx, run))
}

func newBench(t *testing.T) *bench {
	root := t.TempDir()
	artifacts := musttest.Get(dir.Open(filepath.Join(root, "artifacts")))(t)
	musttest.Get(artifact.OpenStoreID(t.Context(), artifacts))(t)
	vectors := musttest.Get(files.Open(filepath.Join(root, "vectors")))(t)
	store, kept := &faulty{Store: memory.New()}, &deaf{Store: recordsmemory.New()}
	stores := &app.Stores{Artifacts: artifacts, Records: kept, Coordination: store, Vectors: vectors}
	t.Cleanup(func() { _ = stores.Close() })
	fake := &fakeTemporal{
		Executions: map[string]enums.WorkflowExecutionStatus{}, Hidden: map[string]bool{}, Runs: map[string]int{},
		Pollers: 1, Computers: 1,
	}
	own := config.Default()
	own.Models.Endpoints = []config.Endpoint{
		{APIKeyEnv: "OPS_TEST_UNSET"}, {BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "OPS_TEST_KEY"},
	}
	require.NoError(t, stores.LoadGrants(filepath.Join(root, "roots.json")))
	svc := &service.Service{
		Client: fake, Engine: config.Engine{Address: "127.0.0.1:7233", Namespace: "default", TaskQueue: "unweaver"},
		Stores: stores, Models: app.NewModels(store, own), Heartbeat: time.Minute, Grant: stores.GrantCorpora,
	}
	return &bench{svc, t, fake, store, kept, artifact.Index{Store: artifacts, Name: "docs"}, false}
}

// onBench tests a bench in a test of its own.
func onBench(t *testing.T, name string, test func(t *testing.T, b *bench)) {
	t.Run(name, func(t *testing.T) { test(t, newBench(t)) })
}

// inTime tests a bench in a time of its own.
func inTime(t *testing.T, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t)) })
}

func (b *bench) must(err error) { require.NoError(b.t, err) }

func (b *bench) setState(run string, state core.RunState) {
	state.Report.Run = run
	state.Report.Index, state.Report.Generation, _ = strings.Cut(run, "/")
	b.must(b.Stores.Coordination.SetState(b.t.Context(), run, encode(b.t, state)))
}

func (b *bench) writeReport(generation, status string) {
	report := core.Report{Index: "docs", Generation: generation, Run: "docs/" + generation, Status: status}
	musttest.Get(blob.WriteJSON(b.t.Context(), b.art.Store, b.art.GenerationKey(generation, "report.json"), report,
		blob.Cond{}))(b.t)
}

func (b *bench) write(key, content string) {
	musttest.Get(blob.Write(b.t.Context(), b.art.Store, key, []byte(content), blob.Cond{}))(b.t)
}

func (b *bench) spec(index string) core.Spec {
	return core.Spec{
		Index: index, Corpus: b.t.TempDir(), Chat: core.ChatModel{Provider: "builtin"},
		Embedding: core.EmbedModel{Provider: "builtin"},
	}
}

var errDown = errors.New("connection refused")

type readOnly struct{ blob.Store }

func (r readOnly) Put(context.Context, string, io.Reader, int64, blob.Cond) (blob.Info, error) {
	return blob.Info{}, fault.StoreDenied.At("write", "bucket").Because("read only").Advise("check the credentials")
}

var errNoRight = fault.StoreDenied.At("ask", "bucket").Because("no such right")

type unlisted struct{ blob.Store }

func (u unlisted) List(context.Context, string, string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, errNoRight) }
}

type undeleted struct{ blob.Store }

func (u undeleted) DeleteAll(context.Context, []string) error { return errNoRight }

type unconditional struct{ blob.Store }

func (u unconditional) Put(ctx context.Context, key string, r io.Reader, n int64, _ blob.Cond) (blob.Info, error) {
	return u.Store.Put(ctx, key, r, n, blob.Cond{})
}
