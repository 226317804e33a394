package devserver

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// many does so many activities at once, all on a second queue.
func many(ctx workflow.Context, index string, activities int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: "work", StartToCloseTimeout: time.Minute})
	var all []workflow.Future
	for range activities {
		all = append(all, workflow.ExecuteActivity(ctx, "do", index))
	}
	for _, one := range all {
		if err := one.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// An index that began later has its part of the workers at once, whatever waits of one that began before it.
func TestASmallIndexDoesNotWaitForALargeOne(t *testing.T) {
	const large, small = 200, 10
	with, _ := options(real(t), t.TempDir())
	server := start(t, with)
	defer stop(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := dial(t, server)
	deciding := worker.New(c, "decide", worker.Options{})
	deciding.RegisterWorkflow(many)
	require.NoError(t, deciding.Start())
	defer deciding.Stop()
	var runs []client.WorkflowRun
	for _, one := range []struct {
		index      string
		activities int
	}{{"large", large}, {"small", small}} {
		run := must(c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: one.index, TaskQueue: "decide",
			Priority: temporal.Priority{FairnessKey: one.index, FairnessWeight: 1},
		}, many, one.index, one.activities))(t)
		runs = append(runs, run)
		waiting(ctx, t, c, one.index, one.activities) // all of the large one wait before the small one begins
	}
	var mu sync.Mutex
	var order []string
	working := worker.New(c, "work", worker.Options{MaxConcurrentActivityExecutionSize: 1})
	working.RegisterActivityWithOptions(func(_ context.Context, index string) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, index)
		return nil
	}, activity.RegisterOptions{Name: "do"})
	require.NoError(t, working.Start())
	defer working.Stop()
	for _, run := range runs {
		require.NoError(t, run.Get(ctx, nil))
	}
	last := 0
	for i, index := range order {
		if index == "small" {
			last = i
		}
	}
	// Half of the places are reserved for it; what the server had handed out or read ahead before is given away.
	assert.True(t, last <= large/2,
		"the last of the %d tasks of the small index was done as number %d of %d", small, last+1, large+small)
	t.Logf("done by task %d", last+1)
}

// waiting waits until so many activities of a workflow wait for a worker.
func waiting(ctx context.Context, t *testing.T, c client.Client, id string, want int) {
	t.Helper()
	for {
		described := must(c.DescribeWorkflowExecution(ctx, id, ""))(t)
		if len(described.GetPendingActivities()) == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d activities of %s wait, want %d", len(described.GetPendingActivities()), id, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
