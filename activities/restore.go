package activities

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

const stageRestore = "restore"

// openBare opens a run that needs no configuration: a restore or an audit.
func (a *Activities) openBare(
	ctx context.Context, b workflows.Build, do func(context.Context, *upkeep.Run) error, unit bool,
) error {
	if err := checkBuild(b, stageRestore, false); err != nil {
		return a.refuseInput(err)
	}
	stage, folder := stageRestore, upkeep.RestoreFolder
	if strings.HasPrefix(b.Generation, workflows.AuditGeneration) {
		stage, folder = core.StageAudit, upkeep.AuditFolder
	}
	run := upkeep.OpenBare(a.Ports, newJob(b), stage, folder)
	return a.superviseCall(ctx, run, b, func(ctx context.Context, c *call) error {
		if unit {
			return c.workUnit(ctx, do)
		}
		c.records = true
		return runGuarded(ctx, run, do)
	})
}

// OpenRestore lists the segments of the kept generations, the current one first.
func (a *Activities) OpenRestore(ctx context.Context, b workflows.Build) (workflows.Restored, error) {
	out := workflows.Restored{Build: b}
	err := a.openBare(ctx, b, func(ctx context.Context, run *upkeep.Run) error {
		var err error
		if out.Parts, err = run.OpenRestore(ctx); err != nil {
			return err
		}
		return run.BeginStage(ctx, holderOf(ctx), stageRestore, int64(out.Parts))
	}, false)
	return out, err
}

// RestorePart checks one segment's rows and rewrites what is missing.
func (a *Activities) RestorePart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	if err := checkUnit(u); err != nil {
		return workflows.UnitResult{}, a.refuseInput(err)
	}
	err := a.openBare(ctx, u.Build, func(ctx context.Context, run *upkeep.Run) error {
		_, err := run.RestorePart(ctx, u.N)
		return err
	}, true)
	return workflows.UnitResult{Done: 1}, err
}

// SealRestore fails where segments of the current generation are damaged, and says which.
func (a *Activities) SealRestore(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	err := a.openBare(ctx, b, func(ctx context.Context, run *upkeep.Run) error { return run.SealRestore(ctx) }, true)
	return workflows.Receipt{}, err
}

// EndRestore loads the collections, renews the mirror and records the end. It says whether a webhook is to be called.
func (a *Activities) EndRestore(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	if err := checkEnd(end); err != nil {
		return workflows.Ended{}, a.refuseInput(err)
	}
	record := func(ctx context.Context, run *upkeep.Run) error {
		if end.Status == core.StatusWaiting {
			if err := run.NoteWait(ctx, holderOf(ctx), toEnding(end)); err != nil {
				return err
			}
			a.reportEnd(ctx, run, end)
			return nil
		}
		if end.Status == core.StatusCompleted {
			if err := run.FinishRestore(ctx); err != nil {
				return err
			}
		}
		if err := run.EndRestore(ctx, holderOf(ctx), toEnding(end)); err != nil {
			return err
		}
		a.reportEnd(ctx, run, end)
		return nil
	}
	return a.recordEnd(ctx, end, func() error { return a.openBare(ctx, end.Build, record, false) })
}
