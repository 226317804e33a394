package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/workflows"
)

// PlanBuild lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (a *Activities) PlanBuild(ctx context.Context, b workflows.Build) (workflows.Planned, error) {
	var planned build.Planned
	err := a.unit(ctx, b, corpus.StagePlan, func(ctx context.Context, run *build.Run) error {
		var err error
		planned, err = run.Plan(ctx)
		return err
	})
	return workflows.Planned{
		Unchanged: planned.Unchanged, Held: planned.Held, Repair: planned.Repair,
		Units: planned.Units, Documents: planned.Documents,
	}, err
}
