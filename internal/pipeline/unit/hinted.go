package unit

import (
	"cmp"
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// readHinted returns the objects that the run is to look at; nil: it lists the corpus. A run that hints began is
// refused where everything would be made again.
func (r *Run) readHinted(ctx context.Context, fixed run.Plan, reasons []string) ([]string, error) {
	switch {
	case !core.IsHinted(r.Generation):
		return nil, nil
	case !fixed.Part:
		return nil, r.leaveToNight(reasons)
	}
	return hints.ReadKeys(ctx, r.BaseRun())
}

// leaveToNight returns the error of a run that hints began and that only a night may do.
func (r *Run) leaveToNight(reasons []string) error {
	return fault.PlanMoved.At("follow hints of", r.Job.Index).
		Because("more than the hinted objects must be built: " +
			cmp.Or(strings.Join(reasons, "; "), "there is no generation to compare with")).
		Advise("the next night does it; or now: unweaver index --index " + r.Job.Index)
}
