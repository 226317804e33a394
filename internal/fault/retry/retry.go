// Package retry repeats one model call in place a few times, so that one bad answer does not cost a batch. What does
// not heal in that time goes back to Temporal, which owns retries.
package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// attempts in place, and the bounds of the wait between them. What cannot be decoded is paid for: it is asked for less
// often, and is final then.
const (
	attempts   = 4
	unreadable = 3
	first      = 300 * time.Millisecond
	longest    = 30 * time.Second
)

// Do calls f until it succeeds, fails for good, or has failed attempts times. It honours RetryAfter.
func Do(ctx context.Context, f func(context.Context) error) error {
	wait := first
	for i := 1; ; i++ {
		err := f(ctx)
		again := fault.KindOf(err) == fault.Transient && i < attempts ||
			fault.Is(err, fault.ModelUnreadable) && i < unreadable
		if err == nil || ctx.Err() != nil || !again {
			return err
		}
		d := wait + rand.N(wait)
		if ra := fault.RetryAfter(err); ra > 0 {
			d = ra + rand.N(first)
		}
		if d > longest {
			return err
		}
		if err := Wait(ctx, d); err != nil {
			return err
		}
		wait *= 2
	}
}

// Wait returns after a time, or with the error of a context that ends before.
func Wait(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}
