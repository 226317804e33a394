package activities

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

const stageRestore = "restore"

// ofBare is the frame of a run that needs no configuration: a restore or an audit.
func ofBare(b workflows.Build, unit bool, bad error) frame {
	if isAudit(b) {
		return frame{stage: core.StageAudit, folder: upkeep.AuditFolder, unit: unit, bad: bad}
	}
	return frame{stage: stageRestore, folder: upkeep.RestoreFolder, unit: unit, bad: bad}
}

func isAudit(b workflows.Build) bool {
	return strings.HasPrefix(b.Generation, workflows.AuditGeneration)
}

// OpenRestore lists the segments of the kept generations, the current one first.
func (a *Activities) OpenRestore(ctx context.Context, b workflows.Build) (workflows.Restored, error) {
	parts, err := makeIn(ctx, a, b, ofBare(b, false, nil), func(ctx context.Context, run *upkeep.Run) (int, error) {
		parts, err := run.OpenRestore(ctx)
		if err != nil {
			return 0, err
		}
		return parts, run.BeginStage(ctx, holderOf(ctx), stageRestore, int64(parts))
	})
	return workflows.Restored{Build: b, Parts: parts}, err
}

// RestorePart checks one segment's rows and rewrites what is missing.
func (a *Activities) RestorePart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofBare(u.Build, true, checkUnit(u)), (*upkeep.Run).RestorePart)
}

// SealRestore fails where segments of the current generation are damaged, and says which.
func (a *Activities) SealRestore(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	return workflows.Receipt{}, a.runFrame(ctx, b, ofBare(b, true, nil),
		func(ctx context.Context, run *upkeep.Run) error { return run.SealRestore(ctx) })
}

// EndRestore records the end of a restore, or of an audit and counts what that found. A restore loads the collections
// and renews the mirror first. It says whether a webhook is to be called.
func (a *Activities) EndRestore(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	return a.recordEnd(ctx, end, ofBare(end.Build, false, nil), func(ctx context.Context, work *upkeep.Run) error {
		if end.Status == core.StatusCompleted && !isAudit(end.Build) {
			if err := work.FinishRestore(ctx); err != nil {
				return err
			}
		}
		return work.EndRestore(ctx, holderOf(ctx), toEnding(end))
	})
}

// OpenAudit lists what a part of the served generation is made of.
func (a *Activities) OpenAudit(ctx context.Context, in workflows.Audited) (workflows.Restored, error) {
	sample := core.Sample{Part: in.Part, Of: in.Of}
	if in.Part == 0 && in.Of == 0 {
		sample = core.Everything
	}
	f := ofBare(in.Build, false, nil)
	if !sample.IsValid() {
		f.bad = newFault("audit "+in.Index, sample.String(), "it is no part of a whole")
	}
	parts, err := makeIn(ctx, a, in.Build, f, func(ctx context.Context, work *upkeep.Run) (int, error) {
		parts, err := work.OpenAudit(ctx, sample, in.Repair)
		if err != nil {
			return 0, err
		}
		return parts, work.BeginStage(ctx, holderOf(ctx), core.StageAudit, int64(parts))
	})
	return workflows.Restored{Build: in.Build, Parts: parts}, err
}

// AuditPart looks at one file, partition or segment.
func (a *Activities) AuditPart(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	return runPart(ctx, a, u, ofBare(u.Build, true, checkUnit(u)), (*upkeep.Run).AuditPart)
}

// SealAudit adds up what was found, and fails where something was left as it is.
func (a *Activities) SealAudit(ctx context.Context, b workflows.Build) (workflows.Receipt, error) {
	return workflows.Receipt{}, a.runFrame(ctx, b, ofBare(b, true, nil),
		func(ctx context.Context, work *upkeep.Run) error { return work.SealAudit(ctx) })
}

// EndAudit does what EndRestore does.
func (a *Activities) EndAudit(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	return a.EndRestore(ctx, end)
}
