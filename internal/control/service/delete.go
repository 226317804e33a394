package service

import (
	"cmp"
	"context"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/workflows"
)

// DeleteIndex implements Control. It needs no worker.
func (s *Service) DeleteIndex(ctx context.Context, r control.DeleteRequest) (core.Deletion, error) {
	if err := checkIndex(r.Index); err != nil {
		return core.Deletion{}, err
	}
	if !r.DryRun && !r.Confirmed {
		return core.Deletion{}, fault.Usage.At("delete index", r.Index).
			Because("a deletion cannot be undone, and was not confirmed").
			Advise("to see what it deletes: unweaver delete " + r.Index + " --dry-run; to confirm, add --yes")
	}
	if err := s.refuseWork(ctx, r.Index); err != nil {
		return core.Deletion{}, err
	}
	return s.newDesk().DeleteIndex(ctx, release.Deleting{
		Index: r.Index, DryRun: r.DryRun, Operator: control.OperatorOf(ctx), StoreID: s.Stores.StoreID,
		Staging: s.Stores.Staging, Standings: s.standingOf, Forget: s.Stores.Coordination.ForgetIndex,
		Unschedule: func(ctx context.Context) error { return s.deleteSchedule(ctx, r.Index) },
	})
}

// refuseWork refuses while anything works on an index: a build, a backfill, a restore or an audit.
func (s *Service) refuseWork(ctx context.Context, index string) error {
	going := func(what, run, end string) error {
		return fault.LeaseHeld.At("delete index", index).
			Because(what + " " + run + " is running").
			Advise("wait for it, or cancel it: " + end)
	}
	open, _, err := s.openBuilds(ctx, index)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		return going("build", open[len(open)-1], "unweaver cancel "+open[len(open)-1])
	}
	for kind, latest := range map[string]string{
		"restore": runlog.LatestRestore(index), "audit": runlog.LatestAudit(index),
	} {
		work, err := s.recallRun(ctx, latest)
		if err != nil {
			return err
		}
		if work == "" {
			continue
		}
		if running, err := s.isRunning(ctx, workflows.WorkflowID(work), ""); err != nil || running {
			return cmp.Or(err, going(kind, work, "unweaver cancel "+work))
		}
	}
	backfills, err := run.ReadBackfills(ctx, s.indexOf(index))
	if err != nil {
		return err
	}
	for _, one := range backfills {
		if running, err := s.isRunning(ctx, workflows.BackfillID(index, one.Name), ""); err != nil || running {
			return cmp.Or(err, going("backfill", one.Name, "unweaver backfill cancel "+index+" "+one.Name))
		}
	}
	return nil
}

// standingOf asks the engine about the holder of a lease.
func (s *Service) standingOf(ctx context.Context, holder run.Holder) (run.Standing, error) {
	return engine.DescribeRun(ctx, s.Client, s.Engine, holder)
}
