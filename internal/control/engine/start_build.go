package engine

import (
	"context"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/workflows"
)

// Starter is a client of Temporal, as far as StartBuild needs one.
type Starter interface {
	ExecuteWorkflow(
		ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any,
	) (client.WorkflowRun, error)
}

// NewPriority returns the part of the workers that a run has: its index is what fairness goes by. Stages, shards and
// activities have it from the run. Keys of fairness have at most 64 bytes, names of indexes 63.
func NewPriority(index string, level int, weight float64) temporal.Priority {
	return temporal.Priority{PriorityKey: level, FairnessKey: index, FairnessWeight: float32(weight)}
}

// StartBuild starts the run of a build on a task queue, or finds the one that already runs under its name.
func StartBuild(
	ctx context.Context, engine Starter, queue string, priority temporal.Priority,
	reuse enums.WorkflowIdReusePolicy, build workflows.Build,
) (client.WorkflowRun, error) {
	return engine.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflows.BuildID(build.Index, build.Generation),
		TaskQueue:                queue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    reuse,
		Priority:                 priority,
	}, workflows.BuildIndexName, build)
}
