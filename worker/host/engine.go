package host

import (
	"context"
	"log/slog"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/workflows"
	"github.com/unweaver/unweaver/workflows/visibility"
)

// Engine looks up workflow runs for activities.
type Engine struct {
	Client client.Client
	Place  config.Engine
}

var _ activities.Engine = Engine{}

// Identity implements activities.Engine.
func (e Engine) Identity(ctx context.Context) (core.Engine, error) {
	return engine.Identity(ctx, e.Client.WorkflowService(), e.Place)
}

// DescribeRun implements activities.Engine.
func (e Engine) DescribeRun(ctx context.Context, holder run.Holder) (run.Standing, error) {
	return engine.DescribeRun(ctx, e.Client, e.Place, holder)
}

// Cancel implements activities.Engine.
func (e Engine) Cancel(ctx context.Context, holder run.Holder) error {
	err := e.Client.CancelWorkflow(ctx, holder.Workflow, holder.Run)
	if err == nil || engine.Is[*serviceerror.NotFound](err) {
		return nil
	}
	return engine.ToFault(err, e.Place)
}

// Register makes the search attributes of runs known to the namespace, and reports whether it has them. A server that
// does not let us is no error: runs are then started without them, and cannot be searched by stage and status.
func Register(ctx context.Context, client client.Client, namespace string, log *slog.Logger) bool {
	operator := client.OperatorService()
	err := visibility.Register(ctx, operator, namespace)
	if err == nil {
		return true
	}
	if known, listErr := visibility.IsRegistered(ctx, operator, namespace); listErr == nil && known {
		return true // a person with the right added them
	}
	log.Warn("search attributes are not registered: runs cannot be searched by stage and status",
		"namespace", namespace, "error", err.Error())
	return false
}

// RequirePoller returns an error where no worker asks for the activities that one of a role takes from the task queue.
func RequirePoller(ctx context.Context, client client.Client, queue string, role Role) error {
	if role == RoleCPU {
		queue = workflows.ComputingQueue(queue)
	}
	response, err := client.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return err
	}
	if len(response.GetPollers()) == 0 {
		return fault.EngineDown.At("probe task queue", queue).Because("no worker polls the task queue")
	}
	return nil
}
