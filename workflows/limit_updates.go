package workflows

import "go.temporal.io/sdk/workflow"

// What a run may be given while it runs.
const (
	maxConcurrency = 100_000
	maxRate        = 1_000_000_000_000
)

// listenLimits takes the commands that change what a running run may do. They are written down for the activities, of
// which each process looks once a second and before each call, and change nothing of the order of the work.
func (r *run) listenLimits(ctx workflow.Context) error {
	for _, one := range []struct {
		name, about string
		may         func(Limits) error
	}{
		{UpdateConcurrency, "limit of concurrent calls to a model's endpoint, over all workers", r.mayConcurrency},
		{UpdateRates, "limit of requests and tokens per minute, over all workers", r.mayRates},
	} {
		obey := withReceipt(func(ctx workflow.Context, in Limits) error { return r.obeyLimits(ctx, one.name, in) })
		options := workflow.UpdateHandlerOptions{Validator: one.may, Description: one.about}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, one.name, obey, options); err != nil {
			return err
		}
	}
	options := workflow.UpdateHandlerOptions{
		Validator:   r.mayBudget,
		Description: "limit of what the run pays for in total",
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateBudget, withReceipt(r.obeyBudget), options)
}

// mayLimit refuses a run that makes no calls, or none any more.
func (r *run) mayLimit() error {
	switch {
	case r.Spec == "":
		return newRefusal("the run uses no models that can be limited")
	case r.phase == PhaseEnding || r.steering.cancelling:
		return newEndedRefusal("the run is ending and its limits can no longer be changed")
	}
	return nil
}

func (r *run) mayConcurrency(in Limits) error {
	if err := r.mayLimit(); err != nil {
		return err
	}
	switch calls := in.Concurrency; {
	case calls == nil || in.RequestsPerMinute != nil || in.TokensPerMinute != nil:
		return newRefusal("want a concurrency and nothing else")
	case *calls < 1 || *calls > maxConcurrency:
		return newRefusal("concurrency: want 1 to %d, got %d; to stop all calls, pause the run", maxConcurrency, *calls)
	}
	return nil
}

func (r *run) mayRates(in Limits) error {
	if err := r.mayLimit(); err != nil {
		return err
	}
	if in.Concurrency != nil || in.RequestsPerMinute == nil && in.TokensPerMinute == nil {
		return newRefusal("want requests or tokens a minute and nothing else")
	}
	for _, rate := range []*int{in.RequestsPerMinute, in.TokensPerMinute} {
		if rate != nil && (*rate < 0 || *rate > maxRate) {
			return newRefusal("rates: want 0 (no limit) to %d per minute, got %d", maxRate, *rate)
		}
	}
	return nil
}

func (r *run) mayBudget(in Budget) error {
	if err := r.mayLimit(); err != nil {
		return err
	}
	switch {
	case in == Budget{}:
		return newRefusal("no budget is given: want calls, tokens or money above zero")
	case in.isNegative():
		return newRefusal("a budget must not be negative")
	case r.code == codeBudgetSpent:
		return newRefusal("the run is paused because its budget is spent: resume it with a larger budget")
	}
	return nil
}

func (r *run) obeyLimits(ctx workflow.Context, command string, in Limits) error {
	return r.writeSteer(ctx, Steer{Command: command, NewLimits: &in}, &Stopped{})
}

func (r *run) obeyBudget(ctx workflow.Context, in Budget) error {
	merged := in.LayOver(r.Budget.LayOver(Budget{}))
	if err := r.writeSteer(ctx, Steer{Command: UpdateBudget, NewBudget: &merged}, &Stopped{}); err != nil {
		return err
	}
	r.Budget = &merged
	return nil
}
