package workflows

import (
	"errors"
	"fmt"
	"regexp"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Phase of a run.
type Phase string

// The phases. Commands are taken in all but the last; which of them, each update's validator says.
const (
	PhaseRunning Phase = "running"
	PhasePausing Phase = "pausing" // what is in flight ends, the pause is written down
	PhasePaused  Phase = "paused"
	PhaseWaiting Phase = "waiting" // for an outage to end: it goes on by itself
	PhaseEnding  Phase = "ending"  // the end is written down
)

// run is what builds and restores have in common: steps that pause and go on, commands, and a recorded end.
type run struct {
	Build
	endActivity string
	phase       Phase
	code        string // that pauses the run
	status      string // that the run ends with
	now         current
	steering    steering
	outage      outage // that the step in progress waits for
	notices     int    // of a webhook
	cancel      workflow.CancelFunc
	publisher   *Build // of a backfill: the build that publishes it, which a pause ends too
}

// current is what a run knows of the stage in progress.
type current struct {
	stage string
	left  *StageResult // when it paused
	units int
	child string // workflow that runs them
	tries int    // a resumed stage needs a new id
}

// steering is what people asked of a run, and what of that is being written down.
type steering struct {
	lock       workflow.Mutex // one command at a time is written down
	wish       wish
	writing    string // the pause or resume that is being written down
	noting     bool   // a wait is being written down
	cancelling bool   // a cancel is being written down, or is
}

// wish is what a person asked for last, while it has not taken effect.
type wish int

const (
	wishNone   wish = iota
	wishPause       // the step in progress ends, and the run pauses
	wishResume      // the pause was taken back before the step in progress ended by it
)

// forgetResume drops a resume that has taken effect.
func (s *steering) forgetResume() {
	if s.wish == wishResume {
		s.wish = wishNone
	}
}

// executeRun does the work of a run, obeys commands meanwhile and records how it ends, even when it was cancelled.
func (r *run) executeRun(ctx workflow.Context, work func(workflow.Context) (End, error)) (Outcome, error) {
	r.phase, r.steering.lock = PhaseRunning, workflow.NewMutex(ctx)
	working, cancel := workflow.WithCancel(ctx)
	r.cancel = cancel
	if err := r.listenCommands(ctx); err != nil {
		return Outcome{}, err
	}
	invalid := r.validateInput()
	r.Shape = r.Shape.WithDefaults()
	if r.Heartbeat <= 0 {
		r.Heartbeat = DefaultHeartbeat
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{"index": r.Index, "generation": r.Generation}); err != nil {
		return Outcome{}, err
	}
	if err := r.upsertAttributes(ctx, statusRunning); err != nil {
		return Outcome{}, err
	}
	var end End
	if invalid != nil {
		end = End{Status: statusFailed, Reason: codeBadConfig, Detail: invalid.Error()}
	} else {
		var err error
		if end, err = work(working); err != nil {
			end = r.endOf(working, err)
		}
	}
	end.Build, r.phase, r.status = r.Build, PhaseEnding, end.Status
	recorded, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	if err := workflow.Await(recorded, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return Outcome{}, err
	}
	if err := r.upsertAttributes(ctx, end.Status); err != nil {
		return Outcome{}, err
	}
	if err := r.recordEnd(recorded, end); err != nil {
		return Outcome{}, err
	}
	if end.Status == statusCancelled {
		return Outcome{}, temporal.NewCanceledError()
	}
	return Outcome{Status: end.Status, Reason: end.Reason}, nil
}

// What names are; workflows reach no other package. Activities check them again.
var (
	slug     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	digest   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	reserved = map[string]bool{"ledger": true, "doctor": true}
)

// validateInput says what is wrong with a run's input, in one sentence.
func (b Build) validateInput() error {
	switch {
	case !slug.MatchString(b.Index) || reserved[b.Index]:
		return errors.New("index: want letters a-z, digits and hyphens, at most 63, no hyphen first; " +
			"ledger and doctor are taken")
	case !slug.MatchString(b.Generation):
		return errors.New("generation: want letters a-z, digits and hyphens, at most 63, no hyphen first")
	case b.Spec != "" && !digest.MatchString(b.Spec):
		return errors.New("spec: want 64 hex digits")
	}
	if b.Budget.isNegative() {
		return errors.New("budget: a budget must not be negative")
	}
	return b.Shape.Validate()
}

// runPausable does a step; while it ends with a code that can be mended, the run waits to be resumed and does it again.
func (r *run) runPausable(ctx workflow.Context, stage string, step func(workflow.Context) error) error {
	r.now, r.outage = current{stage: stage, units: 1, tries: r.now.tries}, outage{}
	if err := r.upsertAttributes(ctx, statusRunning); err != nil {
		return err
	}
	for {
		var err error
		r.steering.forgetResume()
		if r.steering.wish == wishPause {
			err = &halted{cause{code: codePaused}}
		} else {
			err = step(ctx)
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		why := causeOf(err)
		if !pausing[why.code] {
			return err
		}
		if err := r.holdRun(ctx, why); err != nil {
			return err
		}
	}
}

// holdRun keeps a run that cannot go on: for a while where time may mend the cause, else until a person resumes it.
func (r *run) holdRun(ctx workflow.Context, why cause) error {
	r.now.child = ""
	r.now.tries++
	for why.code != "" {
		// A resume that is being written down takes the pause back that it came after.
		if err := workflow.Await(ctx, func() bool { return r.steering.writing != UpdateResume }); err != nil {
			return err
		}
		var err error
		switch {
		case why.code == codePaused && r.steering.wish == wishResume:
			return nil
		case !r.shouldWait(why.code):
			return r.pauseRun(ctx, why)
		case r.steering.wish == wishPause: // what a person asked for counts
			return nil
		}
		if why, err = r.waitOutage(ctx, why); err != nil {
			return err
		}
	}
	return nil
}

// pauseRun records a pause and waits until a person resumes the run.
func (r *run) pauseRun(ctx workflow.Context, why cause) error {
	r.phase, r.code = PhasePausing, why.code
	// A cancel that is being written down ends the run: it must not look paused in between.
	if err := workflow.Await(ctx, func() bool { return !r.steering.cancelling }); err != nil {
		return err
	}
	end := End{Build: r.Build, Status: statusPaused, Reason: why.code, Ref: why.ref, Detail: why.detail}
	if err := r.recordEnd(ctx, end); err != nil {
		return err
	}
	r.phase = PhasePaused
	if err := r.upsertAttributes(ctx, statusPaused); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return r.phase != PhasePaused }); err != nil {
		return err
	}
	return r.upsertAttributes(ctx, statusRunning)
}

// runUnits runs the units of a stage in a child workflow. Called again after a pause it runs those that are left, in a
// child of another id; called again when all are finished it does nothing.
func (r *run) runUnits(ctx workflow.Context, id string, in StageInput) error {
	r.now.units = in.Units
	if r.now.left != nil {
		if len(r.now.left.Pending) == 0 {
			return nil
		}
		in.Pending, in.Partial, in.Done = r.now.left.Pending, r.now.left.Partial, r.now.left.Done
	}
	if r.now.tries > 0 {
		id += fmt.Sprintf("/retry-%02d", r.now.tries)
	}
	r.now.child = id
	var result StageResult
	if err := workflow.ExecuteChildWorkflow(withChild(ctx, id), StageName, in).Get(ctx, &result); err != nil {
		return err
	}
	r.now.left, r.now.child = &result, ""
	if result.Paused != "" {
		return &halted{cause{result.Paused, result.Ref, result.Detail}}
	}
	return nil
}

// beginStage writes down that a stage begins.
func (r *run) beginStage(ctx workflow.Context, stage string, total int64) error {
	state := StageState{Build: r.Build, Stage: stage, Total: total}
	return executeActivity(withQuick(ctx, r.Build), BeginStage, state, nil)
}

// executeActivity runs an activity and decodes what it returns, also where the caller has no use for it (out is nil):
// that an answer opens is what shows that a worker with the codec's key gave it.
func executeActivity(ctx workflow.Context, activity string, in, out any) error {
	if out == nil {
		out = &Receipt{}
	}
	return workflow.ExecuteActivity(ctx, activity, in).Get(ctx, out)
}

// runActivity does what is one activity of a run.
func (r *run) runActivity(ctx workflow.Context, activity string, items int64, input, result any) error {
	return executeActivity(withBatch(ctx, r.Build, activity, items), activity, input, result)
}

// endOf describes a run that an error ended.
func (r *run) endOf(ctx workflow.Context, err error) End {
	why := causeOf(err)
	if ctx.Err() != nil || why.code == codeCancelled {
		return End{Status: statusCancelled, Reason: codeCancelled}
	}
	return End{Status: statusFailed, Reason: why.code, Ref: why.ref, Detail: why.detail}
}

// describeState answers QueryState.
func (r *run) describeState() (State, error) {
	state := State{
		Index: r.Index, Generation: r.Generation, Phase: r.phase, Stage: r.now.stage,
		Total: r.now.units, Child: r.now.child, Budget: r.Budget,
	}
	switch r.phase {
	case PhasePausing, PhasePaused:
		state.Paused = r.code
	case PhaseWaiting:
		about := r.outage.Waiting
		state.Paused, state.Waiting = r.code, &about
	}
	if r.now.left != nil {
		state.Done = r.now.units - countUnits(r.now.left.Pending)
	}
	return state, nil
}
