package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var errBroken = errors.New("broken")

// numbers yields the numbers below n; at failAt it yields an error and ends.
func numbers(n, failAt int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if i == failAt {
				yield(0, errBroken)
				return
			}
			if !yield(i, nil) {
				return
			}
		}
	}
}

// Under synctest every goroutine must have ended when the test's function returns: a leak fails the test.
func isolated(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestResultsComeInTheOrderOfTheItems(t *testing.T) {
	for _, width := range []int{0, 1, 3, 100} {
		isolated(t, fmt.Sprint("width ", width), func(t *testing.T) {
			var running, most atomic.Int64
			var got []int
			slow := func(_ context.Context, i int) (int, error) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Duration(20-i) * time.Millisecond) // later ones end first
				running.Add(-1)
				return i * i, nil
			}
			for value := range musttest.All(t, parallel.MapOrdered(t.Context(), width, numbers(20, -1), slow)) {
				got = append(got, value)
			}
			assert.True(t, len(got) == 20 && slices.IsSorted(got) && got[19] == 361, "%v", got)
			limit := int64(min(max(width, 1), 20))
			assert.True(t, most.Load() == limit, "%d at once, want %d", most.Load(), limit)
		})
	}
}

// What was done before an error is delivered, then the error, then nothing, and nothing runs on.
func TestAnErrorInTheMiddleEndsIt(t *testing.T) {
	work := func(failAt int) func(context.Context, int) (int, error) {
		return func(_ context.Context, i int) (int, error) {
			if i == failAt {
				return 0, errBroken
			}
			return i, nil
		}
	}
	for name, failAt := range map[string]struct{ source, work int }{"of the work": {-1, 10}, "of the source": {10, -1}} {
		isolated(t, name, func(t *testing.T) {
			var got []int
			var last error
			for value, err := range parallel.MapOrdered(t.Context(), 4, numbers(1000, failAt.source), work(failAt.work)) {
				assert.NoError(t, last, "something follows the error")
				if last = err; err == nil {
					got = append(got, value)
				}
			}
			assert.True(t, errors.Is(last, errBroken) && len(got) == 10, "%d results, then %v", len(got), last)
		})
	}
}

func TestAConsumerThatStopsEarlyStopsTheWork(t *testing.T) {
	isolated(t, "stop", func(t *testing.T) {
		var started, stopped atomic.Int64
		work := func(ctx context.Context, i int) (int, error) {
			started.Add(1)
			if i > 2 {
				<-ctx.Done() // would wait for ever
				stopped.Add(1)
			}
			return i, ctx.Err()
		}
		for value := range parallel.MapOrdered(t.Context(), 4, numbers(1000, -1), work) {
			if value == 2 {
				break
			}
		}
		assert.True(t, started.Load() <= 7 && stopped.Load() == started.Load()-3, "%d, %d", started.Load(), stopped.Load())
	})
}

func TestACancelledSourceIsTold(t *testing.T) {
	isolated(t, "cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source := func(yield func(int, error) bool) { // one that waits for its context
			for i := range 5 {
				if !yield(i, nil) {
					return
				}
			}
			<-ctx.Done()
		}
		var got int
		var last error
		go func() { time.Sleep(time.Second); cancel() }()
		same := func(_ context.Context, i int) (int, error) { return i, nil }
		for _, err := range parallel.MapOrdered(ctx, 2, source, same) {
			if last = err; err == nil {
				got++
			}
		}
		assert.True(t, got == 5 && errors.Is(last, context.Canceled), "%d results, then %v", got, last)
	})
}

func TestEachRunsEveryIndexOnceWithinItsWidth(t *testing.T) {
	for _, c := range [][2]int{{0, 4}, {1, 4}, {50, 0}, {50, 1}, {50, 8}, {3, 100}} {
		isolated(t, fmt.Sprint(c), func(t *testing.T) {
			seen := make([]atomic.Int64, c[0])
			var running, most atomic.Int64
			err := parallel.Each(t.Context(), c[0], c[1], func(_ context.Context, i int) error {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Millisecond)
				running.Add(-1)
				seen[i].Add(1)
				return nil
			})
			assert.True(t, err == nil && most.Load() <= int64(max(c[1], 1)), "%v, %d at once", err, most.Load())
			for i := range seen {
				assert.Equal(t, int64(1), seen[i].Load(), "%d ran", i)
			}
		})
	}
}

func TestEachGivesTheFirstErrorAndStartsNothingMore(t *testing.T) {
	isolated(t, "error", func(t *testing.T) {
		var started atomic.Int64
		err := parallel.Each(t.Context(), 1000, 4, func(ctx context.Context, i int) error {
			started.Add(1)
			if i == 3 {
				return errBroken
			}
			<-ctx.Done()
			return ctx.Err()
		})
		assert.True(t, errors.Is(err, errBroken) && started.Load() <= 5, "%v, %d started", err, started.Load())
	})
	isolated(t, "cancelled before", func(t *testing.T) {
		ctx := musttest.EndedContext(t)
		assert.ErrorIs(t, parallel.Each(ctx, 3, 2, func(context.Context, int) error { return nil }), context.Canceled)
	})
}

func TestAPanicIsTheErrorOfItsItemAndTellsNoText(t *testing.T) {
	const secret = "text of a document"
	boom := func(context.Context, int) error { panic(secret) }
	atIndex := func(_ context.Context, i int) error { _ = make([]int, 2)[i+5]; return nil }
	check := func(t *testing.T, err error) {
		assert.True(t, fault.Is(err, fault.Internal) && !strings.Contains(err.Error(), secret) &&
			strings.Contains(err.Error(), "parallel_test."), "%v", err)
	}
	isolated(t, "of each", func(t *testing.T) {
		check(t, parallel.Each(t.Context(), 3, 2, boom))
		err := parallel.Each(t.Context(), 3, 2, atIndex)
		check(t, err)
		assert.Contains(t, err.Error(), "index out of range", "%v", err)
	})
	last := func(results iter.Seq2[int, error]) (err error) {
		for _, err = range results {
			if err != nil {
				return err
			}
		}
		return nil
	}
	isolated(t, "of an ordered item", func(t *testing.T) {
		check(t, last(parallel.MapOrdered(t.Context(), 2, numbers(5, -1), func(ctx context.Context, i int) (int, error) {
			return i, boom(ctx, i)
		})))
	})
	isolated(t, "of the source", func(t *testing.T) {
		source := func(yield func(int, error) bool) {
			yield(1, nil)
			panic(secret)
		}
		same := func(_ context.Context, i int) (int, error) { return i, nil }
		check(t, last(parallel.MapOrdered(t.Context(), 2, source, same)))
	})
}
