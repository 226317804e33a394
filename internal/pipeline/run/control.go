package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Commands that stop a run.
const (
	CommandPause  = "pause"
	CommandResume = "resume"
	CommandCancel = "cancel"
)

// Commands that change what a running one may do.
const (
	CommandConcurrency = "concurrency"
	CommandBudget      = "budget"
	CommandRates       = "rates"
)

// Control is the record that every unit looks at when it begins, and every paid call before it is sent.
type Control struct {
	Stop   string       `json:"stop,omitempty"`   // pause or cancel; empty: go on
	Budget *core.Budget `json:"budget,omitempty"` // given at a resume; nil: the configuration's

	Limits *core.LiveLimits `json:"limits,omitempty"` // given while it runs; nil: the configuration's

	Resumed time.Time `json:"resumed,omitzero"` // when a person did so last
}

// A look at the control record lets calls be sent for as long as admission after it came back; one that took longer
// than slowLook lets none. A command is acknowledged only when every look that began before it has lost its validity,
// so that no call starts after it.
const (
	slowLook       = time.Second
	admission      = 250 * time.Millisecond
	acknowledgment = slowLook + 2*admission
)

func parseControl(run string, raw []byte) (Control, error) {
	var control Control
	if raw == nil {
		return control, nil
	}
	err := json.Unmarshal(raw, &control)
	if b := control.Budget; err == nil && (string(raw) == "null" || b != nil && (b.Calls < 0 || b.Tokens < 0 ||
		b.Money < 0) || control.Limits != nil && control.Limits.Check() != nil) {
		err = errors.New("it contains an unknown command")
	}
	if err != nil {
		return control, fault.ControlUnreadable.At("read control record of", run).
			Because(err).
			Advise("to write it again: unweaver resume " + run)
	}
	return control, nil
}

// ReadControl reads the control record of a run; no record asks for nothing.
func ReadControl(ctx context.Context, runs coordination.Runs, run string) (Control, error) {
	raw, err := runs.ReadControl(ctx, run)
	if err != nil {
		return Control{}, err
	}
	return parseControl(run, raw)
}

// Steer writes what the units of a run look at. When it returns after pause or cancel, no paid call starts any more;
// those in flight are paid for and kept, and it says how many they are. A resume replaces a record that cannot be
// read.
func Steer(
	ctx context.Context, runs coordination.Runs, run, command string, budget *core.Budget,
) (inFlight int64, err error) {
	control, err := ReadControl(ctx, runs, run)
	if err != nil && (command != CommandResume || !fault.Is(err, fault.ControlUnreadable)) {
		return 0, err
	}
	control.Stop = command
	if command == CommandResume {
		control.Stop, control.Resumed = "", time.Now().UTC()
	}
	if budget != nil {
		control.Budget = budget
	}
	if err := writeControl(ctx, runs, run, control); err != nil || control.Stop == "" {
		return 0, err
	}
	if err := retry.Wait(ctx, acknowledgment); err != nil {
		return 0, err
	}
	total, err := ReadTotals(ctx, runs, run)
	if err != nil { // the command binds, and is not refused because counting failed
		return 0, nil //nolint:nilerr // see above
	}
	return total.InFlight.Sum(), nil
}

// WriteLimits writes other limits into what the units of a run look at: each process that works on it looks every
// second, and before it admits a call. What is nil stays as it was.
func WriteLimits(
	ctx context.Context, runs coordination.Runs, run string, budget *core.Budget, limits *core.LiveLimits,
) error {
	control, err := ReadControl(ctx, runs, run)
	if err != nil {
		return err
	}
	if budget != nil {
		control.Budget = budget
	}
	if limits != nil {
		if err := limits.Check(); err != nil {
			return fault.Usage.At("limit run", run).Because(err)
		}
		var older core.LiveLimits
		if control.Limits != nil {
			older = *control.Limits
		}
		merged := limits.LayOver(older)
		control.Limits = &merged
	}
	return writeControl(ctx, runs, run, control)
}

func writeControl(ctx context.Context, runs coordination.Runs, run string, control Control) error {
	raw, err := json.Marshal(control)
	if err != nil {
		return err
	}
	return runs.SetControl(ctx, run, raw)
}

// checkStopped says why a run must not go on, as far as its control record says.
func (c Control) checkStopped(run string) error {
	switch c.Stop {
	case "":
		return nil
	case CommandCancel:
		return fault.Cancelled.At("work on", run).Because("the run is cancelled")
	}
	return fault.Paused.At("work on", run).
		Because("the run is paused").
		Advise("to resume it: unweaver resume " + run)
}

// LimitBudget returns the budget that counts.
func (c Control) LimitBudget(configured core.Budget) core.Budget {
	if c.Budget != nil {
		return *c.Budget
	}
	return configured
}

// CheckBudget says that a budget is used up, with the true numbers, or nothing. What is in flight counts as called.
func CheckBudget(budget core.Budget, total Account, run string) error {
	calls, tokens := total.paidCalls(), total.paidTokens()
	inFlight := total.InFlight.Sum()
	expected := total.Expected.Prompt + total.Expected.Completion + total.Expected.Embedding
	over := (budget.Calls > 0 && calls+inFlight >= budget.Calls) ||
		(budget.Tokens > 0 && tokens+expected >= budget.Tokens) ||
		(budget.Money > 0 && total.Cost+total.Risk >= budget.Money)
	if !over {
		return nil
	}
	why := fmt.Sprintf("the run spent %d calls, %d tokens, cost %.4f", calls, tokens, total.Cost)
	if inFlight > 0 {
		why += fmt.Sprintf(", %d calls of about %d tokens are unanswered", inFlight, expected)
	}
	why += "; the budget is " + describeBudget(budget)
	return fault.BudgetSpent.At("work on", run).
		Because(why).
		Advise("to continue with a larger budget: unweaver resume " + run + budget.NameFlags())
}

func describeBudget(budget core.Budget) string {
	text := ""
	add := func(format string, value any) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf(format, value)
	}
	if budget.Calls > 0 {
		add("%d calls", budget.Calls)
	}
	if budget.Tokens > 0 {
		add("%d tokens", budget.Tokens)
	}
	if budget.Money > 0 {
		add("cost %.4f", budget.Money)
	}
	return text
}
