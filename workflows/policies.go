package workflows

import (
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// This file owns every option of an activity and of a child workflow: the profiles quick, soon, measure, batch, record
// and child. Options are no part of history's order, so they may change under a running build.
//
// Every activity but MeasureFleet heartbeats from a second goroutine. After a worker's death its work moves on
// after the heartbeat timeout and the longest wait between attempts: 25 s with the values below.

// maxAttempts is how often an activity is tried: some four minutes where it fails at once.
const maxAttempts = 30

// longestRetry is the longest wait between two attempts.
const longestRetry = 10 * time.Second

// DefaultHeartbeat is after how long without a heartbeat an activity is given to another worker. Beats go out four
// times as often: a loaded machine may lose two in a row.
const DefaultHeartbeat = 15 * time.Second

// withQuick returns a context for short activities that touch a few small objects.
func withQuick(ctx workflow.Context, b Build) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute,
		HeartbeatTimeout:    b.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         newRetryPolicy(longestRetry, maxAttempts),
	})
}

// withSoon returns a context for what somebody waits for: it gives up within a time, so that they hear of it, and since
// the store that would say so may be what is down.
func withSoon(ctx workflow.Context, b Build, patience time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    15 * time.Second,
		ScheduleToCloseTimeout: patience,
		HeartbeatTimeout:       b.Heartbeat,
		WaitForCancellation:    true,
		RetryPolicy:            newRetryPolicy(5*time.Second, maxAttempts),
	})
}

// withMeasure returns a context for a look at the fleet: what waits for it can do without, and it goes before work that
// waits.
func withMeasure(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second,
		Priority:            temporal.Priority{PriorityKey: 1},
		RetryPolicy:         newRetryPolicy(5*time.Second, 3),
	})
}

// withBatch returns a context for units of work: they may take long and be repeated at any time, and are waited for
// when they are cancelled, so that nothing of a run goes on after its end.
func withBatch(ctx workflow.Context, b Build, activity string, items int64) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queueOf(ctx, activity),
		StartToCloseTimeout: computeLimit(activity, items),
		HeartbeatTimeout:    b.Heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         newRetryPolicy(longestRetry, maxAttempts),
	})
}

// computing are the activities that fill a core for most of their time, whatever models and stores a run has.
var computing = map[string]bool{
	ChunkDocuments: true, SealShard: true, ReducePartition: true, WritePiece: true, WriteSegments: true,
}

// queueOf returns the task queue of an activity; empty: the run's.
func queueOf(ctx workflow.Context, activity string) string {
	if !computing[activity] {
		return ""
	}
	return ComputingQueue(workflow.GetInfo(ctx).TaskQueueName)
}

// withRecord returns a context for writing down how a run stands: it outlasts an outage of a store by days, and is done
// soon after it. An attempt may load a restored index.
func withRecord(ctx workflow.Context, b Build) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    30 * time.Minute,
		ScheduleToCloseTimeout: 7 * 24 * time.Hour,
		HeartbeatTimeout:       b.Heartbeat,
		WaitForCancellation:    true,
		RetryPolicy:            newRetryPolicy(time.Minute, 0),
	})
}

func newRetryPolicy(longest time.Duration, attempts int32) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    time.Second,
		BackoffCoefficient: 2,
		MaximumInterval:    longest,
		MaximumAttempts:    attempts,
	}
}

// withChild returns a context for stages and shards: their ids are the run's, and they end with it.
func withChild(ctx workflow.Context, id string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          id,
		WaitForCancellation: true,
		ParentClosePolicy:   enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
	})
}

// allowance is how long an attempt of a unit may take: a base, and so much for each of its items. It is far above what
// is usual (heartbeats find a dead worker, deadlines of calls a hung one), and what an attempt paid for is kept.
type allowance struct {
	base, item time.Duration
}

// allowances by activity. Items are, of a chunking unit, its documents; of a batch, its chunks; of a part or
// partition, the chunks of a shard; of what is done once in a run, all its chunks.
var allowances = map[string]allowance{
	TakeLease:        {base: 30 * time.Minute},            // it may wait until the processes of a run that is over are
	PlanBuild:        {base: 12 * time.Hour},              // how much there is to list is what it finds out
	ChunkDocuments:   {10 * time.Minute, 2 * time.Minute}, // one that hangs is given up after limits.document.seconds
	SealChunks:       {30 * time.Minute, 20 * time.Millisecond},
	PayBatches:       {base: 7 * 24 * time.Hour}, // it waits for the server until its deadline
	ExtractChunks:    {10 * time.Minute, 2 * time.Minute},
	RepairPart:       {30 * time.Minute, 4 * time.Second},
	SealRepair:       {10 * time.Minute, 0},
	SealShard:        {10 * time.Minute, time.Second},
	SealExtraction:   {30 * time.Minute, 20 * time.Millisecond},
	ReducePartition:  {30 * time.Minute, time.Second},
	ShortenPartition: {30 * time.Minute, 4 * time.Second},
	EmbedPart:        {30 * time.Minute, 4 * time.Second},
	LoadPart:         {30 * time.Minute, time.Second},
	ImportVectors:    {time.Hour, 20 * time.Millisecond},
	WritePiece:       {30 * time.Minute, 20 * time.Millisecond},
	WriteSegments:    {30 * time.Minute, 20 * time.Millisecond},
	EnrichPart:       {30 * time.Minute, 4 * time.Second},
	SealEnrichment:   {30 * time.Minute, 100 * time.Millisecond},
	VerifyPart:       {30 * time.Minute, time.Second},
	PublishBuild:     {30 * time.Minute, time.Millisecond},
	CollectGarbage:   {time.Hour, time.Millisecond},
	RestorePart:      {30 * time.Minute, 4 * time.Second},
	SealRestore:      {10 * time.Minute, 0},
	OpenAudit:        {10 * time.Minute, 0},
	AuditPart:        {30 * time.Minute, 4 * time.Second},
	SealAudit:        {30 * time.Minute, 0},
	OpenBackfill:     {base: 12 * time.Hour},     // it lists, as PlanBuild does
	PayBackfill:      {base: 7 * 24 * time.Hour}, // it lets nights go first, and is throttled
	AimBackfill:      {base: 7 * 24 * time.Hour}, // it waits for who builds the index
}

// computeLimit returns an activity's start-to-close for so many items.
func computeLimit(activity string, items int64) time.Duration {
	allowed := allowances[activity]
	return allowed.base + time.Duration(items)*allowed.item
}
