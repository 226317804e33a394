package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// TakeLease makes this run the only builder of its index and gives its fence. It waits, with heartbeats, where the
// lease of a run that is over may still be used by one of its processes. It does not look at the control record: that
// is the last run's of this name until the lease is taken.
func (a *Activities) TakeLease(ctx context.Context, b workflows.Build) (int64, error) {
	var fence int64
	err := a.runShort(ctx, b, "lease", func(ctx context.Context, run *upkeep.Run) error {
		taker := leaseHolderOf(ctx, run)
		var err error
		if taker.Engine, err = a.Engine.Identity(ctx); err != nil {
			return err
		}
		if fence, err = a.takeLease(ctx, run, taker); err != nil {
			return err
		}
		if err := run.Reopen(ctx, taker); err != nil {
			return err
		}
		under := *run
		under.Fence, under.Holder = fence, taker
		return under.Settle(ctx)
	})
	return fence, err
}
