package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Register puts every workflow on a worker, under its constant name. On a worker with a deployment version each run
// stays with the version that began it; on any other the behaviour has no effect.
func Register(registry worker.WorkflowRegistry) {
	for _, entry := range []struct {
		name     string
		function any
	}{
		{BuildIndexName, BuildIndex},
		{StageName, Stage},
		{ShardName, ExtractShard},
		{RestoreName, Restore},
		{AuditName, Audit},
		{NotifyName, Notify},
		{NightlyName, Nightly},
		{BackfillName, Backfill},
	} {
		registry.RegisterWorkflowWithOptions(entry.function, workflow.RegisterOptions{
			Name:               entry.name,
			VersioningBehavior: workflow.VersioningBehaviorPinned,
		})
	}
}
