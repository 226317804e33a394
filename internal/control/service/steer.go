package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// patience is how long a command waits for a worker to obey it. A worker that lives answers within seconds.
const patience = 90 * time.Second

var (
	errUnknownUpdate = errors.New("its worker does not support this command")
	errUnanswered    = errors.New("no worker carried out the command")
)

// PauseRun implements Control.
func (s *Service) PauseRun(ctx context.Context, name string) (stopped control.Stopped, err error) {
	work, _, err := s.resolveRun(ctx, name)
	if err != nil {
		return stopped, err
	}
	err = s.recordCommand(ctx, core.ActionPause, work, "", func() error {
		return s.sendCommand(ctx, work, workflows.UpdatePause, &stopped)
	})
	return stopped, err
}

// ResumeRun implements Control.
func (s *Service) ResumeRun(ctx context.Context, name string, budget *core.Budget) error {
	work, _, err := s.resolveRun(ctx, name)
	if err != nil {
		return err
	}
	// The workflow refuses this too; what it was spent on is in the state, and zero where that cannot be read.
	state, _ := s.runLog().ReadState(ctx, work)
	report := state.Report
	switch {
	case budget == nil && report.Status == core.StatusPaused && report.Reason == string(fault.BudgetSpent):
		return fault.BudgetSpent.At("resume run", work).
			Because(fmt.Sprintf("its budget is spent: %d calls, %d tokens, money %.4f so far",
				report.Calls.Sum(), report.Tokens.Sum(), report.Cost)).
			Advise("set a larger one, counted from the start of the run: " +
				"--budget-calls, --budget-tokens or --budget-money")
	case budget == nil:
	case budget.Calls < 0 || budget.Tokens < 0 || budget.Money < 0:
		return fault.Usage.At("resume run", work).Because("a budget cannot be negative")
	default:
		if why := describeExhausted(report, *budget); why != "" {
			return fault.Usage.At("resume run", work).
				Because(why).
				Advise("set a larger budget: it counts from the start of the run")
		}
	}
	return s.recordCommand(ctx, core.ActionResume, work, "", func() error {
		return s.sendCommand(ctx, work, workflows.UpdateResume, nil, workflows.Resume{Budget: (*workflows.Budget)(budget)})
	})
}

// describeExhausted says what a budget leaves nothing of; what was sent and is not settled counts too, as it does in a
// run.
func describeExhausted(report core.Report, budget core.Budget) string {
	lost := report.Unsettled
	callsSpent, tokensSpent := report.Calls.Sum()+lost.Calls.Sum(), report.Tokens.Sum()+lost.Tokens.Sum()
	moneySpent := report.Cost + report.Unsettled.Cost
	switch {
	case budget.Calls > 0 && callsSpent >= budget.Calls:
		return fmt.Sprintf("the run has already spent %d calls of %d", callsSpent, budget.Calls)
	case budget.Tokens > 0 && tokensSpent >= budget.Tokens:
		return fmt.Sprintf("the run has already spent %d tokens of %d", tokensSpent, budget.Tokens)
	case budget.Money > 0 && moneySpent >= budget.Money:
		return fmt.Sprintf("the run has already spent %s of %g",
			strings.TrimSpace(fmt.Sprintf("%.4f %s", moneySpent, report.Currency)), budget.Money)
	}
	return ""
}

// CancelRun implements Control. What was paid for is kept; nothing that queries see changes. A worker that does not
// know the update is asked through Temporal, which acknowledges at once; so is one that does not answer in time, and
// then the error says that calls may still start.
func (s *Service) CancelRun(ctx context.Context, name string) (stopped control.Stopped, err error) {
	work, _, err := s.resolveRun(ctx, name)
	if err != nil {
		return stopped, err
	}
	err = s.recordCommand(ctx, core.ActionCancel, work, "", func() error { return s.cancelRun(ctx, work, &stopped) })
	return stopped, err
}

func (s *Service) cancelRun(ctx context.Context, work string, stopped *control.Stopped) error {
	err := s.sendCommand(ctx, work, workflows.UpdateCancel, stopped)
	switch {
	case errors.Is(err, errUnknownUpdate):
		return s.mapRefusal(ctx, work, workflows.UpdateCancel, s.Client.CancelWorkflow(ctx, workflows.WorkflowID(work), ""))
	case errors.Is(err, errUnanswered):
		if other := s.Client.CancelWorkflow(ctx, workflows.WorkflowID(work), ""); other != nil {
			return errors.Join(err, s.toFault(other))
		}
		return fault.EngineDown.At("cancel run", work).
			Because(err).
			Advise("Temporal was asked to cancel the run; it ends when a worker responds, and calls may start until then")
	}
	return err
}

// MarkLost implements Control.
func (s *Service) MarkLost(ctx context.Context, name string) error {
	index, generation, err := parseRun(name)
	if err != nil {
		return err
	}
	if strings.HasPrefix(generation, workflows.RestoreGeneration) ||
		strings.HasPrefix(generation, workflows.AuditGeneration) {
		return fault.Usage.At("free the lease of", index).Because(name + " is a restore or an audit, which holds no lease")
	}
	return s.recordCommand(ctx, core.ActionLost, strings.TrimSuffix(index+"/"+generation, "/"), "", func() error {
		return s.freeLease(ctx, index, generation)
	})
}

func (s *Service) freeLease(ctx context.Context, index, generation string) error {
	err := run.FreeLease(ctx, s.indexOf(index), generation, func(ctx context.Context, work run.Holder) (bool, error) {
		return s.isRunning(ctx, work.Workflow, work.Run)
	})
	if generation != "" || !fault.Is(err, fault.SegmentDamage) {
		return err
	}
	open, _, err := s.openBuilds(ctx, index)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		return fault.LeaseHeld.At("mend the lease of", index).
			Because("Temporal runs " + open[0]).
			Advise("to end it: unweaver cancel " + open[0])
	}
	return run.MendLease(ctx, s.indexOf(index))
}

// sendCommand sends an update to the workflow of a run and waits until it is obeyed. answer takes what the
// workflow says; it is decoded also where nil, which is what shows that a worker of the installation gave it.
func (s *Service) sendCommand(ctx context.Context, work, update string, answer any, args ...any) error {
	if answer == nil {
		answer = &workflows.Receipt{}
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	handle, err := s.Client.UpdateWorkflow(bounded, client.UpdateWorkflowOptions{
		WorkflowID:   workflows.WorkflowID(work),
		UpdateName:   update,
		Args:         args,
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(bounded, answer)
	}
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return s.newUnansweredFault(ctx, work, update)
	}
	return s.mapRefusal(ctx, work, update, err)
}

// newUnansweredFault returns the fault of a command that no worker obeyed in time.
func (s *Service) newUnansweredFault(ctx context.Context, work, update string) error {
	why := fmt.Errorf("%w within %s; it may still take effect", errUnanswered, patience)
	if err := s.checkWorkers(ctx); err != nil {
		why = fmt.Errorf("%w: %w", why, err)
	}
	return fault.EngineDown.At(update+" run", work).Because(why).Advise("see: unweaver status " + work)
}

// mapRefusal maps the answers to a command: what the workflow says, and what Temporal says in its place.
func (s *Service) mapRefusal(ctx context.Context, work, update string, err error) error {
	app, refused := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case refused && strings.HasPrefix(app.Message(), "unknown update "):
		return fault.Usage.At(update+" run", work).
			Because(errUnknownUpdate).
			Advise("use a worker of the same version; unweaver cancel " + work + " always works")
	case refused:
		return s.newRefusal(ctx, app, work, update)
	case engine.Is[*serviceerror.NotFound](err):
		return s.newEndedFault(ctx, work, update)
	}
	return s.toFault(err)
}

// newRefusal returns the fault of a command that the workflow, or an activity on its behalf, refused. Its type is a
// fault's code where it comes from this program.
func (s *Service) newRefusal(ctx context.Context, app *temporal.ApplicationError, work, update string) error {
	code := fault.Code(app.Type())
	if !fault.IsKnown(code) {
		code = fault.Usage
	}
	advice := "see: unweaver status " + work
	if code == fault.BudgetSpent {
		advice = "give the run a new budget: --budget-calls, --budget-tokens or --budget-money"
	}
	return code.At(update+" run", work).Because(s.failureText(ctx, app)).Advise(advice)
}

// failureText returns the text behind an activity's code, which history must not hold: the error refers to the file
// that does.
func (s *Service) failureText(ctx context.Context, app *temporal.ApplicationError) string {
	var ref string
	if app.HasDetails() && app.Details(&ref) == nil && ref != "" {
		var failure run.Failure
		if _, err := blob.ReadJSON(ctx, s.Stores.Artifacts, ref, &failure); err == nil {
			return failure.Text
		}
	}
	return app.Message()
}

// newEndedFault returns the fault of a command to a run that is no more, or never was.
func (s *Service) newEndedFault(ctx context.Context, work, update string) error {
	status := ""
	if report, ok := s.runLog().FindReport(ctx, work); ok {
		status = report.Status
	} else if state, err := s.runLog().ReadState(ctx, work); err == nil {
		status = state.Report.Status
	}
	if status == "" {
		index, _, _ := strings.Cut(work, "/")
		return fault.RunNotFound.At(update+" run", work).
			Because("the run does not exist").
			Advise("see: unweaver status " + index)
	}
	if !core.IsTerminal(status) {
		status = "outside of its own control while it was " + status
	}
	return fault.RunEnded.At(update+" run", work).
		Because("run " + work + " has ended: " + status).
		Advise("see: unweaver status " + work)
}

// LimitRun implements Control. What is given is sent as one update each, and each is obeyed or refused by itself: the
// error says which was refused, and what took effect before it.
func (s *Service) LimitRun(ctx context.Context, r control.LimitRequest) error {
	run, _, err := s.resolveRun(ctx, r.Run)
	if err != nil {
		return err
	}
	commands, change, err := limitCommands(r)
	if r.Budget != nil && err == nil {
		if state, unread := s.runLog().ReadState(ctx, run); unread == nil {
			if why := describeExhausted(state.Report, *r.Budget); why != "" {
				err = errors.New(why)
			}
		}
	}
	if err != nil {
		return fault.Usage.At("limit run", run).
			Because(err).
			Advise("for help: unweaver limit --help")
	}
	return s.recordCommand(ctx, core.ActionLimit, run, change, func() error {
		var done []string
		for _, one := range commands {
			err := s.sendCommand(ctx, run, one.update, nil, one.input)
			if err != nil && len(done) > 0 {
				return fault.CodeOf(err).At("limit run", run).
					Because(fmt.Errorf("%s took effect; %w", strings.Join(done, ", "), err))
			}
			if err != nil {
				return err
			}
			done = append(done, one.update)
		}
		return nil
	})
}

// limitation is an update with its input.
type limitation struct {
	update string
	input  any
}

// limitCommands gives the updates that a request stands for, the budget first, and the words of the audit trail for it.
func limitCommands(r control.LimitRequest) (commands []limitation, change string, err error) {
	var words []string
	if b := r.Budget; b != nil {
		switch {
		case *b == core.Budget{}:
			return nil, "", errors.New("the budget is empty: give calls, tokens or money above zero")
		case b.Calls < 0 || b.Tokens < 0 || !(b.Money >= 0): // not a number too
			return nil, "", errors.New("a budget cannot be negative")
		}
		commands = append(commands, limitation{workflows.UpdateBudget, workflows.Budget(*b)})
		words = append(words, fmt.Sprintf("budget: calls %d, tokens %d, money %g", b.Calls, b.Tokens, b.Money))
	}
	if l := r.Limits; l != nil {
		if err := l.Check(); err != nil {
			return nil, "", err
		}
		if l.Concurrency != nil {
			input := workflows.Limits{Concurrency: l.Concurrency}
			commands = append(commands, limitation{workflows.UpdateConcurrency, input})
		}
		if l.RequestsPerMinute != nil || l.TokensPerMinute != nil {
			input := workflows.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute}
			commands = append(commands, limitation{workflows.UpdateRates, input})
		}
		words = append(words, l.String())
	}
	if len(commands) == 0 {
		return nil, "", errors.New("neither a limit nor a budget is given")
	}
	return commands, strings.Join(words, ", "), nil
}
