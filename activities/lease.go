package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/workflows"
)

// TakeLease makes this run the only builder of its index and gives its fence.
func (a *Activities) TakeLease(ctx context.Context, b workflows.Build) (int64, error) {
	var fence int64
	err := a.short(ctx, b, "lease", func(ctx context.Context, run *build.Run) error {
		var err error
		if fence, err = build.TakeLease(ctx, run.Index, holder(ctx), a.Engine.Closed); err != nil {
			return err
		}
		if err := run.Reopen(ctx, holder(ctx)); err != nil {
			return err
		}
		return run.Settle(ctx)
	})
	return fence, err
}
