package workflows

import "go.temporal.io/sdk/workflow"

// Audit compares part of the served generation of an index with what it was made of and with what the stores hold. It
// takes no lease and the commands of a build, and fails where something has drifted and was not mended.
func Audit(ctx workflow.Context, in Audited) (Outcome, error) {
	r := &run{Build: in.Build, endActivity: EndAudit}
	return r.executeRun(ctx, func(ctx workflow.Context) (End, error) {
		var opened Restored
		if err := r.runPausable(ctx, "open", func(ctx workflow.Context) error {
			in.Build = r.Build
			return r.runActivity(ctx, OpenAudit, 0, in, &opened)
		}); err != nil {
			return End{}, err
		}
		r.Fence = opened.Fence
		err := r.runPausable(ctx, "audit", func(ctx workflow.Context) error {
			return r.runUnits(ctx, workflow.GetInfo(ctx).WorkflowExecution.ID+"/parts", StageInput{
				Build:    r.Build,
				Stage:    "audit",
				Activity: AuditPart,
				Units:    opened.Parts,
				Items:    int64(r.Shape.ShardChunks),
			})
		})
		if err == nil {
			err = r.runPausable(ctx, "seal", func(ctx workflow.Context) error {
				return r.runActivity(ctx, SealAudit, 0, r.Build, nil)
			})
		}
		return End{Status: statusCompleted}, err
	})
}
