package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

func (a *App) limitCmd() *cobra.Command {
	var budget core.Budget
	var concurrency, requests, tokens int
	command := &cobra.Command{
		Use:   "limit RUN",
		Short: "Give a run that is at work other limits, or another budget",
		Long: `Give a run that is at work other limits, or another budget.

It takes effect within two seconds, in all workers and for what is queued there; calls that are in flight end as they
are. What is not given stays as it was. A rate lets the calls of a minute go at once, as that of the configuration does.
A budget counts from the run's beginning; a run that paused since its budget is spent is resumed with a new one instead.

` + runForm,
		Args: requireArgs(1, 1, "a RUN"),
	}
	flags := command.Flags()
	flags.IntVar(&concurrency, "concurrency", 0, "calls in flight to an endpoint of a model, 1 at least")
	leastOne(command, "concurrency")
	flags.IntVar(&requests, "requests-per-minute", 0, "requests a minute to an endpoint; 0 = no limit")
	flags.IntVar(&tokens, "tokens-per-minute", 0, "tokens a minute to an endpoint; 0 = no limit")
	flags.Int64Var(&budget.Calls, "budget-calls", 0, "new budget: calls that the run may pay for; 0 = as before")
	flags.Int64Var(&budget.Tokens, "budget-tokens", 0, "new budget: tokens that the run may pay for; 0 = as before")
	flags.Float64Var(&budget.Money, "budget-money", 0, "new budget: money that the run may spend; 0 = as before")
	command.RunE = func(command *cobra.Command, args []string) error {
		given := givenBudget(command, budget)
		asked := control.LimitRequest{Run: args[0], Budget: given}
		text, limits := "", core.LiveLimits{}
		for name, set := range map[string]func(){
			"concurrency":         func() { limits.Concurrency = &concurrency },
			"requests-per-minute": func() { limits.RequestsPerMinute = &requests },
			"tokens-per-minute":   func() { limits.TokensPerMinute = &tokens },
		} {
			if flags.Changed(name) {
				set()
			}
		}
		if given == nil || limits != (core.LiveLimits{}) {
			if err := limits.Check(); err != nil {
				return fault.Usage.At("limit run", args[0]).Because(err).Advise("see: unweaver limit --help")
			}
			asked.Limits, text = &limits, ", "+limits.String()
		}
		return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
			if err := controller.LimitRun(ctx, asked); err != nil {
				return err
			}
			shown := struct {
				Done string `json:"done"`
				control.LimitRequest
			}{"limit", asked}
			return a.printOut(shown, func(w io.Writer) {
				fmt.Fprintf(w, "%s: limit%s%s\n", args[0], text, budgetText(given))
			})
		})
	}
	return a.addAuditFlags(command)
}
