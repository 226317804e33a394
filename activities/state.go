package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// BeginStage closes the stage before and starts the next in the run's state.
func (a *Activities) BeginStage(ctx context.Context, in workflows.StageState) (workflows.Receipt, error) {
	if err := checkBuild(in.Build, in.Stage, true); err != nil { // it is logged below
		return workflows.Receipt{}, a.refuseInput(err)
	}
	a.Log.Info("stage begins", "run_id", newJob(in.Build).Name(), "stage", in.Stage, "total", in.Total)
	return workflows.Receipt{}, a.runFrame(ctx, in.Build, frame{stage: in.Stage, spec: true},
		func(ctx context.Context, work *upkeep.Run) error {
			return work.BeginStage(ctx, holderOf(ctx), in.Stage, in.Total)
		})
}

// EndBuild records how a build ends, or that it pauses. A build that ends gives its lease back. It reports whether a
// webhook is to be called.
func (a *Activities) EndBuild(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	return a.recordEnd(ctx, end, frame{stage: "end", spec: true}, func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, leaseHolderOf(ctx, work), toEnding(end))
	})
}

func toEnding(end workflows.End) run.Ending {
	return run.Ending{
		Status: end.Status, Reason: end.Reason, Ref: end.Ref, Detail: end.Detail, Unchanged: end.Unchanged,
		Waiting: (*core.Waiting)(end.Waiting), Warning: (*run.Warning)(end.Warning),
	}
}

// stageSteer is a command that a person gave: what is refused is shown to them, and is no problem of the run.
const stageSteer = "steer"

// SteerRun writes what the activities of a run look at. When it returns after pause or cancel, no paid call starts any
// more, and it says how many were in flight. A resume of a run whose budget is spent needs a larger one.
func (a *Activities) SteerRun(ctx context.Context, steer workflows.Steer) (workflows.Stopped, error) {
	f := frame{stage: stageSteer, spec: true, bad: checkSteer(steer)}
	if steer.Spec == "" { // a restore: it has no configuration
		f = ofBare(steer.Build, false, f.bad)
	}
	return makeIn(ctx, a, steer.Build, f, func(
		ctx context.Context, work *upkeep.Run,
	) (stopped workflows.Stopped, err error) {
		var budget *core.Budget
		if steer.NewBudget != nil {
			all := overlayBudget(steer.NewBudget, work.Settings.Budget)
			budget = &all
		}
		switch steer.Command {
		case run.CommandConcurrency, run.CommandBudget, run.CommandRates:
			return stopped, work.LimitRun(ctx, budget, (*core.LiveLimits)(steer.NewLimits))
		}
		stopped.InFlight, err = work.Steer(ctx, steer.Command, budget)
		return stopped, err
	})
}

// overlayBudget lays what a person gave at a resume over the budget before it.
func overlayBudget(budget *workflows.Budget, older core.Budget) core.Budget {
	return core.Budget(budget.LayOver(workflows.Budget(older)))
}
