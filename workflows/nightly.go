package workflows

import (
	"strings"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// ScheduleID returns the id of the schedule of an index; a workflow that it starts has it too, and the time it was due
// at.
func ScheduleID(index string) string { return "unweaver/" + index }

// Night is the input of Nightly. What is built, the index's schedule.json says when a night begins.
type Night struct {
	Build
	Skip   bool    `json:"skip,omitempty"` // where another run builds the index nothing is done, and that is reported
	Level  int     `json:"level,omitempty"`
	Weight float32 `json:"weight,omitempty"`
}

// Opened is what OpenNight found: the build to begin, or the run in whose favour none is.
type Opened struct {
	Build
	By string `json:"by,omitempty"`
}

// NightOutcome is the result of Nightly.
type NightOutcome struct {
	Run    string `json:"run,omitempty"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"` // of a night that was skipped: the run that builds the index
}

const (
	statusSkipped = "skipped"
	// ReasonRunning is why a night is skipped.
	ReasonRunning = "another_run"
)

// Nightly runs what a schedule starts: a build of the index as its configuration was applied last. A build that fails
// fails it, so that a schedule may pause on that.
func Nightly(ctx workflow.Context, in Night) (NightOutcome, error) {
	in.Generation = strings.ToLower(workflow.Now(ctx).UTC().Format("20060102T150405Z"))
	in.Shape = in.Shape.WithDefaults()
	if in.Heartbeat <= 0 {
		in.Heartbeat = DefaultHeartbeat
	}
	run := in.Index + "/" + in.Generation
	if err := workflow.UpsertMemo(ctx, map[string]any{"index": in.Index, "generation": in.Generation}); err != nil {
		return NightOutcome{}, err
	}
	var opened Opened
	if err := executeActivity(withQuick(ctx, in.Build), OpenNight, in, &opened); err != nil {
		return NightOutcome{}, failedNight(ctx, err)
	}
	if opened.By != "" {
		return NightOutcome{Status: statusSkipped, Reason: ReasonRunning, By: opened.By}, nil
	}
	building := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          BuildID(opened.Index, opened.Generation),
		WaitForCancellation: true,
		ParentClosePolicy:   enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		Priority:            temporal.Priority{PriorityKey: in.Level, FairnessKey: in.Index, FairnessWeight: in.Weight},
	})
	var out Outcome
	if err := workflow.ExecuteChildWorkflow(building, BuildIndexName, opened.Build).Get(ctx, &out); err != nil {
		return NightOutcome{Run: run}, failedNight(ctx, err)
	}
	if out.Status == statusFailed {
		return NightOutcome{}, temporal.NewNonRetryableApplicationError(out.Reason, out.Reason, nil, run)
	}
	return NightOutcome{Run: run, Status: out.Status, Reason: out.Reason}, nil
}

// failedNight returns the error of a night whose code alone is reported; a night that was cancelled is cancelled.
func failedNight(ctx workflow.Context, err error) error {
	if ctx.Err() != nil || temporal.IsCanceledError(err) {
		return temporal.NewCanceledError()
	}
	why := causeOf(err)
	return temporal.NewNonRetryableApplicationError(why.code, why.code, nil, why.ref)
}
