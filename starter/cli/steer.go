package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

const runForm = "RUN is index/generation as index and status print it, or an index for its newest run."

func (a *App) pauseCmd() *cobra.Command {
	return a.steerCmd("pause", "Pause a run: what is in flight is kept, nothing new is paid for", control.Control.PauseRun)
}

func (a *App) cancelCmd() *cobra.Command {
	var lost bool
	command := a.steerCmd("cancel", "Cancel a run: what queries see does not change",
		func(controller control.Control, ctx context.Context, run string) (control.Stopped, error) {
			if lost {
				return control.Stopped{}, controller.MarkLost(ctx, run)
			}
			return controller.CancelRun(ctx, run)
		})
	command.Long = `Cancel a run: what queries see does not change.

With --lost the run is declared lost instead: the Temporal that ran it is gone, or does not know it any more, and its
index cannot be built because it still holds the lease. This frees the lease. It is refused while Temporal runs the run,
and while a process works on it, for which the lease is watched for up to two minutes. An index in place of RUN stands
for whichever run holds its lease, and is needed where lease.json cannot be read.

` + runForm
	command.Flags().BoolVar(&lost, "lost", false, "free the lease of a run that will never go on")
	return command
}

// steerCmd returns a command that does one thing to a run.
func (a *App) steerCmd(
	name, short string,
	steer func(controller control.Control, ctx context.Context, run string) (control.Stopped, error),
) *cobra.Command {
	return a.addAuditFlags(&cobra.Command{
		Use:   name + " RUN",
		Short: short,
		Long:  short + ".\n\n" + runForm,
		Args:  requireArgs(1, 1, "a RUN"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, args []string) error {
			stopped, err := steer(controller, ctx, args[0])
			if err != nil {
				return err
			}
			shown := struct {
				Run  string `json:"run"`
				Done string `json:"done"`
				control.Stopped
			}{args[0], name, stopped}
			return a.printOut(shown, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s%s\n", args[0], name, inFlightText(stopped))
			})
		}),
	})
}

// inFlightText says what a command that stops a run let end.
func inFlightText(stopped control.Stopped) string {
	switch calls := stopped.InFlight; {
	case calls == nil:
		return ""
	case *calls == 0:
		return ", no call was in flight"
	case *calls == 1:
		return ", 1 call was in flight: it is paid for and kept"
	default:
		return fmt.Sprintf(", %d calls were in flight: they are paid for and kept", *calls)
	}
}

func (a *App) resumeCmd() *cobra.Command {
	var budget core.Budget
	command := &cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a paused run",
		Long: `Resume a paused run.

A run that paused because its budget is spent needs a new one. A budget counts from the run's beginning, so that it has
to be larger than what was spent; a bound that is not given stays as it was.

` + runForm,
		Args: requireArgs(1, 1, "a RUN"),
	}
	flags := command.Flags()
	flags.Int64Var(&budget.Calls, "budget-calls", 0, "new budget: calls that the run may pay for; 0 = as before")
	flags.Int64Var(&budget.Tokens, "budget-tokens", 0, "new budget: tokens that the run may pay for; 0 = as before")
	flags.Float64Var(&budget.Money, "budget-money", 0, "new budget: money that the run may spend; 0 = as before")
	command.RunE = func(command *cobra.Command, args []string) error {
		given := givenBudget(command, budget)
		return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
			if err := controller.ResumeRun(ctx, args[0], given); err != nil {
				return err
			}
			shown := struct {
				Run    string       `json:"run"`
				Done   string       `json:"done"`
				Budget *core.Budget `json:"budget,omitempty"`
			}{args[0], "resume", given}
			return a.printOut(shown, func(w io.Writer) {
				fmt.Fprintf(w, "%s: resume%s\n", args[0], budgetText(given))
			})
		})
	}
	return a.addAuditFlags(command)
}

// givenBudget returns the budget; nil where no flag of it was given.
func givenBudget(command *cobra.Command, budget core.Budget) *core.Budget {
	if !slices.ContainsFunc([]string{"budget-calls", "budget-tokens", "budget-money"}, command.Flags().Changed) {
		return nil
	}
	return &budget
}

// budgetText names the bounds of a new budget.
func budgetText(budget *core.Budget) string {
	if budget == nil {
		return ""
	}
	var bounds []string
	if budget.Calls > 0 {
		bounds = append(bounds, fmt.Sprintf("%d calls", budget.Calls))
	}
	if budget.Tokens > 0 {
		bounds = append(bounds, fmt.Sprintf("%d tokens", budget.Tokens))
	}
	if budget.Money > 0 {
		bounds = append(bounds, fmt.Sprintf("%g in money", budget.Money))
	}
	if len(bounds) == 0 {
		return ", with the budget that it had"
	}
	return ", with a budget of " + strings.Join(bounds, ", ")
}
