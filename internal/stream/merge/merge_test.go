package merge_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stream/merge"
)

type pair struct{ key, source int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

func list(keys []int, source int) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		for _, key := range keys {
			if !yield(pair{key, source}, nil) {
				return
			}
		}
	}
}

func sources(t *testing.T, lists ...[]int) []merge.Next[pair] {
	var out []merge.Next[pair]
	for i, keys := range lists {
		next, stop := merge.Pull(list(keys, i))
		t.Cleanup(stop)
		out = append(out, next)
	}
	return out
}

func collect(t *testing.T, merged iter.Seq2[pair, error]) []pair {
	var out []pair
	for value, err := range merged {
		require.NoError(t, err)
		out = append(out, value)
	}
	return out
}

func TestSortedSourcesBecomeOneAndEqualsKeepTheOrderOfTheirSources(t *testing.T) {
	for name, c := range map[string]struct {
		lists [][]int
		want  string
	}{
		"no source":        {nil, "[]"},
		"empty sources":    {[][]int{{}, {}}, "[]"},
		"one":              {[][]int{{1, 1, 2}}, "[{1 0} {1 0} {2 0}]"},
		"one after other":  {[][]int{{5, 6}, {1, 2}}, "[{1 1} {2 1} {5 0} {6 0}]"},
		"equal keys":       {[][]int{{1, 3}, {1, 1}, {1}}, "[{1 0} {1 1} {1 1} {1 2} {3 0}]"},
		"an empty between": {[][]int{{2}, {}, {1, 3}}, "[{1 2} {2 0} {3 2}]"},
	} {
		assert.Equal(t, c.want, fmt.Sprint(collect(t, merge.MergeSorted(byKey, sources(t, c.lists...)...))), "%s", name)
	}
}

// Property: merging is a stable sort of the sources one after another.
func TestAMergeIsAStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		lists := make([][]int, r.IntN(9))
		var want []pair
		for i := range lists {
			for range r.IntN(20) {
				lists[i] = append(lists[i], r.IntN(12))
			}
			slices.Sort(lists[i])
			for _, key := range lists[i] {
				want = append(want, pair{key, i})
			}
		}
		slices.SortStableFunc(want, byKey)
		require.Equal(t, want, collect(t, merge.MergeSorted(byKey, sources(t, lists...)...)), "%v", lists)
	}
}

func TestAnErrorEndsTheMerge(t *testing.T) {
	broken := errors.New("broken")
	for name, failing := range map[string]iter.Seq2[pair, error]{
		"at the start": func(yield func(pair, error) bool) { yield(pair{}, broken) },
		"later":        func(yield func(pair, error) bool) { _ = yield(pair{2, 9}, nil) && yield(pair{}, broken) },
	} {
		next, stop := merge.Pull(failing)
		defer stop()
		var last error
		count := 0
		for _, err := range merge.MergeSorted(byKey, append(sources(t, []int{1, 4, 5}), next)...) {
			assert.NoError(t, last, "%s: something follows the error", name)
			if last = err; err == nil {
				count++
			}
		}
		assert.True(t, errors.Is(last, broken) && count <= 2, "%s: %v after %d values", name, last, count)
	}
}

func TestAConsumerThatStopsAsksForNothingMore(t *testing.T) {
	asked := 0
	next := func() (pair, bool, error) { asked++; return pair{key: asked}, true, nil }
	for value := range merge.MergeSorted(byKey, next) {
		if value.key == 3 {
			break
		}
	}
	assert.Equal(t, 3, asked, "asked")
}

// Whatever ends the merge of streams, each that was begun has ended by then.
func TestStreamsAreBegunSideBySideAndAllEnd(t *testing.T) {
	const streams = 200
	for name, c := range map[string]struct{ fails, cancels, takes, want int }{
		"all of them":          {fails: -1, cancels: -1, takes: 1000, want: 2 * streams},
		"a consumer that ends": {fails: -1, cancels: -1, takes: 3, want: 3},
		"a stream that fails":  {fails: 150, cancels: -1, takes: 1000},
		"a context that ends":  {fails: -1, cancels: 70, takes: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var open atomic.Int64
			list := make([]iter.Seq2[pair, error], streams)
			for i := range list {
				list[i] = func(yield func(pair, error) bool) {
					defer open.Add(-1)
					if open.Add(1); i == c.cancels {
						cancel()
					}
					if i == c.fails {
						yield(pair{}, io.ErrUnexpectedEOF)
					} else if yield(pair{0, i}, nil) {
						yield(pair{1, i}, nil)
					}
				}
			}
			got, failed := 0, error(nil)
			for value, err := range merge.MergeStreams(ctx, byKey, list...) {
				if failed = err; err == nil {
					assert.Equal(t, pair{got / streams, got % streams}, value)
					got++
				}
				if got == c.takes {
					break
				}
			}
			assert.True(t, got == c.want && (failed == nil) == (c.want > 0), "%d values, %v", got, failed)
			assert.Zero(t, open.Load(), "streams that were left open")
		})
	}
}
