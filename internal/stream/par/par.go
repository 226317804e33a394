// Package par runs work side by side where order matters.
package par

import (
	"context"
	"iter"
	"sync"
)

// Ordered applies f to every item with at most n at once and yields the results in the order of the items. It stops at
// the first error of the source, of f or of ctx.
func Ordered[A, B any](
	ctx context.Context,
	n int,
	src iter.Seq2[A, error],
	f func(context.Context, A) (B, error),
) iter.Seq2[B, error] {
	type result struct {
		v   B
		err error
	}
	return func(yield func(B, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		queue := make(chan chan result, n)
		wg.Go(func() {
			defer close(queue)
			for a, err := range src {
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
					v, err := f(ctx, a)
					out <- result{v, err}
				})
			}
		})
		for out := range queue {
			r := <-out
			if !yield(r.v, r.err) || r.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			var zero B
			yield(zero, err)
		}
	}
}

// Each applies f to every index below n with at most width at once and gives the first error, having waited for all.
func Each(ctx context.Context, n, width int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(width, n) {
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
