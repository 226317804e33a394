package engine

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// Describer is a client of Temporal, as far as Standing needs one.
type Describer interface {
	DescribeWorkflowExecution(
		ctx context.Context, workflow, run string,
	) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// DescribeRun returns what an engine knows about a run of a workflow; an empty run is the last one.
func DescribeRun(ctx context.Context, client Describer, of config.Engine, holder run.Holder) (run.Standing, error) {
	response, err := client.DescribeWorkflowExecution(ctx, holder.Workflow, holder.Run)
	if unknown := new(serviceerror.NotFound); errors.As(err, &unknown) {
		return run.StandingUnknown, nil
	}
	if err != nil {
		return run.StandingUnknown, ToFault(err, of)
	}
	if response.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return run.StandingOpen, nil
	}
	return run.StandingClosed, nil
}
