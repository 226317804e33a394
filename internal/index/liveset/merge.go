package liveset

import (
	"context"
	"errors"
	"runtime"
	"sort"

	streams "github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// at is where an entry lies.
type at struct{ file, row uint32 }

// merge numbers the live entries of several sorted lists in their common order. It divides the order into parts that
// are merged side by side.
type merge struct {
	lists   []int                                // how many entries each has
	live    func(list, i int) bool               // entries that are not take no number
	compare func(list, i, other, otherI int) int // of two entries

	// beside gives what compares as compare does, for one goroutine and entries that are mostly of the last calls; nil =
	// compare itself.
	beside func() func(list, i, other, otherI int) int

	bounds [][]int // of each part and the end: where it begins in each list
	starts []int   // of each part and the end: the number of its first live entry
}

// errTwice is of a merge in which two live entries are equal.
type errTwice struct{ first, second at }

func (errTwice) Error() string { return "an entry is live twice" }

// partEntries are worth a part of their own.
const partEntries = 4096

// divideParts finds the parts and counts their live entries; the rest of the methods can be used then.
func (m *merge) divideParts(ctx context.Context) error {
	largest, total := 0, 0
	for list, entries := range m.lists {
		if total += entries; entries > m.lists[largest] {
			largest = list
		}
	}
	parts := max(1, min(4*runtime.GOMAXPROCS(0), total/partEntries))
	m.bounds = make([][]int, parts+1)
	for part := range m.bounds {
		m.bounds[part] = make([]int, len(m.lists))
		if part == parts {
			copy(m.bounds[part], m.lists)
		}
		if part == 0 || part == parts {
			continue
		}
		pivot := int(uint64(m.lists[largest]) * uint64(part) / uint64(parts))
		for list, entries := range m.lists { // equal entries never lie in two parts
			m.bounds[part][list] = sort.Search(entries, func(i int) bool {
				return m.compare(list, i, largest, pivot) >= 0
			})
		}
	}
	m.starts = make([]int, parts+1)
	if err := parallel.Each(ctx, parts, runtime.GOMAXPROCS(0), func(_ context.Context, part int) error {
		for list := range m.lists {
			for i := m.bounds[part][list]; i < m.bounds[part+1][list]; i++ {
				if m.live(list, i) {
					m.starts[part+1]++
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for part := range parts {
		m.starts[part+1] += m.starts[part]
	}
	return nil
}

// countEntries returns how many live entries there are.
func (m *merge) countEntries() int { return m.starts[len(m.starts)-1] }

// countParts returns how many there are.
func (m *merge) countParts() int { return len(m.starts) - 1 }

// visitEntries calls put for every live entry with its number; parts go side by side, the entries of one in order. Two
// equal ones are errTwice.
func (m *merge) visitEntries(ctx context.Context, put func(number, list, i int)) error {
	return parallel.Each(ctx, m.countParts(), runtime.GOMAXPROCS(0), func(_ context.Context, part int) error {
		return m.mergePart(part, put)
	})
}

func (m *merge) mergePart(part int, put func(number, list, i int)) error {
	entries := m.compare
	if m.beside != nil {
		entries = m.beside()
	}
	compare := func(a, b at) int { return entries(int(a.file), int(a.row), int(b.file), int(b.row)) }
	sources := make([]streams.Next[at], len(m.lists))
	for list := range m.lists {
		sources[list] = m.iterateLive(list, m.bounds[part][list], m.bounds[part+1][list])
	}
	number, last := m.starts[part], at{}
	for next, _ := range streams.MergeSorted(compare, sources...) { // no source fails
		if number > m.starts[part] && compare(last, next) == 0 {
			return errTwice{last, next}
		}
		put(number, int(next.file), int(next.row))
		last = next
		number++
	}
	return nil
}

// iterateLive gives the live entries of a list from one on, before another.
func (m *merge) iterateLive(list, i, end int) streams.Next[at] {
	return func() (at, bool, error) {
		for ; i < end; i++ {
			if m.live(list, i) {
				i++
				return at{uint32(list), uint32(i - 1)}, true, nil
			}
		}
		return at{}, false, nil
	}
}

// asTwice gives the two places of an errTwice, if err is one.
func asTwice(err error) (errTwice, bool) {
	var found errTwice
	return found, errors.As(err, &found)
}
