package runs

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) limitCmd() *cobra.Command {
	var concurrency, requests, tokens int
	command := &cobra.Command{
		Use:     "limit RUN",
		Short:   "Change the limits or the budget of a running run",
		Example: "  unweaver limit docs --concurrency 8 --budget-money 20",
		Long: `Change the limits or the budget of a running run.

The change takes effect within two seconds in all workers, also for queued calls. Calls in flight are not affected.
Limits that you do not give stay unchanged. A rate allows the calls of one minute at once, as the configured rate
does. A budget counts from the start of the run. A run that paused because its budget is spent is resumed with a new
budget instead: unweaver resume.

` + runForm,
		Args: console.RequireArgs(1, 1, "a RUN"),
	}
	flags := command.Flags()
	flags.IntVar(&concurrency, "concurrency", 0, "concurrent calls to a model endpoint, at least 1")
	console.LeastOne(command, "concurrency")
	flags.IntVar(&requests, "requests-per-minute", 0, "requests a minute to a model endpoint; 0 = no limit")
	flags.IntVar(&tokens, "tokens-per-minute", 0, "tokens a minute to a model endpoint; 0 = no limit")
	given := addBudgetFlags(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		asked := control.LimitRequest{Run: args[0], Budget: given()}
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
		if asked.Budget == nil || limits != (core.LiveLimits{}) {
			if err := limits.Check(); err != nil {
				return fault.Usage.At("limit run", args[0]).Because(err).Advise("see: unweaver limit --help")
			}
			asked.Limits, text = &limits, ", "+limits.String()
		}
		return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
			if err := controller.LimitRun(ctx, asked); err != nil {
				return err
			}
			shown := struct {
				Done string `json:"done"`
				control.LimitRequest
			}{"limit", asked}
			return a.PrintOut(shown, func(w io.Writer) {
				fmt.Fprintf(w, "%s: limit%s%s\n", args[0], text, budgetText(asked.Budget))
			})
		})
	}
	return a.AddAuditFlags(command)
}
