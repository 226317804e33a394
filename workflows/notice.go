package workflows

import (
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"
)

// Ended answers EndBuild, EndRestore and EndAudit.
type Ended struct {
	Notify bool `json:"notify,omitempty"` // a webhook is to be called
}

// Notice is the input of Notify and of SendNotice.
type Notice struct {
	Build
	ID     string    `json:"id"` // the same in every attempt
	RunID  string    `json:"run_id"`
	Status string    `json:"status"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// longestNotice is for how long a webhook that does not answer is asked again.
const longestNotice = 24 * time.Hour

// Notify calls a webhook in a separate workflow: a receiver that is down holds up no run.
func Notify(ctx workflow.Context, in Notice) error {
	return executeActivity(withNotice(ctx), SendNotice, in, nil)
}

// withNotice returns a context for posting to a webhook: each attempt is short, the patience long.
func withNotice(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    30 * time.Second,
		ScheduleToCloseTimeout: longestNotice,
		WaitForCancellation:    true,
		RetryPolicy:            newRetryPolicy(10*time.Minute, 0),
	})
}

// recordEnd records how a run ends or that it pauses, and calls the webhook where there is one. The run does not wait
// for that, nor does it fail by it.
func (r *run) recordEnd(ctx workflow.Context, end End) error {
	var ended Ended
	if err := executeActivity(withRecord(ctx, r.Build), r.endActivity, end, &ended); err != nil {
		return err
	}
	if !ended.Notify {
		return nil
	}
	r.notices++
	runID := workflow.GetInfo(ctx).WorkflowExecution.RunID
	id := fmt.Sprintf("notice/%s/%s/%s-%d", r.Index, r.Generation, runID, r.notices)
	detached := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               id,
		WorkflowExecutionTimeout: longestNotice + time.Hour,
		ParentClosePolicy:        enums.PARENT_CLOSE_POLICY_ABANDON,
	})
	notice := Notice{
		Build: r.Build, ID: fmt.Sprintf("%s-%d", runID, r.notices), RunID: runID,
		Status: end.Status, Reason: end.Reason, At: workflow.Now(ctx).UTC(),
	}
	begun := workflow.ExecuteChildWorkflow(detached, NotifyName, notice).GetChildWorkflowExecution()
	var execution workflow.Execution
	if err := begun.Get(ctx, &execution); err != nil && ctx.Err() == nil {
		workflow.GetLogger(ctx).Warn("notice not begun", "index", r.Index, "generation", r.Generation)
	}
	return nil
}
