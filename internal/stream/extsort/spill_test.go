package extsort_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

func inDir(t *testing.T, run int) (*extsort.Sorter, func() int) {
	open := scratchtest.In(t, t.TempDir())
	sorter := &extsort.Sorter{Run: run}
	t.Cleanup(sorter.Close)
	return sorter, func() int { return len(open()) }
}

func sorted(t *testing.T, sorter *extsort.Sorter) [][2]string {
	var out [][2]string
	for pair := range musttest.All(t, sorter.StreamSorted()) {
		out = append(out, [2]string{string(pair[0]), string(pair[1])})
	}
	return out
}

func TestRowsComeBackInOrderFromMemoryAndDisk(t *testing.T) {
	for name, c := range map[string]struct{ run, rows, runs int }{
		"nothing": {1 << 10, 0, 0}, "in memory": {1 << 20, 500, 0}, "default run": {0, 500, 0},
		"many runs": {4 << 10, 5000, 30}, "a run each row": {1, 50, 50},
	} {
		t.Run(name, func(t *testing.T) {
			sorter, files := inDir(t, c.run)
			r := rand.New(rand.NewPCG(3, 4))
			var want [][2]string
			for i := range c.rows {
				row := [2]string{fmt.Sprintf("%03d", r.IntN(200)), fmt.Sprint("value ", i)}
				want = append(want, row)
				sorter.Add([]byte(row[0]), []byte(row[1]))
			}
			slices.SortStableFunc(want, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
			got := files()
			assert.True(t, got >= c.runs && (c.runs != 0 || got <= 0), "%d runs on disk, want at least %d", got, c.runs)
			assert.True(t, slices.Equal(sorted(t, sorter), want), "other rows, or in another order")
			sorter.Close()
			assert.True(t, files() <= 0, "Close leaves files")
		})
	}
}

func TestKeysAndValuesOfAnyBytes(t *testing.T) {
	sorter, _ := inDir(t, 64)
	large := strings.Repeat("z", 100_000)
	rows := [][2]string{{"", ""}, {"", "x"}, {"\x00", "\xff\xfe"}, {"\x00\x00", ""}, {"\xff", large}}
	for _, row := range slices.Backward(rows[2:]) {
		sorter.Add([]byte(row[0]), []byte(row[1]))
	}
	for _, row := range rows[:2] {
		sorter.Add([]byte(row[0]), []byte(row[1]))
	}
	assert.Equal(t, rows, sorted(t, sorter))
}

// What is added is copied: the caller may use its buffer again.
func TestBuffersMayBeReused(t *testing.T) {
	sorter, _ := inDir(t, 1<<20)
	buffer := make([]byte, 1)
	for c := byte('c'); c >= 'a'; c-- {
		buffer[0] = c
		sorter.Add(buffer, buffer)
	}
	assert.Equal(t, "[[a a] [b b] [c c]]", fmt.Sprint(sorted(t, sorter)))
}

// What is given out may be kept: stages collect keys of rows that they passed.
func TestRowsMayBeKept(t *testing.T) {
	for _, run := range []int{0, 256} {
		sorter, _ := inDir(t, run)
		for i := range 3000 {
			sorter.Add(fmt.Appendf(nil, "%04d", 2999-i), bytes.Repeat([]byte{byte(i)}, i%9))
		}
		var kept [][2][]byte
		for pair := range musttest.All(t, sorter.StreamSorted()) {
			kept = append(kept, pair)
		}
		sorter.Close()
		for i, pair := range kept {
			added := 2999 - i
			require.True(t, string(pair[0]) == fmt.Sprintf("%04d", i) &&
				bytes.Equal(pair[1], bytes.Repeat([]byte{byte(added)}, added%9)), "row %d became %q", i, pair)
		}
	}
}

// Sorting takes no memory a row beside the rows' own.
func TestRowsOfASorterTakeNoAllocationEach(t *testing.T) {
	key := make([]byte, 12)
	got := testing.AllocsPerRun(3, func() {
		var sorter extsort.Sorter
		defer sorter.Close()
		for i := range uint64(10_000) {
			binary.BigEndian.PutUint64(key, i*i*i)
			sorter.Add(key, nil)
		}
		for range musttest.All(t, sorter.StreamSorted()) {
		}
	})
	assert.True(t, got <= 100, "%g allocations for 10,000 rows", got)
}

func TestAConsumerMayStop(t *testing.T) {
	sorter, files := inDir(t, 256)
	for i := range 100 {
		sorter.Add(fmt.Append(nil, i), nil)
	}
	for range sorter.StreamSorted() {
		break
	}
	sorter.Close()
	assert.True(t, files() <= 0, "files stay")
}

// A disk without room is an error that names the folder, and memory does not grow while rows keep coming.
func TestADiskWithoutRoomIsTold(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	t.Setenv("TMPDIR", gone)
	sorter := &extsort.Sorter{Run: 100}
	defer sorter.Close()
	for range 10 {
		sorter.Add(bytes.Repeat([]byte("k"), 60), nil)
	}
	count := 0
	for _, err := range sorter.StreamSorted() {
		count++
		assert.True(t, fault.Is(err, fault.StoreFull) && strings.Contains(err.Error(), gone), "%v", err)
	}
	assert.Equal(t, 1, count)
}

// A run that is cut behind the sorter's back is an error, not fewer rows.
func TestACutRunIsAnError(t *testing.T) {
	open := scratchtest.In(t, t.TempDir())
	sorter := &extsort.Sorter{Run: 1 << 10}
	defer sorter.Close()
	for i := range 100 {
		sorter.Add(fmt.Appendf(nil, "%03d", i), []byte("some value"))
	}
	files := open()
	require.True(t, len(files) >= 2, "%v", files)
	require.NoError(t, os.Truncate(files[0], musttest.Get(os.Stat(files[0]))(t).Size()-3))
	var last error
	for _, err := range sorter.StreamSorted() {
		last = err
	}
	assert.Error(t, last, "the cut was not seen")
}
