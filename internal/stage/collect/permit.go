package collect

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// usualPermit is that of a caller that gives none.
const usualPermit = 2 * time.Second

// permitTries is how often a deletion is permitted again before it is left to a later attempt.
const permitTries = 10

// Permit lets things be deleted. Look fails when the caller may not delete any more; what it permits is over when it
// has lasted, and then it is asked again: a process that stood still in the middle looks before it deletes the next
// object. Many objects are deleted in requests that end with the permit, so none of them outlasts it by much.
type Permit struct {
	Look  func(ctx context.Context) error
	Lasts time.Duration // zero: the usual time
}

// eraseKeys deletes objects.
func (p Permit) eraseKeys(ctx context.Context, store blob.Store, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	lasts := p.Lasts
	if lasts <= 0 {
		lasts = usualPermit
	}
	for range permitTries {
		began := time.Now() // the answer may be as old as the question
		if err := p.checkPermit(ctx); err != nil {
			return err
		}
		permitted, cancel := context.WithDeadline(ctx, began.Add(lasts))
		err := artifact.DeleteAll(permitted, store, keys)
		over := blob.CheckContext(permitted) != nil && ctx.Err() == nil
		cancel()
		if err == nil || !over {
			return err
		}
	}
	return fault.StoreDown.At("delete", store.Location(keys[0])).
		Because("the store needs more time than a permit allows")
}

func (p Permit) checkPermit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.Look == nil {
		return nil
	}
	return p.Look(ctx)
}
