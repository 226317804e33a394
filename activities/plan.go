package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// PlanBuild lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (a *Activities) PlanBuild(ctx context.Context, b workflows.Build) (workflows.Planned, error) {
	var planned unit.Planned
	err := a.runUnit(ctx, b, core.StagePlan, func(ctx context.Context, run *upkeep.Run) error {
		var err error
		planned, err = run.Plan(ctx)
		return err
	})
	return workflows.Planned(planned), err
}

// RepairPart checks one segment of a kept generation against stores that lost their memory, and writes again what is
// missing.
func (a *Activities) RepairPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, (*upkeep.Run).RestorePart)
}

// SealRepair records that the stores hold everything again.
func (a *Activities) SealRepair(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	err := a.runUnit(ctx, b, core.StageRepair, func(ctx context.Context, run *upkeep.Run) error {
		return run.FinishRestore(ctx)
	})
	return workflows.Receipt{}, err
}
