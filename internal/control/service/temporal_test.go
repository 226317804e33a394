package service_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/workflows"
)

// fakeTemporal is the client of a Temporal in memory: executions by workflow id, updates that answer as configured.
type fakeTemporal struct {
	Mu sync.Mutex // of what ends meanwhile

	Executions map[string]enums.WorkflowExecutionStatus
	Runs       map[string]int  // how often each was started
	Hidden     map[string]bool // visibility does not show them yet
	NoPrefix   bool            // visibility knows no STARTS_WITH
	Down       error           // of every call
	Refuses    error           // to begin anything
	Pollers    int
	Computers  int    // pollers of the queue of what fills a core
	Kind       string // type of every run; empty: a build
	Says       string // by an update that is obeyed
	Answer     func(ctx context.Context, update client.UpdateWorkflowOptions) error

	Started   []client.StartWorkflowOptions
	Inputs    []any
	Updates   []client.UpdateWorkflowOptions
	Cancelled []string
	Queries   []string
}

// ScheduleClient returns the client of a server without any schedule, and GetWorkflow that of none: schedules are
// tested on real ones.
func (f *fakeTemporal) ScheduleClient() client.ScheduleClient { return noSchedules{} }

type noSchedules struct{ client.ScheduleClient }

func (noSchedules) GetHandle(context.Context, string) client.ScheduleHandle { return noSchedule{} }

type noSchedule struct{ client.ScheduleHandle }

func (noSchedule) Describe(context.Context) (*client.ScheduleDescription, error) {
	return nil, serviceerror.NewNotFound("schedule not found")
}
func (noSchedule) Delete(context.Context) error {
	return serviceerror.NewNotFound("schedule not found")
}

// GetWorkflow implements client.Client: nothing waits for a result.
func (f *fakeTemporal) GetWorkflow(context.Context, string, string) client.WorkflowRun { return nil }

// ExecuteWorkflow implements client.Client.
func (f *fakeTemporal) ExecuteWorkflow(
	_ context.Context, options client.StartWorkflowOptions, _ any, args ...any,
) (client.WorkflowRun, error) {
	if err := cmp.Or(f.Down, f.Refuses); err != nil {
		return nil, err
	}
	if f.Executions[options.ID] == running && options.WorkflowExecutionErrorWhenAlreadyStarted {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "")
	}
	if f.Executions[options.ID] != running {
		f.Runs[options.ID]++
	}
	f.Executions[options.ID] = running
	f.Started = append(f.Started, options)
	f.Inputs = append(f.Inputs, args...)
	return startedRun{id: f.runID(options.ID)}, nil
}

type startedRun struct {
	client.WorkflowRun
	id string
}

func (s startedRun) GetRunID() string { return s.id }

func (f *fakeTemporal) runID(id string) string { return fmt.Sprint("r", f.Runs[id]) }

type answered struct {
	client.WorkflowUpdateHandle
	err  error
	says string // JSON; empty: nothing, as an earlier worker
}

func (a answered) Get(_ context.Context, into any) error {
	if a.err != nil || into == nil || a.says == "" {
		return a.err
	}
	return json.Unmarshal([]byte(a.says), into)
}

// UpdateWorkflow implements client.Client.
func (f *fakeTemporal) UpdateWorkflow(
	ctx context.Context, update client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	f.Updates = append(f.Updates, update)
	switch {
	case f.Down != nil:
		return nil, f.Down
	case f.Executions[update.WorkflowID] != running:
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	case f.Answer == nil:
		return answered{says: f.Says}, nil
	}
	return answered{err: f.Answer(ctx, update)}, nil
}

// CancelWorkflow implements client.Client.
func (f *fakeTemporal) CancelWorkflow(_ context.Context, id, _ string) error {
	f.Cancelled = append(f.Cancelled, id)
	if f.Executions[id] != running {
		return serviceerror.NewNotFound("workflow not found")
	}
	return f.Down
}

// DescribeWorkflowExecution implements client.Client.
func (f *fakeTemporal) DescribeWorkflowExecution(
	_ context.Context, id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.Mu.Lock()
	status, ok := f.Executions[id]
	f.Mu.Unlock()
	if f.Down != nil {
		return nil, f.Down
	}
	if !ok {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	info := &workflow.WorkflowExecutionInfo{
		Status: status, Execution: &common.WorkflowExecution{WorkflowId: id, RunId: f.runID(id)},
		Type: &common.WorkflowType{Name: cmp.Or(f.Kind, workflows.BuildIndexName)}, TaskQueue: "unweaver",
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

// ListWorkflow implements client.Client: by the beginning of an id.
func (f *fakeTemporal) ListWorkflow(
	_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.Queries = append(f.Queries, request.GetQuery())
	if f.Down != nil {
		return nil, f.Down
	}
	_, prefix, has := strings.Cut(request.GetQuery(), "STARTS_WITH '")
	if has && f.NoPrefix {
		return nil, serviceerror.NewInvalidArgument("operator 'starts with' is not supported")
	}
	prefix = strings.TrimSuffix(prefix, "'")
	var ids []string
	for id, status := range f.Executions {
		if status == running && !f.Hidden[id] && strings.HasPrefix(id, "build/") && strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	from := 0
	if token := request.GetNextPageToken(); token != nil {
		_, _ = fmt.Sscan(string(token), &from)
	}
	to := min(len(ids), from+int(request.GetPageSize()))
	response := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range ids[from:to] {
		execution := &workflow.WorkflowExecutionInfo{Execution: &common.WorkflowExecution{WorkflowId: id}}
		response.Executions = append(response.Executions, execution)
	}
	if to < len(ids) {
		response.NextPageToken = fmt.Append(nil, to)
	}
	return response, nil
}

// DescribeTaskQueue implements client.Client.
func (f *fakeTemporal) DescribeTaskQueue(
	_ context.Context, queue string, _ enums.TaskQueueType,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	if strings.HasSuffix(queue, "-cpu") {
		return &workflowservice.DescribeTaskQueueResponse{Pollers: make([]*taskqueue.PollerInfo, f.Computers)}, f.Down
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: make([]*taskqueue.PollerInfo, f.Pollers)}, f.Down
}

// CheckHealth implements client.Client.
func (f *fakeTemporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, f.Down
}
