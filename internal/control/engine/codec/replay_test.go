package codec_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/command/v1"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// command has a workflow of somebody without the key, on a task queue of their own, do what they say. It returns its
// run.
func (i installation) command(t *testing.T, id string, commands ...*command.Command) string {
	t.Helper()
	service, queue := i.other.WorkflowService(), &taskqueue.TaskQueue{Name: "mine-" + uuid.NewString()}
	started, err := service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowId: id, RequestId: uuid.NewString(), TaskQueue: queue,
		WorkflowType: &common.WorkflowType{Name: "Mine"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	task, err := service.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: client.DefaultNamespace, TaskQueue: queue,
	})
	if err == nil {
		_, err = service.RespondWorkflowTaskCompleted(t.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
			Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Commands: commands,
		})
	}
	require.NoError(t, err)
	return started.GetRunId()
}

// startsOf returns how runs of a workflow were started, as anybody with the port can read it.
func (i installation) startsOf(
	t *testing.T, id string, runs ...string,
) (out []*workflowservice.StartWorkflowExecutionRequest) {
	t.Helper()
	for _, run := range runs {
		first, err := i.other.GetWorkflowHistory(t.Context(), id, run, false,
			enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
		require.NoError(t, err)
		started := first.GetWorkflowExecutionStartedEventAttributes()
		out = append(out, &workflowservice.StartWorkflowExecutionRequest{
			WorkflowType: started.GetWorkflowType(), TaskQueue: started.GetTaskQueue(), Input: started.GetInput(),
			Header: started.GetHeader(),
		})
	}
	return out
}

// Promises: 133.
func TestARecordedChildIsStartedNoMoreByOthers(t *testing.T) {
	in := install(t)
	id := "build/" + in.queue
	in.start(t, id, input{Text: secret})
	t.Cleanup(func() { _ = in.owner.TerminateWorkflow(context.WithoutCancel(t.Context()), id, "", "over") })
	stage := id + "/stage"
	var began, went string
	for begun := time.Now(); began == "" || went == began; time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Since(begun) <= time.Minute, "the stage does not go on")
		if described, err := in.other.DescribeWorkflowExecution(t.Context(), stage, ""); err == nil {
			info := described.GetWorkflowExecutionInfo()
			began, went = info.GetFirstRunId(), info.GetExecution().GetRunId()
		}
	}
	var result string
	require.NoError(t, ended(t, in.owner, stage, went, &result))
	for n, recorded := range in.startsOf(t, stage, began, went) {
		// A parent of its own starts the child again, and a workflow of the child's name continues as it.
		for name, again := range map[string]func() string{
			"child": func() string {
				in.command(t, "mine/"+uuid.NewString(), &command.Command{
					CommandType: enums.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
					Attributes: &command.Command_StartChildWorkflowExecutionCommandAttributes{
						StartChildWorkflowExecutionCommandAttributes: &command.StartChildWorkflowExecutionCommandAttributes{
							WorkflowId: stage, WorkflowType: recorded.GetWorkflowType(), TaskQueue: recorded.GetTaskQueue(),
							Input: recorded.GetInput(), Header: recorded.GetHeader(),
						},
					},
				})
				return ""
			},
			"continued": func() string {
				return in.command(t, stage, &command.Command{
					CommandType: enums.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
					Attributes: &command.Command_ContinueAsNewWorkflowExecutionCommandAttributes{
						ContinueAsNewWorkflowExecutionCommandAttributes: &command.ContinueAsNewWorkflowExecutionCommandAttributes{
							WorkflowType: recorded.GetWorkflowType(), TaskQueue: recorded.GetTaskQueue(),
							Input: recorded.GetInput(), Header: recorded.GetHeader(),
						},
					},
				})
			},
		} {
			latest := in.latest(t, stage)
			mine := again()
			in.refusedAfter(t, stage, []string{latest, mine}, fmt.Sprintf("start %d of the stage, as %s", n, name))
		}
	}
}

func (i installation) latest(t *testing.T, id string) string {
	t.Helper()
	described, err := i.other.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	return described.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// refusedAfter waits for the run of a workflow that follows others, which has to be refused.
func (i installation) refusedAfter(t *testing.T, id string, before []string, name string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			_ = i.owner.TerminateWorkflow(context.WithoutCancel(t.Context()), id, "", "over")
			t.Errorf("%s: it was not refused", name)
			return
		}
		described, err := i.other.DescribeWorkflowExecution(t.Context(), id, "")
		require.NoError(t, err)
		info := described.GetWorkflowExecutionInfo()
		run := info.GetExecution().GetRunId()
		if slices.Contains(before, run) || info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			continue
		}
		var result string
		err = ended(t, i.owner, id, run, &result)
		assert.True(t, err != nil && strings.Contains(err.Error(), "refused: its seal is of"),
			"%s: it ran: %q, %v", name, result, err)
		return
	}
}
