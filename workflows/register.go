package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register puts every workflow on a worker, under its constant name.
func Register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(BuildIndex, workflow.RegisterOptions{Name: BuildIndexName})
	r.RegisterWorkflowWithOptions(Stage, workflow.RegisterOptions{Name: StageName})
	r.RegisterWorkflowWithOptions(ExtractShard, workflow.RegisterOptions{Name: ShardName})
	r.RegisterWorkflowWithOptions(Restore, workflow.RegisterOptions{Name: RestoreName})
}
