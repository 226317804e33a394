package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/workflows"
)

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
	t.Helper()
	store := blobmemory.New()
	b := &bench{index: artifact.Index{Store: store, Name: "docs"}}
	b.Activities = &activities.Activities{Engine: closed{}, Log: slog.New(slog.DiscardHandler), Ports: &run.Ports{
		Artifacts: store, Coordination: coordmemory.New(), Records: recordsmemory.New(), Vectors: vectorsmemory.New(),
		Models: func(core.Spec, model.Meter) (model.Set, error) {
			return model.Set{Chat: builtin.Chat{}, Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	}}
	spec := must(b.index.PutSpec(t.Context(), core.Spec{Index: "docs", Corpus: "c"}))(t)
	b.build = workflows.Build{
		Index: "docs", Generation: "g1", Spec: spec.String(), Heartbeat: time.Second, Shape: workflows.DefaultShape(),
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	b.TestActivityEnvironment = suite.NewTestActivityEnvironment()
	b.RegisterActivity(b.Activities)
	return b
}

func (b *bench) hold(t *testing.T, lease core.Lease) {
	t.Helper()
	_, err := blob.WriteJSON(t.Context(), b.index.Store, b.index.LeaseKey(), lease, blob.Cond{})
	require.NoError(t, err)
}

func (b *bench) held(t *testing.T) core.Lease {
	t.Helper()
	lease, _, err := run.ReadLease(t.Context(), b.index)
	require.NoError(t, err)
	return lease
}

func TestTakingALeaseWaitsForTheProcessesOfARunThatIsOver(t *testing.T) {
	b := newBench(t)
	value, err := b.ExecuteActivity(workflows.TakeLease, b.build)
	var fence int64
	if err == nil {
		err = value.Get(&fence)
	}
	if got := b.held(t); err != nil || fence != 1 || got.Engine.Cluster != "c" || got.Heartbeat != time.Second {
		t.Fatalf("fence %d, %v, lease %+v", fence, err, got)
	}
	b.hold(t, core.Lease{Workflow: "build/docs/g0", Run: "r0", Fence: 7, Heartbeat: time.Second})
	began := time.Now()
	value, err = b.ExecuteActivity(workflows.TakeLease, b.build)
	if err == nil {
		err = value.Get(&fence)
	}
	assert.True(t, err == nil && fence == 8 && time.Since(began) >= time.Second, "fence %d after %s, %v", fence,
		time.Since(began), err)
}

// long is more than anything takes, also on a machine that has much else to do.
const long = 3 * time.Minute

// A unit that works when its run has lost the lease is a zombie: it is cancelled with the reason.
func TestAUnitWhoseLeaseIsLostStops(t *testing.T) {
	b := newBench(t)
	b.build.Fence = 3
	holder := workflows.BuildID("docs", "g1")
	b.hold(t, core.Lease{Workflow: holder, Run: "r1", Fence: 3, Heartbeat: time.Second})
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
	assert.True(t, errors.As(err, &app) && app.Type() == string(fault.LeaseLost) && app.NonRetryable(),
		"the unit ended with %v", err)
	assert.True(t, renewed, "the lease was not renewed while the unit worked")
	got := b.held(t)
	assert.True(t, got.Fence == 4 && got.Run == "r2", "the lease is %+v", got)
}
