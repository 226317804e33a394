package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"
)

// listenCommands takes the commands of a run, and questions about it. A command is written down by SteerRun first and
// changes the workflow after: what is acknowledged binds the activities already.
func (r *run) listenCommands(ctx workflow.Context) error {
	return errors.Join(
		r.listenLimits(ctx),
		workflow.SetQueryHandler(ctx, QueryState, r.describeState),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdatePause, r.obeyPause, workflow.UpdateHandlerOptions{
			Validator:   r.mayPause,
			Description: "calls in flight are completed and kept, no new calls start",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateResume, withReceipt(r.obeyResume), workflow.UpdateHandlerOptions{
			Validator:   r.mayResume,
			Description: "the remaining units run; you can set a new budget",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateCancel, r.obeyCancel, workflow.UpdateHandlerOptions{
			Validator:   r.mayCancel,
			Description: "the run ends; paid results are kept",
		}),
	)
}

func (r *run) mayPause() error {
	switch {
	case r.phase == PhaseEnding || r.steering.cancelling:
		return newEndedRefusal("the run is ending and can no longer be paused")
	case r.phase == PhasePaused:
		return newRefusal("the run is paused already (%s)", r.code)
	case r.phase == PhasePausing || r.steering.wish == wishPause || r.steering.writing == UpdatePause:
		return newRefusal("the run is pausing already: what is in flight ends first")
	case r.steering.writing != "":
		return newRefusal("the run is being resumed: try again in a moment")
	}
	return nil
}

func (r *run) mayResume(in Resume) error {
	switch {
	case r.phase == PhaseEnding || r.steering.cancelling:
		return newEndedRefusal("the run is ending and can no longer be resumed")
	case r.steering.writing == UpdateResume:
		return newRefusal("the run is being resumed already")
	case r.phase == PhaseRunning && r.steering.wish != wishPause && r.steering.writing != UpdatePause:
		return newRefusal("the run is not paused and continues by itself")
	}
	budget := in.Budget
	if budget == nil || *budget == (Budget{}) {
		if r.code == codeBudgetSpent {
			return newRefusal("the run has spent its budget: set a larger one with --budget-calls, " +
				"--budget-tokens or --budget-money")
		}
		return nil
	}
	if budget.isNegative() {
		return newRefusal("a budget must not be negative")
	}
	if old := r.Budget.LayOver(Budget{}); r.code == codeBudgetSpent && r.Budget != nil &&
		budget.Calls <= old.Calls && budget.Tokens <= old.Tokens && budget.Money <= old.Money {
		return newRefusal("the run has spent its budget, and the new one is not larger: calls %d, tokens %d, money %g; "+
			"raise it with --budget-calls, --budget-tokens or --budget-money", old.Calls, old.Tokens, old.Money)
	}
	return nil
}

func (r *run) mayCancel() error {
	switch {
	case r.phase == PhaseEnding:
		return newEndedRefusal("the run is ending and can no longer be cancelled")
	case r.steering.cancelling:
		return newRefusal("the run is being cancelled already")
	}
	return nil
}

// writeCommand has SteerRun write down a command that stops a run or has it go on.
func (r *run) writeCommand(ctx workflow.Context, command string, budget *Budget) (stopped Stopped, err error) {
	err = r.writeSteer(ctx, Steer{Command: command, NewBudget: budget}, &stopped)
	return stopped, err
}

// writeSteer has SteerRun write a command down, one at a time, also while the run is being cancelled from outside.
func (r *run) writeSteer(ctx workflow.Context, steer Steer, reported *Stopped) error {
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	if err := r.steering.lock.Lock(ctx); err != nil {
		return err
	}
	defer r.steering.lock.Unlock()
	if r.steering.cancelling && steer.Command != UpdateCancel { // it came while this one waited
		return newRefusal("the run is being cancelled")
	}
	steer.Build = r.Build
	err := executeActivity(withSoon(ctx, r.Build, time.Minute), SteerRun, steer, reported)
	below := steer.Command == UpdatePause || steer.Command == UpdateCancel
	if err == nil && r.publisher != nil && below {
		ends := Steer{Build: *r.publisher, Command: UpdateCancel}
		err = executeActivity(withSoon(ctx, r.Build, time.Minute), SteerRun, ends, nil)
	}
	return err
}

// withReceipt has a command that says nothing answered with a receipt.
func withReceipt[In any](obey func(workflow.Context, In) error) func(workflow.Context, In) (Receipt, error) {
	return func(ctx workflow.Context, in In) (Receipt, error) { return Receipt{}, obey(ctx, in) }
}

// endCommand ends what write wrote, unless a later command is being written down already.
func (r *run) endCommand(command string) {
	if r.steering.writing == command {
		r.steering.writing = ""
	}
}

// isIdle says that nothing of the run is in flight: it obeys without the record that activities look at, so that a
// store that is down keeps no person from pausing or cancelling.
func (r *run) isIdle() bool { return r.phase == PhasePaused || r.phase == PhaseWaiting }

func (r *run) obeyPause(ctx workflow.Context) (Stopped, error) {
	r.steering.writing = UpdatePause
	r.steering.forgetResume()
	defer r.endCommand(UpdatePause)
	stopped, err := r.writeCommand(ctx, UpdatePause, nil)
	if err != nil && (!r.isIdle() || r.steering.cancelling) {
		return Stopped{}, err
	}
	r.steering.wish = wishPause
	return stopped, nil
}

// obeyResume lets a run that is paused or waits go on, and takes back a pause that has not taken effect yet.
func (r *run) obeyResume(ctx workflow.Context, in Resume) error {
	r.steering.writing = UpdateResume
	defer r.endCommand(UpdateResume)
	// The stores may tell people of the pause before the workflow hears that it is written down.
	settled := func() bool { return r.phase != PhasePausing && !r.steering.noting || r.steering.cancelling }
	if err := workflow.Await(ctx, settled); err != nil {
		return err
	}
	var budget *Budget
	if in.Budget != nil && *in.Budget != (Budget{}) {
		merged := in.Budget.LayOver(r.Budget.LayOver(Budget{}))
		budget = &merged
	}
	if _, err := r.writeCommand(ctx, UpdateResume, budget); err != nil {
		return err
	}
	if r.steering.cancelling || r.phase == PhaseEnding {
		return newEndedRefusal("the run ended before it could be resumed")
	}
	if budget != nil {
		r.Budget = budget
	}
	r.steering.wish, r.outage = wishResume, outage{}
	r.code, r.phase = "", PhaseRunning
	return nil
}

func (r *run) obeyCancel(ctx workflow.Context) (Stopped, error) {
	r.steering.cancelling = true
	idle := r.isIdle()
	stopped, err := r.writeCommand(ctx, UpdateCancel, nil)
	if err != nil && (!idle || !r.isIdle()) {
		r.steering.cancelling = false
		return Stopped{}, err
	}
	// Activities may see the command, and the run end by it, before it is acknowledged.
	if r.phase == PhaseEnding && r.status == statusCancelled {
		return stopped, nil
	}
	if r.phase == PhaseEnding {
		return Stopped{}, newEndedRefusal("the run ended before it could be cancelled")
	}
	r.cancel()
	return stopped, nil
}
