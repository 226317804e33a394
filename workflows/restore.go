package workflows

import "go.temporal.io/sdk/workflow"

// Restore loads what the kept generations of an index name into the class and vector stores again, the current one
// first, with no model call. It takes the commands of a build.
func Restore(ctx workflow.Context, in Build) (Outcome, error) {
	r := &run{Build: in, endActivity: EndRestore}
	return r.executeParts(ctx, "restore", RestorePart, SealRestore, func(ctx workflow.Context, opened *Restored) error {
		return executeActivity(withQuick(ctx, r.Build), OpenRestore, r.Build, opened)
	})
}

// executeParts opens a restore or an audit, does its parts and seals it.
func (r *run) executeParts(
	ctx workflow.Context, stage, part, seal string, open func(workflow.Context, *Restored) error,
) (Outcome, error) {
	return r.executeRun(ctx, func(ctx workflow.Context) (End, error) {
		var opened Restored
		if err := r.runPausable(ctx, "open", func(ctx workflow.Context) error { return open(ctx, &opened) }); err != nil {
			return End{}, err
		}
		r.Fence = opened.Fence
		err := r.runPausable(ctx, stage, func(ctx workflow.Context) error {
			return r.runUnits(ctx, workflow.GetInfo(ctx).WorkflowExecution.ID+"/parts", StageInput{
				Build: r.Build, Stage: stage, Activity: part, Units: opened.Parts, Items: int64(r.Shape.ShardChunks),
			})
		})
		if err == nil {
			err = r.runPausable(ctx, "seal", func(ctx workflow.Context) error {
				return r.runActivity(ctx, seal, 0, r.Build, nil)
			})
		}
		return End{Status: statusCompleted}, err
	})
}

// Audit compares part of the served generation of an index with what it was made of and with what the stores hold. It
// takes no lease and the commands of a build, and fails where something has drifted and was not mended.
func Audit(ctx workflow.Context, in Audited) (Outcome, error) {
	r := &run{Build: in.Build, endActivity: EndAudit}
	return r.executeParts(ctx, "audit", AuditPart, SealAudit, func(ctx workflow.Context, opened *Restored) error {
		in.Build = r.Build
		return r.runActivity(ctx, OpenAudit, 0, in, opened)
	})
}
