package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register puts every workflow on a worker, under its constant name.
func Register(registry worker.WorkflowRegistry) {
	registry.RegisterWorkflowWithOptions(BuildIndex, workflow.RegisterOptions{Name: BuildIndexName})
	registry.RegisterWorkflowWithOptions(Stage, workflow.RegisterOptions{Name: StageName})
	registry.RegisterWorkflowWithOptions(ExtractShard, workflow.RegisterOptions{Name: ShardName})
	registry.RegisterWorkflowWithOptions(Restore, workflow.RegisterOptions{Name: RestoreName})
}
