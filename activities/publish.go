package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/workflows"
)

// PublishBuild puts the built generation through the gates and makes it the served one.
func (a *Activities) PublishBuild(ctx context.Context, u workflows.Unit) (workflows.Outcome, error) {
	var out workflows.Outcome
	err := a.unit(ctx, u.Build, u.Stage, func(ctx context.Context, run *build.Run) error {
		published, err := run.Publish(ctx)
		out = workflows.Outcome{Status: published.Status, Reason: published.Reason}
		return err
	})
	return out, err
}

// CollectGarbage deletes scratch and what nothing names any more.
func (a *Activities) CollectGarbage(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.whole(ctx, u, func(inner context.Context, run *build.Run) error { return run.Collect(inner, holder(ctx)) })
}
