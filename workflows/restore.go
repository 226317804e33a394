package workflows

import "go.temporal.io/sdk/workflow"

// Restored is what OpenRestore found to do.
type Restored struct {
	Build
	Parts int `json:"parts"`
}

// Restore loads what the kept generations of an index name into Redis and Milvus again, the current one first, with no
// model call.
func Restore(ctx workflow.Context, in Build) (Outcome, error) {
	var restored Restored
	if err := workflow.ExecuteActivity(quick(ctx), OpenRestore, in).Get(ctx, &restored); err != nil {
		return Outcome{}, err
	}
	stage := StageInput{
		Build:    restored.Build,
		Stage:    "restore",
		Activity: RestorePart,
		Units:    restored.Parts,
		Window:   4,
	}
	err := workflow.ExecuteChildWorkflow(child(ctx, workflow.GetInfo(ctx).WorkflowExecution.ID+"/parts"), StageName, stage).
		Get(ctx, nil)
	end := End{Build: restored.Build, Status: "completed"}
	if err != nil {
		end.Status = "failed"
		end.Reason, end.Ref = failure(err)
	}
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := workflow.ExecuteActivity(quick(dctx), EndRestore, end).Get(dctx, nil); err != nil {
		return Outcome{}, err
	}
	return Outcome{Status: end.Status, Reason: end.Reason}, nil
}
