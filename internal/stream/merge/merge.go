// Package merge joins sorted sources into one sorted stream, with one value of each in memory.
package merge

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Next gives a source's next value; ok is false at its end. After an error or the end it is not called again. A value
// may borrow memory that the following call reuses: the merge holds one value of each source at a time.
type Next[T any] func() (value T, ok bool, err error)

// Pull makes a source of a sequence. Call stop always, also after the end.
func Pull[T any](sequence iter.Seq2[T, error]) (next Next[T], stop func()) {
	pull, stop := iter.Pull2(sequence)
	return func() (T, bool, error) {
		value, err, ok := pull()
		return value, ok && err == nil, err
	}, stop
}

// openWidth is how many streams are begun at once.
const openWidth = 64

// MergeStreams yields the values of sequences in order, as MergeSorted does. Their first values are asked for side by
// side, since beginning one is often a request.
func MergeStreams[T any](
	ctx context.Context, compare func(a, b T) int, streams ...iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		sources := make([]Next[T], len(streams))
		for i, stream := range streams {
			next, stop := Pull(stream)
			defer stop()
			sources[i] = next
		}
		err := parallel.Each(ctx, len(sources), openWidth, func(_ context.Context, i int) error {
			sources[i] = sources[i].prefetch()
			return nil
		})
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		MergeSorted(compare, sources...)(yield)
	}
}

// prefetch asks a source for its first value now, and gives the source as if it had not been asked.
func (next Next[T]) prefetch() Next[T] {
	value, ok, err := next()
	asked := false
	return func() (T, bool, error) {
		if !asked {
			asked = true
			return value, ok, err
		}
		return next()
	}
}

type head[T any] struct {
	value T
	rank  int
	next  Next[T]
}

// MergeSorted yields the values of all sources in order. Each source must be in order by itself; equal values come in
// the order of their sources. The first error ends it. A yielded value is valid until the next one is asked for.
func MergeSorted[T any](compare func(a, b T) int, sources ...Next[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		heap := make([]head[T], 0, len(sources))
		less := func(a, b head[T]) bool {
			if order := compare(a.value, b.value); order != 0 {
				return order < 0
			}
			return a.rank < b.rank
		}
		for rank, next := range sources {
			value, ok, err := next()
			if err != nil {
				yield(zero, err)
				return
			}
			if ok {
				heap = append(heap, head[T]{value, rank, next})
			}
		}
		for i := len(heap)/2 - 1; i >= 0; i-- {
			siftDown(heap, i, less)
		}
		for len(heap) > 0 {
			top := &heap[0]
			if !yield(top.value, nil) {
				return
			}
			value, ok, err := top.next()
			if err != nil {
				yield(zero, err)
				return
			}
			if ok {
				top.value = value
			} else {
				heap[0] = heap[len(heap)-1]
				heap = heap[:len(heap)-1]
			}
			siftDown(heap, 0, less)
		}
	}
}

// siftDown moves the value at i down to its place.
func siftDown[T any](heap []head[T], i int, less func(a, b head[T]) bool) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && less(heap[child+1], heap[child]) {
			child++
		}
		if !less(heap[child], heap[i]) {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
