package workflows_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// options are those that each activity and child workflow was started with.
type options struct {
	interceptor.WorkerInterceptorBase
	mu         sync.Mutex
	activities map[string]workflow.ActivityOptions
	children   map[string]workflow.ChildWorkflowOptions
}

func (o *options) InterceptWorkflow(
	_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, o}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	options *options
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.options})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	options *options
}

func (out *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	out.options.mu.Lock()
	out.options.activities[name] = workflow.GetActivityOptions(ctx)
	out.options.mu.Unlock()
	return out.Next.ExecuteActivity(ctx, name, args...)
}

func (out *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	out.options.mu.Lock()
	out.options.children[name] = workflow.GetChildWorkflowOptions(ctx)
	out.options.mu.Unlock()
	return out.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// started gives the options of everything that builds and restores start.
func started(t *testing.T) *options {
	seen := &options{
		activities: map[string]workflow.ActivityOptions{}, children: map[string]workflow.ChildWorkflowOptions{},
	}
	for _, build := range []workflows.Build{
		{Heartbeat: 42 * time.Second}, {Generation: "restore-1"}, {Generation: "audit-1"},
	} {
		f := newFake(200)
		f.imports, f.planned.Repair, f.notify, f.pieces, f.batch, f.enrich = true, 2, true, 2, true, 2
		if build.Heartbeat == 0 {
			build.Heartbeat = 42 * time.Second
		}
		musttest.Get(run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{seen}})
			env.RegisterDelayedCallback(func() { send(env, workflows.UpdatePause) }, 0)
			resumeAt(t, env, time.Hour, workflows.Resume{})
		}))(t)
	}
	return seen
}

// Four kinds of activities, and all of them: a new one must be put under one.
var (
	quickOnes  = []string{workflows.BeginStage, workflows.OpenRestore, workflows.SteerRun}
	recordings = []string{workflows.EndBuild, workflows.EndRestore, workflows.EndAudit}
	notices    = []string{workflows.SendNotice}
	batches    = append([]string{
		workflows.TakeLease, workflows.PlanBuild, workflows.SealChunks, workflows.SealExtraction, workflows.ImportVectors,
		workflows.PublishBuild, workflows.SealRepair, workflows.SealRestore, workflows.OpenAudit,
		workflows.SealAudit, workflows.SealEnrichment,
	}, unitActivities...)
)

// Each activity is of one kind, whose retries and time-outs it has. What fills a core has a queue of its own, and
// children end with their run.
func TestEveryActivityHasAProfile(t *testing.T) {
	seen, all := started(t), slices.Concat(quickOnes, recordings, notices, batches)
	slices.Sort(all)
	assert.Equal(t, all, slices.Sorted(maps.Keys(seen.activities)))
	apart := []string{
		workflows.ChunkDocuments, workflows.ReducePartition, workflows.SealShard, workflows.WritePiece,
		workflows.WriteSegments,
	}
	for name, given := range seen.activities {
		assert.Equal(t, slices.Contains(apart, name), strings.HasSuffix(given.TaskQueue, "-cpu"), "%s: %q", name, given.TaskQueue)
		assert.True(t, given.WaitForCancellation, "%s may go on after its run has ended", name)
		assert.True(t, given.RetryPolicy != nil && given.RetryPolicy.InitialInterval == time.Second,
			"%s: retries %+v", name, given.RetryPolicy)
	}
	for _, name := range batches {
		given, longest := seen.activities[name], 12*time.Hour
		if name == workflows.PayBatches {
			longest = 7 * 24 * time.Hour // it waits for a server that takes a day
		}
		attempts := given.RetryPolicy.MaximumAttempts
		assert.True(t, attempts >= 20 && attempts <= 50, "%s is tried %d times", name, attempts)
		assert.True(t, given.StartToCloseTimeout >= 10*time.Minute && given.StartToCloseTimeout <= longest,
			"%s may take %s", name, given.StartToCloseTimeout)
	}
	for _, name := range recordings { // an end outlasts an outage of days
		given := seen.activities[name]
		assert.True(t, given.ScheduleToCloseTimeout >= 3*24*time.Hour && given.RetryPolicy.MaximumAttempts == 0 &&
			given.RetryPolicy.MaximumInterval <= time.Minute, "%s: %+v, %+v", name, given, given.RetryPolicy)
	}
	for _, name := range []string{workflows.StageName, workflows.ShardName} {
		given, ok := seen.children[name]
		assert.True(t, ok && given.WaitForCancellation && given.ParentClosePolicy == enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
			"%s: %v, %+v", name, ok, given)
	}
}

// After a kill, a unit waits for its heartbeat's timeout and for the wait between attempts, which grows with kills.
// Promises: 110.
func TestAKillAtAnyTimeCostsLessThanHalfAMinute(t *testing.T) {
	seen := started(t)
	for name, given := range seen.activities {
		if slices.Contains(notices, name) {
			continue // no run waits for it; an attempt has half a minute
		}
		assert.Equal(t, 42*time.Second, given.HeartbeatTimeout, "%s: heartbeat", name)
		longest := given.RetryPolicy.MaximumInterval
		if slices.Contains(recordings, name) {
			continue // its attempts go on for days, and end with those of an outage of a store
		}
		assert.True(t, longest+workflows.DefaultHeartbeat <= 27*time.Second,
			"%s goes on %s after a heartbeat that is missed", name, longest)
	}
	for _, name := range quickOnes {
		given := seen.activities[name]
		assert.True(t, given.StartToCloseTimeout <= time.Minute && given.RetryPolicy.MaximumAttempts != 0,
			"%s: %s, %+v", name, given.StartToCloseTimeout, given.RetryPolicy)
	}
	if steer := seen.activities[workflows.SteerRun]; steer.ScheduleToCloseTimeout > time.Minute {
		t.Errorf("a person waits %s to hear that a command failed", steer.ScheduleToCloseTimeout)
	}
}

func TestAnAttemptMayTakeAsLongAsItsUnitIsLarge(t *testing.T) {
	limitOf := func(batch int) time.Duration {
		f := newFake(1000)
		seen := &options{
			activities: map[string]workflow.ActivityOptions{}, children: map[string]workflow.ChildWorkflowOptions{},
		}
		build := workflows.Build{Shape: workflows.Shape{BatchChunks: batch}}
		musttest.Get(run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{seen}})
		}))(t)
		return seen.activities[workflows.ExtractChunks].StartToCloseTimeout
	}
	small, large := limitOf(10), limitOf(100)
	assert.True(t, large >= 5*small, "10 chunks may take %s, 100 only %s", small, large)
}

func TestARunWithoutAHeartbeatGetsOne(t *testing.T) {
	f := newFake(64)
	completes(t, f, workflows.Build{Heartbeat: -1}, nil)
	for _, unit := range f.units {
		require.Equal(t, workflows.DefaultHeartbeat, unit.Heartbeat, "heartbeat")
	}
}
