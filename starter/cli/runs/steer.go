package runs

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

const runForm = "RUN is index/generation, as index and status print it. The name of an index selects its newest run."

func (a app) pauseCmd() *cobra.Command {
	return a.steerCmd("pause", "Pause a run: calls in flight finish, and no new call starts",
		func(c control.Control, ctx context.Context, run string) (control.Stopped, error) {
			return c.PauseRun(ctx, run)
		})
}

func (a app) cancelCmd() *cobra.Command {
	var lost bool
	command := a.steerCmd("cancel", "Cancel a run: the served generation does not change",
		func(controller control.Control, ctx context.Context, run string) (control.Stopped, error) {
			if lost {
				return control.Stopped{}, controller.MarkLost(ctx, run)
			}
			return controller.CancelRun(ctx, run)
		})
	command.Long = `Cancel a run: the served generation does not change.

With --lost the command declares the run lost, and frees the lease of its index. Use it if the index cannot be built
because the run holds the lease, and the Temporal that ran the run is gone or no longer knows it. The command refuses
while Temporal runs the run, and while a process works on it; it watches the lease for up to two minutes to find out.
An index in place of RUN selects the run that holds its lease; this form is needed if lease.json cannot be read.

` + runForm
	command.Example += "\n  unweaver cancel docs/20261122t020000z --lost"
	command.Flags().BoolVar(&lost, "lost", false, "free the lease of a run that can never continue")
	return command
}

// steerCmd returns a command that does one thing to a run.
func (a app) steerCmd(
	name, short string,
	steer func(controller control.Control, ctx context.Context, run string) (control.Stopped, error),
) *cobra.Command {
	return a.AddAuditFlags(&cobra.Command{
		Use:     name + " RUN",
		Short:   short,
		Example: "  unweaver " + name + " docs",
		Long:    short + ".\n\n" + runForm,
		Args:    console.RequireArgs(1, 1, "a RUN"),
		RunE: console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (outcome, error) {
			stopped, err := steer(c, ctx, args[0])
			return outcome{Run: args[0], Done: name, Stopped: stopped}, err
		}, func(w io.Writer, done outcome) {
			fmt.Fprintf(w, "%s: %s%s\n", done.Run, done.Done, inFlightText(done.Stopped))
		}),
	})
}

// outcome is what a command did to a run.
type outcome struct {
	Run    string       `json:"run"`
	Done   string       `json:"done"`
	Budget *core.Budget `json:"budget,omitempty"`
	control.Stopped
}

// inFlightText says what a command that stops a run let end.
func inFlightText(stopped control.Stopped) string {
	switch calls := stopped.InFlight; {
	case calls == nil:
		return ""
	case *calls == 0:
		return ", no call was in flight"
	case *calls == 1:
		return ", 1 call was in flight: its answer is paid for and kept"
	default:
		return fmt.Sprintf(", %d calls were in flight: their answers are paid for and kept", *calls)
	}
}

func (a app) resumeCmd() *cobra.Command {
	command := &cobra.Command{
		Use:     "resume RUN",
		Short:   "Resume a paused run",
		Example: "  unweaver resume docs\n  unweaver resume docs --budget-calls 20000",
		Long: `Resume a paused run.

A run that paused because its budget is spent needs a new budget. A budget counts from the start of the run, so it
must be larger than what the run has spent. Parts of the budget that you do not give stay unchanged.

` + runForm,
		Args: console.RequireArgs(1, 1, "a RUN"),
	}
	given := addBudgetFlags(command)
	command.RunE = console.NewReport(a.App, func(ctx context.Context, c control.Control, args []string) (outcome, error) {
		return outcome{Run: args[0], Done: "resume", Budget: given()}, c.ResumeRun(ctx, args[0], given())
	}, func(w io.Writer, done outcome) { fmt.Fprintf(w, "%s: resume%s\n", done.Run, budgetText(done.Budget)) })
	return a.AddAuditFlags(command)
}

// addBudgetFlags gives a command the flags of a new budget. given returns it; nil where no flag of it was given.
func addBudgetFlags(command *cobra.Command) (given func() *core.Budget) {
	var budget core.Budget
	flags := command.Flags()
	flags.Int64Var(&budget.Calls, "budget-calls", 0, "new budget: paid calls; 0 = unchanged")
	flags.Int64Var(&budget.Tokens, "budget-tokens", 0, "new budget: paid tokens; 0 = unchanged")
	flags.Float64Var(&budget.Money, "budget-money", 0, "new budget: money; 0 = unchanged")
	return func() *core.Budget {
		if !slices.ContainsFunc([]string{"budget-calls", "budget-tokens", "budget-money"}, flags.Changed) {
			return nil
		}
		return &budget
	}
}

// budgetText names the bounds of a new budget.
func budgetText(budget *core.Budget) string {
	switch {
	case budget == nil:
		return ""
	case *budget == core.Budget{}:
		return ", with its earlier budget"
	}
	return ", with " + show.Budget(*budget, "in money")
}
