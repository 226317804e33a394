package workflows_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/unweaver/unweaver/workflows"
)

// fence is what the fake's lease gives: every later activity must carry it.
const fence = 7

// inFlight is what SteerRun of a fake returns.
const inFlight = 5

// fake stands for the activities of a run: it records calls and answers what a small corpus would.
type fake struct {
	mu         sync.Mutex
	calls      []string           // "name" or "name n" or "name n/batch", in order
	units      []workflows.Unit   // inputs of the units, in order
	fail       map[string][]error // errors of the first calls of an activity, or of one unit of it
	ended      []workflows.End
	audited    []workflows.Audited
	steered    []workflows.Steer
	shards     []int
	planned    workflows.Planned
	outcome    workflows.Outcome
	imports    bool
	notify     bool // every end and pause calls a webhook
	noticed    []workflows.Notice
	pauses     bool              // batches look at the commands that were written down, as the real ones do
	before     func(call string) // runs in the activity
	capacity   workflows.Capacity
	builder    string // run that builds the index when a night begins
	pieces     int    // of the segment stage
	enrich     int    // parts
	batch      bool   // extraction is answered in batches
	spec       string // that SealChunks gives
	sameStatus string // status of a build that came to what its parent is; empty: it did not
}

func newFake(shards ...int) *fake {
	return &fake{
		shards: shards, fail: map[string][]error{}, planned: workflows.Planned{Units: 2, Documents: 10},
		outcome: workflows.Outcome{Status: "completed"},
	}
}

func (f *fake) call(name string, units ...workflows.Unit) error {
	call := name
	for _, u := range units {
		call = fmt.Sprintf("%s %d", name, u.N)
		if name == workflows.ExtractChunks {
			call = fmt.Sprintf("%s/%d", call, u.Batch)
		}
	}
	if f.before != nil {
		f.before(call)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pauses && name == workflows.ExtractChunks && len(f.steered) > 0 &&
		f.steered[len(f.steered)-1].Command == workflows.UpdatePause {
		return fatal("paused")
	}
	f.calls = append(f.calls, call)
	f.units = append(f.units, units...)
	for _, key := range []string{call, name} {
		if errs := f.fail[key]; len(errs) > 0 {
			f.fail[key] = errs[1:]
			return errs[0]
		}
	}
	return nil
}

// grows has the fleet measure otherwise from now on.
func (f *fake) grows(capacity workflows.Capacity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.capacity = capacity
}

// notices returns the notices that were sent so far: the last of a run may be on its way when the run has ended.
func (f *fake) notices() []workflows.Notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.noticed)
}

func (f *fake) count(call string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c == call || strings.HasPrefix(c, call+" ") {
			n++
		}
	}
	return n
}

// first returns the place of an activity's first call, last that of its last.
func (f *fake) first(name string) int {
	return slices.IndexFunc(f.calls, func(c string) bool { return c == name || strings.HasPrefix(c, name+" ") })
}

func (f *fake) last(name string) int {
	for i := len(f.calls) - 1; i >= 0; i-- {
		if f.calls[i] == name || strings.HasPrefix(f.calls[i], name+" ") {
			return i
		}
	}
	return -1
}

func (f *fake) lastEnd() workflows.End {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ended) == 0 {
		return workflows.End{}
	}
	return f.ended[len(f.ended)-1]
}

var unitActivities = []string{
	workflows.ChunkDocuments, workflows.PayBatches, workflows.ExtractChunks, workflows.SealShard,
	workflows.ReducePartition, workflows.ShortenPartition, workflows.EmbedPart, workflows.LoadPart,
	workflows.WritePiece, workflows.EnrichPart, workflows.WriteSegments, workflows.VerifyPart,
	workflows.CollectGarbage, workflows.RestorePart, workflows.RepairPart, workflows.AuditPart,
}

// registry is what a test environment and a worker have in common.
type registry interface {
	RegisterActivityWithOptions(activity any, options activity.RegisterOptions)
}

// gives registers an activity that gives what a function does, and is recorded as a call.
func gives[In, Out any](f *fake, to registry, name string, give func(In) Out) {
	to.RegisterActivityWithOptions(func(_ context.Context, in In) (Out, error) {
		return give(in), f.call(name)
	}, activity.RegisterOptions{Name: name})
}

func keep[T any](f *fake, list *[]T, one T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*list = append(*list, one)
}

func (f *fake) register(to registry) {
	reg := func(name string, function any) {
		to.RegisterActivityWithOptions(function, activity.RegisterOptions{Name: name})
	}
	gives(f, to, workflows.TakeLease, func(workflows.Build) int64 { return fence })
	gives(f, to, workflows.OpenNight, func(in workflows.Night) workflows.Opened {
		if f.builder != "" && in.Skip {
			return workflows.Opened{By: f.builder}
		}
		in.Spec = strings.Repeat("0", 64)
		return workflows.Opened{Build: in.Build}
	})
	gives(f, to, workflows.PlanBuild, func(workflows.Build) workflows.Planned { return f.planned })
	reg(workflows.BeginStage, func(_ context.Context, s workflows.StageState) (workflows.Receipt, error) {
		return workflows.Receipt{}, f.call(workflows.BeginStage + " " + s.Stage)
	})
	gives(f, to, workflows.MeasureFleet, func(workflows.Build) workflows.Capacity {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.capacity
	})
	gives(f, to, workflows.SealChunks, func(workflows.Build) workflows.Chunked {
		if f.sameStatus != "" {
			return workflows.Chunked{Unchanged: true, Status: f.sameStatus}
		}
		chunked := workflows.Chunked{Shards: f.shards, Import: f.imports, Batch: f.batch, Spec: f.spec}
		for _, chunks := range f.shards {
			chunked.Chunks += int64(chunks)
		}
		return chunked
	})
	gives(f, to, workflows.SealExtraction, func(workflows.Build) workflows.Extracted {
		return workflows.Extracted{Partitions: 2, Pieces: f.pieces, Enrich: f.enrich}
	})
	for _, name := range []string{
		workflows.SealEnrichment, workflows.SealRepair, workflows.SealRestore, workflows.ImportVectors, workflows.SealAudit,
	} {
		gives(f, to, name, func(workflows.Build) workflows.Receipt { return workflows.Receipt{} })
	}
	for _, name := range unitActivities {
		reg(name, func(_ context.Context, u workflows.Unit) (workflows.UnitResult, error) {
			if u.Fence != fence {
				return workflows.UnitResult{}, fmt.Errorf("%s got fence %d", name, u.Fence)
			}
			return workflows.UnitResult{Done: 1}, f.call(name, u)
		})
	}
	gives(f, to, workflows.PublishBuild, func(workflows.Unit) workflows.Outcome { return f.outcome })
	for _, name := range []string{workflows.EndBuild, workflows.EndRestore, workflows.EndAudit} {
		reg(name, func(_ context.Context, end workflows.End) (workflows.Ended, error) {
			keep(f, &f.ended, end)
			return workflows.Ended{Notify: f.notify}, f.call(workflows.EndBuild)
		})
	}
	gives(f, to, workflows.SendNotice, func(notice workflows.Notice) workflows.Receipt {
		keep(f, &f.noticed, notice)
		return workflows.Receipt{}
	})
	gives(f, to, workflows.OpenRestore, func(build workflows.Build) workflows.Restored {
		build.Fence = fence
		return workflows.Restored{Build: build, Parts: 3}
	})
	gives(f, to, workflows.OpenAudit, func(in workflows.Audited) workflows.Restored {
		keep(f, &f.audited, in)
		in.Fence = fence
		return workflows.Restored{Build: in.Build, Parts: 3}
	})
	gives(f, to, workflows.SteerRun, func(steer workflows.Steer) workflows.Stopped {
		keep(f, &f.steered, steer)
		return workflows.Stopped{InFlight: inFlight}
	})
}

type registrar interface{ register(to registry) }

// environment returns the environment of a test; with prepares it.
func environment(f registrar, with func(*testsuite.TestWorkflowEnvironment)) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // on a busy machine
	f.register(env)
	workflows.Register(env)
	if with != nil {
		with(env)
	}
	return env
}

// run runs a build, or a restore or an audit of a part where its generation says so.
func run(
	t *testing.T,
	f *fake,
	build workflows.Build,
	with func(*testsuite.TestWorkflowEnvironment),
) (workflows.Outcome, error) {
	name := workflows.BuildIndexName
	if build.Index = "i"; strings.HasPrefix(build.Generation, workflows.RestoreGeneration) {
		name = workflows.RestoreName
	} else if strings.HasPrefix(build.Generation, workflows.AuditGeneration) {
		name = workflows.AuditName
	} else {
		build.Generation = "g"
	}
	if build.Shape.Format == 0 {
		build.Shape.Format = workflows.Format
	}
	if build.Heartbeat == 0 { // the environment's clock jumps over what a mock waits for
		build.Heartbeat = 1000 * time.Hour
	}
	env := environment(f, with)
	var input any = build
	if name == workflows.AuditName {
		input = workflows.Audited{Build: build, Part: 2, Of: 7, Repair: true}
	}
	env.ExecuteWorkflow(name, input)
	require.True(t, env.IsWorkflowCompleted(), "the run did not end")
	return result[workflows.Outcome](env)
}

func result[Result any](env *testsuite.TestWorkflowEnvironment) (out Result, err error) {
	if err = env.GetWorkflowError(); err == nil {
		err = env.GetWorkflowResult(&out)
	}
	return out, err
}

// fatal returns an error as activities map it: a code, a reference to its text, never to be retried.
func fatal(code string) error {
	return temporal.NewApplicationErrorWithOptions(code, code,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{"ref-" + code + ".json"}})
}

type answer struct {
	rejected, failed error
	completed        bool
	reported         any
}

func (a *answer) Accept()          {}
func (a *answer) Reject(err error) { a.rejected = err }
func (a *answer) Complete(reported any, err error) {
	a.completed, a.failed, a.reported = err == nil, err, reported
}

func send(env *testsuite.TestWorkflowEnvironment, update string, input ...any) *answer {
	a := &answer{}
	env.UpdateWorkflow(update, "", a, input...)
	return a
}

// resumeAt resumes the run at a time after its start, and fails the test where that is refused.
func resumeAt(t *testing.T, env *testsuite.TestWorkflowEnvironment, after time.Duration, in workflows.Resume) {
	var a *answer
	env.RegisterDelayedCallback(func() { a = send(env, workflows.UpdateResume, in) }, after)
	env.RegisterDelayedCallback(func() {
		assert.True(t, a.rejected == nil && a.failed == nil, "resume: %+v", a)
	}, after+time.Second)
}

func state(t *testing.T, env *testsuite.TestWorkflowEnvironment) workflows.State {
	var s workflows.State
	value, err := env.QueryWorkflow(workflows.QueryState)
	if err == nil {
		err = value.Get(&s)
	}
	assert.NoError(t, err)
	return s
}

func completes(t *testing.T, f *fake, build workflows.Build, with func(*testsuite.TestWorkflowEnvironment)) {
	out, err := run(t, f, build, with)
	require.True(t, err == nil && out.Status == "completed", "%v %v, ends %+v", out, err, f.ended)
}
