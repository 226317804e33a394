package storm

import (
	"context"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/workflows"
)

// Activities of a build, in the order in which they first begin: those of the stages, and the short ones between them.
var Activities = []string{
	workflows.TakeLease, workflows.BeginStage, workflows.PlanBuild, workflows.ChunkDocuments, workflows.SealChunks,
	workflows.ExtractChunks, workflows.SealShard, workflows.SealExtraction, workflows.ReducePartition,
	workflows.ShortenPartition, workflows.EmbedPart, workflows.LoadPart, workflows.WriteSegments, workflows.VerifyPart,
	workflows.PublishBuild, workflows.CollectGarbage, workflows.EndBuild,
}

// stages names the stage of an activity, where it is not a short one that several stages have.
var stages = map[string]string{
	workflows.TakeLease: "lease", workflows.BeginStage: "each", workflows.PlanBuild: "plan",
	workflows.ChunkDocuments: "chunk", workflows.SealChunks: "chunk", workflows.ExtractChunks: "extract",
	workflows.SealShard: "extract", workflows.SealExtraction: "extract", workflows.ReducePartition: "reduce",
	workflows.ShortenPartition: "shorten", workflows.EmbedPart: "embed", workflows.LoadPart: "load",
	workflows.ImportVectors: "load", workflows.WriteSegments: "segment", workflows.VerifyPart: "verify",
	workflows.PublishBuild: "publish", workflows.CollectGarbage: "collect", workflows.EndBuild: "end",
}

// paid are the activities that call a model.
var paid = map[string]bool{
	workflows.ExtractChunks: true, workflows.ShortenPartition: true, workflows.EmbedPart: true,
}

// Flight is an activity that the engine has given out, or will.
type Flight struct {
	Workflow string
	ID       string
	Type     string
	Attempt  int32
	Running  bool      // a worker has it, as far as the engine knows
	Started  time.Time // of the last attempt
	Failure  string    // how the attempt before ended: an error's code, or that no sign of life came
	Worker   string    // identity of the worker that has it, or had it last: its process id, @, its host
	Next     time.Time // when a new attempt is given out, where one is waited for
}

// place names an activity of a run.
type place struct{ workflow, id string }

func (f Flight) place() place { return place{f.Workflow, f.ID} }

// Flights asks the engine what a run has in flight, its child workflows' activities included. open is false once the
// run has ended.
func Flights(ctx context.Context, engine client.Client, workflowID string) (all []Flight, open bool, err error) {
	described, err := engine.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return nil, false, err
	}
	open = described.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	for _, pending := range described.GetPendingActivities() {
		all = append(all, flight(workflowID, pending))
	}
	for _, child := range described.GetPendingChildren() {
		if more, _, err := Flights(ctx, engine, child.GetWorkflowId()); err == nil { // it may have ended meanwhile
			all = append(all, more...)
		}
	}
	return all, open, nil
}

func flight(workflowID string, pending *workflow.PendingActivityInfo) Flight {
	return Flight{
		Workflow: workflowID, ID: pending.GetActivityId(), Type: pending.GetActivityType().GetName(),
		Attempt: pending.GetAttempt(), Running: pending.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED,
		Started: pending.GetLastStartedTime().AsTime(),
		Failure: failure(pending),
		Worker:  pending.GetLastWorkerIdentity(),
		Next:    pending.GetNextAttemptScheduleTime().AsTime(),
	}
}

// failure names how the attempt before ended; empty where it is the first.
func failure(pending *workflow.PendingActivityInfo) string {
	last := pending.GetLastFailure()
	if last.GetTimeoutFailureInfo() != nil {
		return last.GetTimeoutFailureInfo().GetTimeoutType().String()
	}
	if code := last.GetApplicationFailureInfo().GetType(); code != "" {
		return code
	}
	return last.GetMessage()
}

// Ended returns by which attempt an activity ended, and when; found is false where its history does not have its end.
func Ended(ctx context.Context, engine client.Client, workflowID, id string) (
	attempt int32, when time.Time, found bool,
) {
	events := engine.GetWorkflowHistory(ctx, workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	scheduled, attempts := int64(-1), map[int64]int32{}
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return 0, when, false
		}
		if given := event.GetActivityTaskScheduledEventAttributes(); given.GetActivityId() == id {
			scheduled = event.GetEventId()
		}
		if started := event.GetActivityTaskStartedEventAttributes(); started != nil {
			attempts[started.GetScheduledEventId()] = started.GetAttempt()
		}
		ended := event.GetActivityTaskCompletedEventAttributes()
		if ended != nil && ended.GetScheduledEventId() == scheduled {
			return attempts[scheduled], event.GetEventTime().AsTime(), true
		}
	}
	return 0, when, false
}

// Durations reads from the histories of a run that ended how long the attempts of each kind of activity lasted.
func Durations(ctx context.Context, engine client.Client, workflowID string) (map[string][]time.Duration, error) {
	all := map[string][]time.Duration{}
	return all, durations(ctx, engine, &commonpb.WorkflowExecution{WorkflowId: workflowID}, all)
}

func durations(
	ctx context.Context, engine client.Client, run *commonpb.WorkflowExecution, all map[string][]time.Duration,
) error {
	names, begun := map[int64]string{}, map[int64]time.Time{}
	events := engine.GetWorkflowHistory(
		ctx, run.GetWorkflowId(), run.GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var children []*commonpb.WorkflowExecution
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return err
		}
		if child := event.GetChildWorkflowExecutionStartedEventAttributes(); child != nil {
			children = append(children, child.GetWorkflowExecution())
		}
		note(event, names, begun, all)
	}
	for _, child := range children {
		if err := durations(ctx, engine, child, all); err != nil {
			return err
		}
	}
	return nil
}

// note books what one event says of an activity.
func note(
	event *history.HistoryEvent, names map[int64]string, begun map[int64]time.Time, all map[string][]time.Duration,
) {
	if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
		names[event.GetEventId()] = scheduled.GetActivityType().GetName()
	}
	if started := event.GetActivityTaskStartedEventAttributes(); started != nil {
		begun[started.GetScheduledEventId()] = event.GetEventTime().AsTime()
	}
	if completed := event.GetActivityTaskCompletedEventAttributes(); completed != nil {
		name := names[completed.GetScheduledEventId()]
		all[name] = append(all[name], event.GetEventTime().AsTime().Sub(begun[completed.GetScheduledEventId()]))
	}
}

// median returns the median of durations; zero of none.
func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
