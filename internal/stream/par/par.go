// Package par runs work side by side where order matters.
package par

import (
	"context"
	"iter"
	"sync"
)

// Ordered applies f to every item, at most width at once, and yields the results in the order of the items. It stops at
// the first error of the source, of f or of ctx, or when the consumer does; what it started has ended by then. The
// source must end when ctx does, where it may block.
func Ordered[A, B any](
	ctx context.Context,
	width int,
	source iter.Seq2[A, error],
	f func(context.Context, A) (B, error),
) iter.Seq2[B, error] {
	type result struct {
		value B
		err   error
	}
	return func(yield func(B, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		queue := make(chan chan result, max(width, 1)-1) // one more is with the consumer
		wg.Go(func() {
			defer close(queue)
			for item, err := range source {
				out := make(chan result, 1)
				if err != nil {
					out <- result{err: err}
				}
				select {
				case queue <- out:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
				wg.Go(func() {
					value, err := f(ctx, item)
					out <- result{value, err}
				})
			}
		})
		for out := range queue {
			done := <-out
			if !yield(done.value, done.err) || done.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			var zero B
			yield(zero, err)
		}
	}
}

// Each applies f to every index below n, at most width at once, and gives the first error, having waited for all that
// it started. After an error nothing more is started.
func Each(ctx context.Context, n, width int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(max(width, 1), n) {
		wg.Go(func() {
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
