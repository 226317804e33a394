package activities

import (
	"context"

	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// OpenNight names what a night of a schedule builds: the index as its schedule was applied last. Where another run
// builds the index it names that run instead. The night is remembered as the index's newest run.
func (a *Activities) OpenNight(ctx context.Context, in workflows.Night) (workflows.Opened, error) {
	out := workflows.Opened{Build: in.Build}
	err := a.openBare(ctx, in.Build, func(ctx context.Context, work *upkeep.Run) error {
		digest, err := run.OpenSchedule(ctx, work.Index)
		if err != nil {
			return err
		}
		out.Spec = digest.String()
		if in.Skip {
			if out.By, err = run.FindBuilder(ctx, work.Index, a.Engine.DescribeRun); err != nil {
				return err
			}
			if out.By != "" && !workflows.Yields(out.By) {
				return nil
			}
			out.By = "" // it lets nights go first
		}
		return work.Coordination.SetState(ctx, runlog.LatestBuild(in.Index), []byte(work.Name()))
	}, false)
	return out, err
}
