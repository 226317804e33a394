package workflows

import (
	"errors"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// quick is for short activities that touch a few small objects.
func quick(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 5 * time.Minute,
		HeartbeatTimeout:    0,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    time.Second,
			BackoffCoefficient: 2,
			MaximumInterval:    30 * time.Second,
		},
	})
}

// long is for batch activities: they heartbeat, so that a dead worker's work moves on, and may be repeated at any
// time. The activity itself decides when a failure stops being worth a retry.
func long(ctx workflow.Context, b Build) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 12 * time.Hour,
		HeartbeatTimeout:    b.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    time.Second,
			BackoffCoefficient: 2,
			MaximumInterval:    30 * time.Second,
		},
	})
}

// child is for stages and shards: their ids are the build's, and they end with it.
func child(ctx workflow.Context, id string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          id,
		WaitForCancellation: true,
		ParentClosePolicy:   enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	})
}

// Codes that pause a build: a person can mend the cause, and resume costs nothing that was paid.
var pausing = map[string]bool{
	"paused":             true,
	"model_auth":         true,
	"model_quota":        true,
	"model_unknown":      true,
	"model_unavailable":  true,
	"model_rate_limited": true,
	"bad_config":         true,
	"store_full":         true,
	"store_unavailable":  true,
	"store_denied":       true,
	"budget_spent":       true,
	"not_recorded":       true,
	"dimension_changed":  true,
	"bad_vector":         true, "bad_embeddings": true,
}

// failure gives the code and the reference of the first activity error in err's chain.
func failure(err error) (code, ref string) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		if app.HasDetails() {
			_ = app.Details(&ref) // an error without a reference has its code
		}
		return app.Type(), ref
	}
	if temporal.IsCanceledError(err) {
		return "cancelled", ""
	}
	return "internal", ""
}
