package workflows

import (
	"fmt"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Backfilled is what OpenBackfill found to pay for.
type Backfilled struct {
	Units     int   `json:"units"`
	Documents int64 `json:"documents"`
}

// Aimed is what AimBackfill found once no run builds the index.
type Aimed struct {
	Spec   string `json:"spec"`   // of the generation that is served
	Parent string `json:"parent"` // that generation
}

// BackfillNote is how a backfill stands, for NoteBackfill.
type BackfillNote struct {
	Build
	Status string `json:"status"`
	Run    string `json:"run,omitempty"`    // of the build that publishes it, which begins
	Parent string `json:"parent,omitempty"` // generation that is served by then
	Why    string `json:"why,omitempty"`    // the build before came to nothing
}

// Statuses of a backfill while it goes on.
const (
	statusPaying     = "paying"
	statusPublishing = "publishing"
)

// Why a build of a backfill came to nothing, and another one follows.
const (
	whyYielded = "yielded"
	whyMoved   = "pointer_moved"
	whyHeld    = "lease_held"
	whyPaused  = "paused"
)

// BackfillLevel is the priority of a backfill's work: the last that there is.
const BackfillLevel = 5

// backfill is the state of one run of Backfill.
type backfill struct {
	run
	number  int // of the builds that were to publish it
	outcome Outcome
}

// Backfill pays for documents of an index that a person chose, without its lease and after everything else, and then
// has them published by a build, on top of what is served by then. The build yields: where another one needs the lease,
// it is cancelled, and follows again once that has ended. What was paid for answers it. Commands and query are those of
// a build.
func Backfill(ctx workflow.Context, in Build) (Outcome, error) {
	b := &backfill{run: run{Build: in, endActivity: EndBackfill}}
	return b.executeRun(ctx, b.runBackfill)
}

func (b *backfill) runBackfill(ctx workflow.Context) (End, error) {
	var opened Backfilled
	if err := b.runPausable(ctx, "plan", func(ctx workflow.Context) error {
		return b.runActivity(ctx, OpenBackfill, 0, b.Build, &opened)
	}); err != nil {
		return End{}, err
	}
	if opened.Units == 0 { // what was chosen is served as it is
		return End{Status: statusCompleted, Unchanged: true}, nil
	}
	if err := b.runPausable(ctx, "pay", func(ctx workflow.Context) error {
		if err := b.recordNote(ctx, BackfillNote{Status: statusPaying}); err != nil {
			return err
		}
		return b.runUnits(ctx, BackfillID(b.Index, b.Backfill)+"/pay", StageInput{
			Build: b.Build, Stage: "pay", Activity: PayBackfill, Units: opened.Units,
		})
	}); err != nil {
		return End{}, err
	}
	if err := b.runPausable(ctx, "publish", b.publishBackfill); err != nil {
		return End{}, err
	}
	return End{Status: b.outcome.Status, Reason: b.outcome.Reason}, nil
}

func (b *backfill) recordNote(ctx workflow.Context, note BackfillNote) error {
	note.Build = b.Build
	return executeActivity(withQuick(ctx, b.Build), NoteBackfill, note, nil)
}

// publishBackfill begins builds until one comes to something.
func (b *backfill) publishBackfill(ctx workflow.Context) error {
	for {
		var aim Aimed
		if err := b.runActivity(ctx, AimBackfill, 0, b.Build, &aim); err != nil {
			return err
		}
		b.number++
		next := b.Build
		next.Generation, next.Spec = fmt.Sprintf("%s-%d", b.Generation, b.number), aim.Spec
		next.Shape.ShardChunks, next.Shape.BatchChunks = 0, 0 // those of payments follow their throttle
		next.Shape = next.Shape.WithDefaults()
		note := BackfillNote{Status: statusPublishing, Run: b.Index + "/" + next.Generation, Parent: aim.Parent}
		if err := b.recordNote(ctx, note); err != nil {
			return err
		}
		if b.steering.wish == wishPause {
			return &halted{cause{code: codePaused}}
		}
		why, err := b.runBuild(ctx, next)
		if why == "" {
			return err
		}
		if err := b.recordNote(ctx, BackfillNote{Status: statusPublishing, Why: why}); err != nil {
			return err
		}
		if why == whyPaused {
			return &halted{cause{code: codePaused}}
		}
	}
}

// runBuild runs one build to its end. It says why another one is needed; empty: none is.
func (b *backfill) runBuild(ctx workflow.Context, next Build) (why string, err error) {
	building, cancel := workflow.WithCancel(ctx)
	defer cancel()
	building = workflow.WithChildOptions(building, workflow.ChildWorkflowOptions{
		WorkflowID:          BuildID(next.Index, next.Generation),
		WaitForCancellation: true,
		ParentClosePolicy:   enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		Priority:            temporal.Priority{PriorityKey: BackfillLevel, FairnessKey: next.Index},
	})
	b.publisher, b.now.child = &next, BuildID(next.Index, next.Generation)
	defer func() { b.publisher, b.now.child = nil, "" }()
	begun := workflow.ExecuteChildWorkflow(building, BuildIndexName, next)
	waiting, done := workflow.NewDisconnectedContext(ctx) // a build that is cancelled is waited for
	defer done()
	if err := workflow.Await(waiting, func() bool { return begun.IsReady() || b.steering.wish == wishPause }); err != nil {
		return "", err
	}
	if !begun.IsReady() {
		cancel()
	}
	err = begun.Get(waiting, &b.outcome)
	switch why := causeOf(err); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && why.code == codeCancelled && b.steering.wish == wishPause:
		return whyPaused, nil
	case err != nil && why.code == codeCancelled:
		return whyYielded, nil
	case err != nil:
		return "", err
	case b.outcome.Status == statusHeld && b.outcome.Reason == whyMoved:
		return whyMoved, nil
	case b.outcome.Status == statusFailed && (b.outcome.Reason == whyHeld || b.outcome.Reason == "lease_lost"):
		return whyHeld, nil
	}
	return "", nil
}
