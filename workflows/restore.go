package workflows

import "go.temporal.io/sdk/workflow"

// Restore loads what the kept generations of an index name into the class and vector stores again, the current one
// first, with no model call. It takes the commands of a build.
func Restore(ctx workflow.Context, in Build) (Outcome, error) {
	r := &run{Build: in, endActivity: EndRestore}
	return r.executeRun(ctx, func(ctx workflow.Context) (End, error) {
		var restored Restored
		if err := r.runPausable(ctx, "open", func(ctx workflow.Context) error {
			return executeActivity(withQuick(ctx, r.Build), OpenRestore, r.Build, &restored)
		}); err != nil {
			return End{}, err
		}
		r.Fence = restored.Fence
		err := r.runPausable(ctx, "restore", func(ctx workflow.Context) error {
			return r.runUnits(ctx, workflow.GetInfo(ctx).WorkflowExecution.ID+"/parts", StageInput{
				Build:    r.Build,
				Stage:    "restore",
				Activity: RestorePart,
				Units:    restored.Parts,
				Items:    int64(r.Shape.ShardChunks),
			})
		})
		if err == nil {
			err = r.runPausable(ctx, "seal", func(ctx workflow.Context) error {
				return r.runActivity(ctx, SealRestore, 1, r.Build, nil)
			})
		}
		return End{Status: statusCompleted}, err
	})
}
