package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

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
