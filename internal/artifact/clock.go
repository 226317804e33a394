package artifact

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// Clock is the time by which things grow old enough to be deleted. It follows the machine's, but from one look to the
// next it goes no further than twice as far as it did before, or than a least step: a clock that is a year ahead for a
// night makes nothing a year old, one that stays ahead is believed after a few looks. While the machine's is behind it
// stands still, and goes back with it after a few looks. All of this only ever keeps things longer.
type Clock struct {
	At     time.Time     `json:"at"`
	Step   time.Duration `json:"step,omitempty"`   // how far it went when it last went far
	Behind int           `json:"behind,omitempty"` // looks in a row at which the machine's was behind by a least step
}

// believed is how many looks in a row the machine's clock must be behind to be right.
const believed = 3

// ReadClock looks at the clock that is kept under a key. One that was never saved, or that is damaged, is the
// machine's.
func ReadClock(ctx context.Context, store blob.Store, key string, now time.Time, least time.Duration) (Clock, error) {
	var last Clock
	_, err := blob.ReadJSON(ctx, store, key, &last)
	switch {
	case err != nil && IsDamage(err) || err == nil && last.At.IsZero():
		return Clock{At: now.UTC()}, nil
	case err != nil:
		return Clock{}, err
	}
	next := last
	switch step := min(now.Sub(last.At), max(least, 2*last.Step)); {
	case step < -least && last.Behind+1 >= believed:
		next = Clock{At: now.UTC()}
	case step < -least:
		next.Behind++
	case step < 0:
		next.Behind = 0
	default:
		next.At, next.Behind = last.At.Add(step).UTC(), 0
		if step >= least { // looks that follow each other soon do not tell how far apart they usually are
			next.Step = step
		}
	}
	return next, nil
}

// Save keeps the clock for the next look. What is saved only after the work that went by it is not moved on by a work
// that is repeated.
func (c Clock) Save(ctx context.Context, store blob.Store, key string) error {
	_, err := blob.WriteJSON(ctx, store, key, c, blob.Cond{})
	return err
}
