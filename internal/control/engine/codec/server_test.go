package codec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/command/v1"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/query/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// secret stands in everything that the runs of these tests exchange.
const secret = "Alfred Nobel"

type input struct {
	Text  string `json:"text"`
	Round int    `json:"round"`
}

// Runs counts what ran.
type Runs struct{ published, fails atomic.Int32 }

// Publish runs the activity of the runs.
func (r *Runs) Publish(_ context.Context, in input) (string, error) {
	r.published.Add(1)
	if in.Text == "fail" {
		r.fails.Add(1)
		return "", temporal.NewNonRetryableApplicationError("about "+secret, "store_full", nil, secret)
	}
	return in.Text + " published", nil
}

// build runs an activity and a child, and then waits for its end: the signal "end" or the update "stop".
func build(ctx workflow.Context, in input) (string, error) {
	if err := workflow.UpsertMemo(ctx, map[string]any{"text": secret}); err != nil {
		return "", err
	}
	said, stop := "", false
	quick := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for name, handler := range map[string]any{
		"pause": func(workflow.Context) (string, error) { return "paused " + secret, nil }, // has no input
		"stop":  func(_ workflow.Context, in input) error { stop, said = true, in.Text; return nil },
	} {
		if err := workflow.SetUpdateHandler(ctx, name, handler); err != nil {
			return "", err
		}
	}
	state := func() (string, error) { return "building " + secret, nil }
	if err := workflow.SetQueryHandler(ctx, "state", state); err != nil {
		return "", err
	}
	var made, below string
	if err := workflow.ExecuteActivity(quick, "Publish", in).Get(ctx, &made); err != nil {
		return "", err
	}
	child := workflow.WithChildOptions(ctx,
		workflow.ChildWorkflowOptions{WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID + "/stage"})
	stage := workflow.ExecuteChildWorkflow(child, "Stage", input{Text: in.Text})
	if err := stage.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return "", err
	}
	if err := stage.SignalChildWorkflow(ctx, "drain", secret).Get(ctx, nil); err != nil {
		return "", err
	}
	if err := stage.Get(ctx, &below); err != nil {
		return "", err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		for signals := workflow.GetSignalChannel(ctx, "end"); !stop; stop = true {
			signals.Receive(ctx, &said)
		}
	})
	if err := workflow.Await(ctx, func() bool { return stop }); err != nil {
		return "", err
	}
	return made + ", " + below + ", " + said, nil
}

func stage(ctx workflow.Context, in input) (string, error) {
	if in.Round > 0 {
		return in.Text + " staged", nil
	}
	var drain string
	workflow.GetSignalChannel(ctx, "drain").Receive(ctx, &drain)
	return "", workflow.NewContinueAsNewError(ctx, "Stage", input{Text: in.Text + " " + drain, Round: 1})
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(raw []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(raw)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// installation is a worker with a key on a real server, a client of the owner, and one of somebody with the port alone.
type installation struct {
	owner, other client.Client
	runs         *Runs
	log          *lines
	queue        string
}

func install(t *testing.T) installation {
	t.Helper()
	address := os.Getenv("UNWEAVER_TEST_TEMPORAL")
	if address == "" {
		t.Skip("no real Temporal is here: UNWEAVER_TEST_TEMPORAL=host:port (make servers)")
	}
	in := installation{runs: &Runs{}, log: &lines{}, queue: "codec-" + uuid.NewString()}
	_, _, key := made(t)
	log := slog.New(slog.NewTextHandler(in.log, nil))
	options := client.Options{HostPort: address, Logger: engine.Logger(log)}
	in.other = dial(t, options)
	codec.Apply(&options, key, log)
	in.owner = dial(t, options)
	running := worker.New(in.owner, in.queue, worker.Options{DisableRegistrationAliasing: true})
	running.RegisterWorkflowWithOptions(build, workflow.RegisterOptions{Name: "Build"})
	running.RegisterWorkflowWithOptions(stage, workflow.RegisterOptions{Name: "Stage"})
	running.RegisterActivity(in.runs)
	require.NoError(t, running.Start())
	t.Cleanup(running.Stop)
	return in
}

func dial(t *testing.T, options client.Options) client.Client {
	out := musttest.Get(client.DialContext(t.Context(), options))(t)
	t.Cleanup(out.Close)
	return out
}

func (i installation) start(t *testing.T, id string, in input) client.WorkflowRun {
	run := musttest.Get(i.owner.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: i.queue, Memo: map[string]any{"first": secret}, StaticSummary: secret,
	}, "Build", in))(t)
	return run
}

func ended(t *testing.T, by client.Client, id, run string, result any) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := by.GetWorkflow(ctx, id, run).Get(ctx, result)
	require.NoError(t, ctx.Err(), "workflow %s does not end", id)
	return err
}

// history returns everything that the server says of a workflow, as text.
func history(t *testing.T, by client.Client, id string) string {
	var out strings.Builder
	events := by.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		out.Write(musttest.Get(proto.Marshal(musttest.Get(events.Next())(t)))(t))
	}
	return out.String() + string(musttest.Get(proto.Marshal(musttest.Get(by.DescribeWorkflowExecution(t.Context(), id, ""))(t)))(t))
}

// Promises: 133.
func TestRunsWorkWithEncryptedPayloadsAndSayNothingToOthers(t *testing.T) {
	in := install(t)
	id := "build/" + in.queue
	run := in.start(t, id, input{Text: secret})
	handle, err := in.owner.UpdateWorkflow(t.Context(),
		client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: "pause", WaitForStage: client.WorkflowUpdateStageCompleted})
	var paused string
	if err == nil {
		err = handle.Get(t.Context(), &paused)
	}
	assert.True(t, err == nil && paused == "paused "+secret, "the owner's update: %q, %v", paused, err)
	var state string
	value := musttest.Get(in.owner.QueryWorkflow(t.Context(), id, "", "state"))(t)
	assert.True(t, value.Get(&state) == nil && state == "building "+secret, "the owner's query: %q", state)
	require.NoError(t, in.owner.SignalWorkflow(t.Context(), id, "", "end", "ended by "+secret))
	var result string
	want := secret + " published, " + secret + " " + secret + " staged, ended by " + secret
	err = run.Get(t.Context(), &result)
	assert.True(t, err == nil && result == want, "%q, %v", result, err)
	failing := in.start(t, id+"-failing", input{Text: "fail"})
	var failed *temporal.ApplicationError
	var detail string
	if err := failing.Get(t.Context(), &result); !errors.As(err, &failed) || failed.Type() != "store_full" ||
		!strings.Contains(err.Error(), "about "+secret) || failed.Details(&detail) != nil || detail != secret {
		t.Errorf("the owner learns not why a run failed: %v", err)
	}
	for _, seen := range []string{id, id + "/stage", id + "-failing"} {
		assert.False(t, strings.Contains(history(t, in.other, seen), "Nobel"), "the history of %s shows the secret", seen)
	}
	assert.False(t, strings.Contains(in.log.String(), "refused"), "something of the owner's was refused: %s",
		in.log.String())
}

func TestASchedulesWorkflowsRunAlsoAfterTheScheduleWasChanged(t *testing.T) {
	in := install(t)
	action := &client.ScheduleWorkflowAction{
		ID: "unweaver/" + in.queue, Workflow: "Stage", TaskQueue: in.queue, Args: []any{input{Text: secret, Round: 1}},
		StaticSummary: "settings " + secret,
	}
	handle := musttest.Get(in.owner.ScheduleClient().Create(t.Context(),
		client.ScheduleOptions{ID: action.ID, Spec: client.ScheduleSpec{}, Action: action, TriggerImmediately: true}))(t)
	t.Cleanup(func() { _ = handle.Delete(context.WithoutCancel(t.Context())) })
	fires := func(times int) {
		for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			described := musttest.Get(handle.Describe(t.Context()))(t)
			summary := described.Schedule.Action.(*client.ScheduleWorkflowAction).StaticSummary
			require.True(t, summary == action.StaticSummary, "the owner reads the summary %q", summary)
			if recent := described.Info.RecentActions; len(recent) >= times {
				started := recent[len(recent)-1].StartWorkflowResult
				var result string
				err := ended(t, in.owner, started.WorkflowID, started.FirstExecutionRunID, &result)
				require.True(t, err == nil && result == secret+" staged", "%q, %v", result, err)
				return
			}
			require.True(t, time.Since(begun) <= time.Minute, "the schedule starts nothing")
		}
	}
	fires(1)
	if err := handle.Update(t.Context(), client.ScheduleUpdateOptions{
		DoUpdate: func(now client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next := now.Description.Schedule
			next.Action = action
			return &client.ScheduleUpdate{Schedule: &next}, nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // the engine names workflows of schedules by the second
	require.NoError(t, handle.Trigger(t.Context(), client.ScheduleTriggerOptions{}))
	fires(2)
}

// Promises: 133.
func TestWhoHasThePortAloneRunsNothing(t *testing.T) {
	in := install(t)
	id := "build/" + in.queue
	run := in.start(t, id, input{Text: secret})
	var state string
	for begun := time.Now(); !strings.Contains(history(t, in.other, id), "drain"); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Since(begun) <= time.Minute, "the run does not begin")
	}
	published := in.runs.published.Load()
	recorded := in.recorded(t, id, "")
	starts := map[string]func(id string, request *workflowservice.StartWorkflowExecutionRequest){
		"plain": func(_ string, r *workflowservice.StartWorkflowExecutionRequest) {
			r.Input = plain(t, input{Text: "mine"})
		},
		"none": func(_ string, r *workflowservice.StartWorkflowExecutionRequest) { r.Input = nil },
		"repeated under another name": func(_ string, r *workflowservice.StartWorkflowExecutionRequest) {
			r.Input, r.Header = recorded.GetInput(), recorded.GetHeader()
		},
		"repeated without the seal": func(id string, r *workflowservice.StartWorkflowExecutionRequest) {
			r.Input = recorded.GetInput()
		},
	}
	for name, change := range starts {
		request := &workflowservice.StartWorkflowExecutionRequest{
			Namespace: client.DefaultNamespace, WorkflowId: id + "/" + name, RequestId: uuid.NewString(),
			WorkflowType: &common.WorkflowType{Name: "Build"}, TaskQueue: recorded.GetTaskQueue(),
		}
		change(request.WorkflowId, request)
		started := musttest.Get(in.other.WorkflowService().StartWorkflowExecution(t.Context(), request))(t)
		assert.Error(t, ended(t, in.owner, request.WorkflowId, started.GetRunId(), nil), "%s: it ran", name)
	}
	in.disturb(t, id)
	value, err := in.other.QueryWorkflow(t.Context(), id, "", "__stack_trace")
	assert.False(t, err == nil && value.Get(&state) == nil, "the stack of a run is readable: %q", state)
	ran := in.runs.published.Load()
	assert.True(t, ran == published, "%d activities ran for another user", ran-published)
	text := in.log.String()
	assert.True(t, strings.Contains(text, "refused a message of the engine") &&
		strings.Contains(text, "refused a payload of the engine") && !strings.Contains(text, "Nobel"), "logged %s", text)
	in.repeat(t, id, run)
}

func plain(t *testing.T, value any) *common.Payloads {
	return musttest.Get(converter.GetDefaultDataConverter().ToPayloads(value))(t)
}

// disturb sends a run what ends or steers it, without the key: it goes on.
func (i installation) disturb(t *testing.T, id string) {
	t.Helper()
	execution := &common.WorkflowExecution{WorkflowId: id}
	for name, sent := range map[string]*common.Payloads{"plain": plain(t, "mine"), "none": nil} {
		_, err := i.other.WorkflowService().SignalWorkflowExecution(t.Context(),
			&workflowservice.SignalWorkflowExecutionRequest{
				Namespace: client.DefaultNamespace, WorkflowExecution: execution, SignalName: "end", Input: sent,
				RequestId: uuid.NewString(),
			})
		require.True(t, err == nil, "%s: %v", name, err)
		for _, update := range []string{"pause", "stop"} {
			if outcome := i.update(t, execution, update, sent); outcome.GetSuccess() != nil || outcome.GetFailure() == nil {
				t.Errorf("update %s with %s input: %v", update, name, outcome)
			}
		}
		answered, err := i.other.WorkflowService().QueryWorkflow(t.Context(), &workflowservice.QueryWorkflowRequest{
			Namespace: client.DefaultNamespace, Execution: execution,
			Query: &query.WorkflowQuery{QueryType: "state", QueryArgs: sent},
		})
		assert.Error(t, err, "a query with %s input was answered: %v", name, answered)
	}
	described, err := i.owner.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil || described.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Fatalf("the run of the owner is %v, %v", described.GetWorkflowExecutionInfo().GetStatus(), err)
	}
}

func (i installation) update(
	t *testing.T, execution *common.WorkflowExecution, name string, sent *common.Payloads,
) *update.Outcome {
	answered := musttest.Get(i.other.WorkflowService().UpdateWorkflowExecution(t.Context(),
		&workflowservice.UpdateWorkflowExecutionRequest{
			Namespace: client.DefaultNamespace, WorkflowExecution: execution,
			WaitPolicy: &update.WaitPolicy{LifecycleStage: enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED},
			Request: &update.Request{
				Meta: &update.Meta{UpdateId: uuid.NewString()}, Input: &update.Input{Name: name, Args: sent},
			},
		}))(t)
	return answered.GetOutcome()
}

// repeat sends an update of the owner's once more, under another id; then the owner ends the run.
func (i installation) repeat(t *testing.T, id string, run client.WorkflowRun) {
	t.Helper()
	handle, err := i.owner.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: "stop", Args: []any{input{Text: "by the owner"}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.True(t, err == nil && handle.Get(t.Context(), nil) == nil, "the owner cannot steer the run: %v", err)
	var result string
	err = run.Get(t.Context(), &result)
	require.True(t, err == nil && strings.HasSuffix(result, "by the owner"), "%q, %v", result, err)
	// An activity outside of any workflow is refused, too.
	started, err := i.other.ExecuteActivity(t.Context(), client.StartActivityOptions{
		ID: uuid.NewString(), TaskQueue: i.queue, StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}, "Publish", input{Text: "mine"})
	if err != nil {
		t.Logf("this server starts no activity alone: %v", err)
		return
	}
	before := i.runs.published.Load()
	err = started.Get(t.Context(), nil)
	assert.True(t, err != nil && i.runs.published.Load() == before, "an activity of another user ran: %v", err)
}

// command has a workflow of somebody without the key, on a task queue of their own, do what they say. It returns its
// run.
func (i installation) command(t *testing.T, id string, commands ...*command.Command) string {
	service, queue := i.other.WorkflowService(), &taskqueue.TaskQueue{Name: "mine-" + uuid.NewString()}
	started := musttest.Get(service.StartWorkflowExecution(t.Context(), &workflowservice.StartWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowId: id, RequestId: uuid.NewString(), TaskQueue: queue,
		WorkflowType: &common.WorkflowType{Name: "Mine"},
	}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	task, err := service.PollWorkflowTaskQueue(ctx,
		&workflowservice.PollWorkflowTaskQueueRequest{Namespace: client.DefaultNamespace, TaskQueue: queue})
	if err == nil {
		_, err = service.RespondWorkflowTaskCompleted(t.Context(), &workflowservice.RespondWorkflowTaskCompletedRequest{
			Namespace: client.DefaultNamespace, TaskToken: task.GetTaskToken(), Commands: commands,
		})
	}
	require.NoError(t, err)
	return started.GetRunId()
}

// recorded returns how a run was started, as anybody with the port can read it.
func (i installation) recorded(t *testing.T, id, run string) *workflowservice.StartWorkflowExecutionRequest {
	events := i.other.GetWorkflowHistory(t.Context(), id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	started := musttest.Get(events.Next())(t).GetWorkflowExecutionStartedEventAttributes()
	return &workflowservice.StartWorkflowExecutionRequest{
		WorkflowType: started.GetWorkflowType(), TaskQueue: started.GetTaskQueue(), Input: started.GetInput(),
		Header: started.GetHeader(),
	}
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
	for n, run := range []string{began, went} {
		recorded := in.recorded(t, stage, run)
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
			in.refusedAfter(t, stage, []string{latest, again()}, fmt.Sprintf("start %d of the stage, as %s", n, name))
		}
	}
}

func (i installation) latest(t *testing.T, id string) string {
	described := musttest.Get(i.other.DescribeWorkflowExecution(t.Context(), id, ""))(t)
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
		info := musttest.Get(i.other.DescribeWorkflowExecution(t.Context(), id, ""))(t).GetWorkflowExecutionInfo()
		run := info.GetExecution().GetRunId()
		if slices.Contains(before, run) || info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			continue
		}
		var result string
		err := ended(t, i.owner, id, run, &result)
		assert.True(t, err != nil && strings.Contains(err.Error(), "refused: its seal is of"),
			"%s: it ran: %q, %v", name, result, err)
		return
	}
}
