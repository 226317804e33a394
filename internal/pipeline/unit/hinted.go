package unit

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// readHinted returns the objects that the run is to look at; nil: it lists the corpus. A run that hints began is
// refused where everything would be made again.
func (r *Run) readHinted(ctx context.Context, fixed run.Plan, reasons []string) ([]string, error) {
	if r.Hints == "" {
		return nil, nil
	}
	if !fixed.Part {
		return nil, r.leaveToNight(reasons)
	}
	batch, err := hints.ReadBatch(ctx, r.Index, r.Hints)
	if err != nil || batch.All {
		return nil, err
	}
	return append([]string{}, batch.Keys...), nil
}

// leaveToNight returns the error of a run that hints began and that only a night may do.
func (r *Run) leaveToNight(reasons []string) error {
	why := strings.Join(reasons, "; ")
	if why == "" {
		why = "there is no generation to compare with"
	}
	return fault.PlanMoved.At("follow hints of", r.Job.Index).
		Because("more than the hinted objects must be built: " + why).
		Advise("the next night does it; or now: unweaver index --index " + r.Job.Index)
}
