package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// PlanBuild lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (a *Activities) PlanBuild(ctx context.Context, b workflows.Build) (workflows.Planned, error) {
	planned, err := makeIn(ctx, a, b, ofUnit(core.StagePlan),
		func(ctx context.Context, run *upkeep.Run) (unit.Planned, error) { return run.Plan(ctx) })
	return workflows.Planned(planned), err
}

// RepairPart checks one segment of a kept generation against stores that lost their memory, and writes again what is
// missing.
func (a *Activities) RepairPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofUnit(u.Stage), (*upkeep.Run).RestorePart)
}

// SealRepair records that the stores hold everything again.
func (a *Activities) SealRepair(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	return workflows.Receipt{}, a.runFrame(ctx, b, ofUnit(core.StageRepair),
		func(ctx context.Context, run *upkeep.Run) error { return run.FinishRestore(ctx) })
}

// TakeLease makes this run the only builder of its index and gives its fence. It waits, with heartbeats, where the
// lease of a run that is over may still be used by one of its processes. It does not look at the control record: that
// is the last run's of this name until the lease is taken.
func (a *Activities) TakeLease(ctx context.Context, b workflows.Build) (int64, error) {
	return makeIn(ctx, a, b, frame{stage: "lease", spec: true}, func(ctx context.Context, run *upkeep.Run) (int64, error) {
		taker := leaseHolderOf(ctx, run)
		var err error
		if taker.Engine, err = a.Engine.Identity(ctx); err != nil {
			return 0, err
		}
		fence, err := a.takeLease(ctx, run, taker)
		if err != nil {
			return 0, err
		}
		if err := run.Reopen(ctx, taker); err != nil {
			return fence, err
		}
		under := *run
		under.Fence, under.Holder = fence, taker
		return fence, under.Settle(ctx)
	})
}

// OpenNight names what a night of a schedule builds: the index as its schedule was applied last. Where another run
// builds the index it names that run instead. The night is remembered as the index's newest run.
func (a *Activities) OpenNight(ctx context.Context, in workflows.Night) (workflows.Opened, error) {
	out := workflows.Opened{Build: in.Build}
	err := a.runFrame(ctx, in.Build, ofBare(in.Build, false, nil), func(ctx context.Context, work *upkeep.Run) error {
		digest, err := run.OpenSchedule(ctx, work.Index)
		if err != nil {
			return err
		}
		out.Spec = digest.String()
		if in.Skip {
			if out.By, err = run.FindBuilder(ctx, work.Index, a.Engine.DescribeRun); err != nil {
				return err
			}
			if out.By != "" && !workflows.Yields(out.By) {
				return nil
			}
			out.By = "" // it lets nights go first
		}
		return work.Coordination.SetState(ctx, runlog.LatestBuild(in.Index), []byte(work.Name()))
	})
	return out, err
}
