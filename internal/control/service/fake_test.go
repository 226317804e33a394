package service_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/workflows"
)

const (
	running    = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	completed  = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	terminated = enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

// temporalFake is a Temporal in memory: executions by workflow id, updates that answer as configured.
type temporalFake struct {
	mu sync.Mutex // of what ends meanwhile

	executions map[string]enums.WorkflowExecutionStatus
	runs       map[string]int  // how often each was started
	hidden     map[string]bool // visibility does not show them yet
	noPrefix   bool            // visibility knows no STARTS_WITH
	down       error           // of every call
	refuses    error           // to begin anything
	pollers    int
	computers  int    // pollers of the queue of what fills a core
	kind       string // type of every run; empty: a build
	says       string // by an update that is obeyed
	answer     func(ctx context.Context, update client.UpdateWorkflowOptions) error

	started   []client.StartWorkflowOptions
	inputs    []any
	updates   []client.UpdateWorkflowOptions
	cancelled []string
	queries   []string
}

// ScheduleClient returns the client of a server without any schedule, and GetWorkflow that of none: schedules are
// tested on real ones.
func (f *temporalFake) ScheduleClient() client.ScheduleClient { return noSchedules{} }

type noSchedules struct{ client.ScheduleClient }

func (noSchedules) GetHandle(context.Context, string) client.ScheduleHandle { return noSchedule{} }

type noSchedule struct{ client.ScheduleHandle }

func (noSchedule) Describe(context.Context) (*client.ScheduleDescription, error) {
	return nil, serviceerror.NewNotFound("schedule not found")
}
func (noSchedule) Delete(context.Context) error {
	return serviceerror.NewNotFound("schedule not found")
}

func (f *temporalFake) GetWorkflow(context.Context, string, string) client.WorkflowRun { return nil }

func (f *temporalFake) ExecuteWorkflow(
	_ context.Context, options client.StartWorkflowOptions, _ any, args ...any,
) (client.WorkflowRun, error) {
	if err := cmp.Or(f.down, f.refuses); err != nil {
		return nil, err
	}
	if f.executions[options.ID] == running && options.WorkflowExecutionErrorWhenAlreadyStarted {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "", "")
	}
	if f.executions[options.ID] != running {
		f.runs[options.ID]++
	}
	f.executions[options.ID] = running
	f.started = append(f.started, options)
	f.inputs = append(f.inputs, args...)
	return startedRun{id: f.runID(options.ID)}, nil
}

type startedRun struct {
	client.WorkflowRun
	id string
}

func (s startedRun) GetRunID() string { return s.id }

func (f *temporalFake) runID(id string) string { return fmt.Sprint("r", f.runs[id]) }

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

func (f *temporalFake) UpdateWorkflow(
	ctx context.Context, update client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	f.updates = append(f.updates, update)
	switch {
	case f.down != nil:
		return nil, f.down
	case f.executions[update.WorkflowID] != running:
		return nil, serviceerror.NewNotFound("workflow execution already completed")
	case f.answer == nil:
		return answered{says: f.says}, nil
	}
	return answered{err: f.answer(ctx, update)}, nil
}

func (f *temporalFake) CancelWorkflow(_ context.Context, id, _ string) error {
	f.cancelled = append(f.cancelled, id)
	if f.executions[id] != running {
		return serviceerror.NewNotFound("workflow not found")
	}
	return f.down
}

func (f *temporalFake) DescribeWorkflowExecution(
	_ context.Context, id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.mu.Lock()
	status, ok := f.executions[id]
	f.mu.Unlock()
	if f.down != nil {
		return nil, f.down
	}
	if !ok {
		return nil, serviceerror.NewNotFound("workflow not found")
	}
	info := &workflow.WorkflowExecutionInfo{
		Status: status, Execution: &common.WorkflowExecution{WorkflowId: id, RunId: f.runID(id)},
		Type: &common.WorkflowType{Name: cmp.Or(f.kind, workflows.BuildIndexName)}, TaskQueue: "unweaver",
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

func (f *temporalFake) ListWorkflow(
	_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.queries = append(f.queries, request.GetQuery())
	if f.down != nil {
		return nil, f.down
	}
	_, prefix, has := strings.Cut(request.GetQuery(), "STARTS_WITH '")
	if has && f.noPrefix {
		return nil, serviceerror.NewInvalidArgument("operator 'starts with' is not supported")
	}
	prefix = strings.TrimSuffix(prefix, "'")
	var ids []string
	for id, status := range f.executions {
		if status == running && !f.hidden[id] && strings.HasPrefix(id, "build/") && strings.HasPrefix(id, prefix) {
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

func (f *temporalFake) DescribeTaskQueue(
	_ context.Context, queue string, _ enums.TaskQueueType,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	if strings.HasSuffix(queue, "-cpu") {
		return &workflowservice.DescribeTaskQueueResponse{Pollers: make([]*taskqueue.PollerInfo, f.computers)}, f.down
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: make([]*taskqueue.PollerInfo, f.pollers)}, f.down
}

func (f *temporalFake) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, f.down
}

// faulty is a coordination store some of whose sources fail.
type faulty struct {
	coordination.Store
	state, progress error
}

// deaf is a record store that may not answer.
type deaf struct {
	records.Store
	ping error
}

func (f *faulty) ReadState(ctx context.Context, run string) ([]byte, error) {
	if f.state != nil {
		return nil, f.state
	}
	return f.Store.ReadState(ctx, run)
}

func (f *faulty) ReadAccounts(ctx context.Context, run string) (map[string][]byte, error) {
	if f.progress != nil {
		return nil, f.progress
	}
	return f.Store.ReadAccounts(ctx, run)
}

func (d *deaf) Ping(ctx context.Context) error {
	if d.ping != nil {
		return d.ping
	}
	return d.Store.Ping(ctx)
}

// bench is a service over stores of its own and a Temporal in memory.
type bench struct {
	*service.Service
	t        *testing.T
	temporal *temporalFake
	classes  *faulty
	records  *deaf
	art      artifact.Index // of index docs
}

// PauseRun and Cancel are those of the service without their answer.
func (b *bench) PauseRun(ctx context.Context, run string) error {
	_, err := b.Service.PauseRun(ctx, run)
	return err
}
func (b *bench) CancelRun(ctx context.Context, run string) error {
	_, err := b.Service.CancelRun(ctx, run)
	return err
}

func newBench(t *testing.T) *bench {
	root := t.TempDir()
	artifacts := musttest.Get(dir.Open(filepath.Join(root, "artifacts")))(t)
	musttest.Get(artifact.OpenStoreID(t.Context(), artifacts))(t)
	vectors := musttest.Get(files.Open(filepath.Join(root, "vectors")))(t)
	store, kept := &faulty{Store: memory.New()}, &deaf{Store: recordsmemory.New()}
	stores := &app.Stores{Artifacts: artifacts, Records: kept, Coordination: store, Vectors: vectors}
	t.Cleanup(func() { _ = stores.Close() })
	fake := &temporalFake{
		executions: map[string]enums.WorkflowExecutionStatus{}, hidden: map[string]bool{}, runs: map[string]int{},
		pollers: 1, computers: 1,
	}
	own := config.Default()
	own.Models.Endpoints = []config.Endpoint{
		{APIKeyEnv: "OPS_TEST_UNSET"}, {BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "OPS_TEST_KEY"},
	}
	require.NoError(t, stores.LoadGrants(filepath.Join(root, "roots.json")))
	svc := &service.Service{
		Client: fake, Engine: config.Engine{Address: "127.0.0.1:7233", Namespace: "default", TaskQueue: "unweaver"},
		Stores: stores, Models: app.NewModels(store, own), Heartbeat: time.Minute, Grant: stores.GrantCorpora,
	}
	return &bench{svc, t, fake, store, kept, artifact.Index{Store: artifacts, Name: "docs"}}
}

func (b *bench) must(err error) { require.NoError(b.t, err) }

func (b *bench) setState(run string, state core.RunState) {
	state.Report.Run = run
	state.Report.Index, state.Report.Generation, _ = strings.Cut(run, "/")
	b.must(b.Stores.Coordination.SetState(b.t.Context(), run, encode(b.t, state)))
}

func (b *bench) writeReport(generation, status string) {
	report := core.Report{Index: "docs", Generation: generation, Run: "docs/" + generation, Status: status}
	musttest.Get(blob.WriteJSON(b.t.Context(), b.art.Store, b.art.GenerationKey(generation, "report.json"), report,
		blob.Cond{}))(b.t)
}

func (b *bench) write(key, content string) {
	musttest.Get(blob.Write(b.t.Context(), b.art.Store, key, []byte(content), blob.Cond{}))(b.t)
}

func (b *bench) spec(index string) core.Spec {
	return core.Spec{
		Index: index, Corpus: b.t.TempDir(), Chat: core.ChatModel{Provider: "builtin"},
		Embedding: core.EmbedModel{Provider: "builtin"},
	}
}

var errDown = errors.New("connection refused")

type readOnly struct{ blob.Store }

func (r readOnly) Put(context.Context, string, io.Reader, int64, blob.Cond) (blob.Info, error) {
	return blob.Info{}, fault.StoreDenied.At("write", "bucket").Because("read only").Advise("check the credentials")
}

var errNoRight = fault.StoreDenied.At("ask", "bucket").Because("no such right")

type unlisted struct{ blob.Store }

func (u unlisted) List(context.Context, string, string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, errNoRight) }
}

type undeleted struct{ blob.Store }

func (u undeleted) DeleteAll(context.Context, []string) error { return errNoRight }

type unconditional struct{ blob.Store }

func (u unconditional) Put(ctx context.Context, key string, r io.Reader, n int64, _ blob.Cond) (blob.Info, error) {
	return u.Store.Put(ctx, key, r, n, blob.Cond{})
}
