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
	stage, folder := stageRestore, upkeep.RestoreFolder
	if isAudit(b) {
		stage, folder = core.StageAudit, upkeep.AuditFolder
	}
	return a.runFrame(ctx, b, frame{stage: stage, folder: folder, unit: unit}, do)
}

func isAudit(b workflows.Build) bool {
	return strings.HasPrefix(b.Generation, workflows.AuditGeneration)
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
	return a.runBare(ctx, u, func(ctx context.Context, run *upkeep.Run) error {
		_, err := run.RestorePart(ctx, u.N)
		return err
	})
}

// runBare runs a unit of a restore or an audit.
func (a *Activities) runBare(
	ctx context.Context, u workflows.Unit, do func(context.Context, *upkeep.Run) error,
) (workflows.UnitResult, error) {
	if err := checkUnit(u); err != nil {
		return workflows.UnitResult{}, a.refuseInput(err)
	}
	return workflows.UnitResult{Done: 1}, a.openBare(ctx, u.Build, do, true)
}

// SealRestore fails where segments of the current generation are damaged, and says which.
func (a *Activities) SealRestore(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	err := a.openBare(ctx, b, func(ctx context.Context, run *upkeep.Run) error { return run.SealRestore(ctx) }, true)
	return workflows.Receipt{}, err
}

// EndRestore records the end of a restore, or of an audit and counts what that found. A restore loads the collections
// and renews the mirror first. It says whether a webhook is to be called.
func (a *Activities) EndRestore(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	if err := checkEnd(end); err != nil {
		return workflows.Ended{}, a.refuseInput(err)
	}
	record := func(ctx context.Context, work *upkeep.Run) error {
		if end.Status == core.StatusWaiting {
			if err := work.NoteWait(ctx, holderOf(ctx), toEnding(end)); err != nil {
				return err
			}
			a.reportEnd(ctx, work, end)
			return nil
		}
		if end.Status == core.StatusCompleted && !isAudit(end.Build) {
			if err := work.FinishRestore(ctx); err != nil {
				return err
			}
		}
		if err := work.EndRestore(ctx, holderOf(ctx), toEnding(end)); err != nil {
			return err
		}
		a.reportEnd(ctx, work, end)
		return nil
	}
	return a.recordEnd(ctx, end, func() error { return a.openBare(ctx, end.Build, record, false) })
}

// OpenAudit lists what a part of the served generation is made of.
func (a *Activities) OpenAudit(ctx context.Context, in workflows.Audited) (workflows.Restored, error) {
	out := workflows.Restored{Build: in.Build}
	sample := core.Sample{Part: in.Part, Of: in.Of}
	if in.Part == 0 && in.Of == 0 {
		sample = core.Everything
	}
	if !sample.IsValid() {
		return out, a.refuseInput(newFault("audit "+in.Index, sample.String(), "it is no part of a whole"))
	}
	err := a.openBare(ctx, in.Build, func(ctx context.Context, work *upkeep.Run) error {
		var err error
		if out.Parts, err = work.OpenAudit(ctx, sample, in.Repair); err != nil {
			return err
		}
		return work.BeginStage(ctx, holderOf(ctx), core.StageAudit, int64(out.Parts))
	}, false)
	return out, err
}

// AuditPart looks at one file, partition or segment.
func (a *Activities) AuditPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return a.runBare(ctx, u, func(ctx context.Context, work *upkeep.Run) error {
		_, err := work.AuditPart(ctx, u.N)
		return err
	})
}

// SealAudit adds up what was found, and fails where something was left as it is.
func (a *Activities) SealAudit(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	err := a.openBare(ctx, b, func(ctx context.Context, work *upkeep.Run) error { return work.SealAudit(ctx) }, true)
	return workflows.Receipt{}, err
}

// EndAudit does what EndRestore does.
func (a *Activities) EndAudit(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	return a.EndRestore(ctx, end)
}
