package activities

import (
	"context"

	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/workflows"
)

// MeasureFleet adds up what the workers can do that take from this worker's queue, and what the run's models bear. A
// stage does without it where it fails, so the run records no problem for it. A restore and an audit have no
// configuration, and ask no model.
func (a *Activities) MeasureFleet(ctx context.Context, b workflows.Build) (workflows.Capacity, error) {
	if err := checkBuild(b, "fleet", false); err != nil {
		return workflows.Capacity{}, a.refuseInput(err)
	}
	capacity, err := a.measureCapacity(ctx, b)
	if err != nil {
		code := string(fault.CodeOf(err))
		a.Log.Warn("cannot measure the fleet", "run_id", b.Index+"/"+b.Generation, "code", code)
		return workflows.Capacity{}, temporal.NewApplicationError(code, code)
	}
	return capacity, nil
}

func (a *Activities) measureCapacity(ctx context.Context, b workflows.Build) (capacity workflows.Capacity, err error) {
	defer parallel.CatchPanic(&err)
	work := a.Ports.OpenBare(newHeldJob(ctx, b), "fleet", "")
	defer work.Close()
	if b.Spec != "" {
		if err := work.Configure(ctx); err != nil {
			return workflows.Capacity{}, err
		}
	}
	size, err := fleet.Measure(ctx, work.Coordination, a.Self)
	if err != nil {
		return workflows.Capacity{}, err
	}
	capacity = workflows.Capacity{Workers: size.Workers, Slots: size.Slots, CPU: size.CPU, Computing: size.Computing}
	control, err := run.ReadControl(ctx, work.Coordination, work.Name())
	if err != nil {
		return workflows.Capacity{}, err
	}
	spec := work.Settings
	concurrency := func(of core.Limits) int { return limits.Concurrency(control.Limits.ApplyTo(of).Concurrency) }
	for _, role := range []string{core.RoleExtraction, core.RoleShortening} {
		if spec.ChatOf(role).Provider == "openai" {
			capacity.Chat = max(capacity.Chat, concurrency(spec.LimitsOf(role)))
		}
	}
	if spec.Embedding.Provider == "openai" {
		capacity.Embed = concurrency(spec.Limits)
	}
	return capacity, nil
}
