package upkeep

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ChoosePurge keeps what a run is for: to it the corpus is what the current generation has of it.
func ChoosePurge(ctx context.Context, index artifact.Index, generation, purge string) error {
	_, err := blob.WriteJSON(ctx, index.Store, unit.PurgeFile(index, generation), unit.PurgeRun{Purge: purge}, blob.Cond{})
	return err
}

// listPurged returns the documents that nothing may be made of any more, as far as is known now: those of the index, or
// of the base of a branch.
func (r *Run) listPurged(ctx context.Context) (purges.Set, error) {
	base, err := r.Index.FindBase(ctx)
	if err != nil {
		return purges.Set{}, err
	}
	all, err := purges.List(ctx, base)
	excluded, _ := purges.ListExcluded(all)
	return excluded, err
}

// purgePatience is how long a run waits until no reader has a generation open that has to go.
const purgePatience = 2 * time.Minute
