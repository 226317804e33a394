//go:build !race

package files

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func TestAnIndexFindsWhatIsBest(t *testing.T) {
	for name, fill := range map[string]func(*testing.T, string, int) (*Store, []vectors.Row){"signs": made, "columns": hashed} {
		store, rows := fill(t, t.TempDir(), indexedRows)
		for _, n := range []int{1, 10, 100, 133, 208} {
			require.True(t, withIndex(store, n) == 1 || n > 100 && name == "signs", "%s: no index for %d rows", name, n)
			assert.GreaterOrEqual(t, recall(t, store, rows, n), 0.99, "%s: recall@%d is", name, n)
		}
		assert.Zero(t, withIndex(store, 1001), "%s: so many that no index was measured for them", name)
		assert.Equal(t, 1.0, recall(t, store, rows, 1001), "%s: many", name)
		assert.Equal(t, 1.0, recall(t, store, rows, indexedRows+1), "%s: more than there are", name)
	}
}

// Whatever became of an index, a search is right, and the next load makes the index again with the same bytes.
func TestADamagedIndexIsMadeAgain(t *testing.T) {
	for end, c := range map[string]struct {
		fill  func(*testing.T, string, int) (*Store, []vectors.Row)
		count int
	}{indexEnd: {made, fewRows}, columnsEnd: {hashed, indexedRows}} {
		dir := t.TempDir()
		store, rows := c.fill(t, dir, c.count)
		path := matching(t, dir, "*"+end)[0]
		whole := musttest.Get(os.ReadFile(path))(t)
		contents := map[string][]byte{
			"missing": nil, "empty": {}, "cut": whole[:len(whole)/2], "longer": append(bytes.Clone(whole), 0),
			"only a header": whole[:indexHead+4], "zeros": make([]byte, len(whole)),
			"no measures": slices.Concat(whole[:20], make([]byte, indexHead-20), whole[len(whole)-4:]),
		}
		for name, at := range map[string]int{
			"magic": 3, "dimension": 8, "rows": 12, "other rows": 16, "measures": 20, "factors or levels": indexHead + 9,
			"stripes": len(whole) / 2, "signs": len(whole) - 100, "checksum": len(whole) - 1,
		} {
			contents[name] = bytes.Clone(whole)
			contents[name][at] ^= 0x10
		}
		for name, raw := range contents {
			require.NoError(t, store.Close())
			if write(t, path, raw); raw == nil {
				require.NoError(t, os.Remove(path))
			}
			store = indexed(t, dir)
			counts(t, store, len(rows)) // opens it
			store.open["c"].loaded = true
			share := recall(t, store, rows, 10)
			assert.True(t, share == 1 && withIndex(store, 10) == 0, "%s, %s: an index is used, recall %.4f", end, name, share)
			reload(t, store)
			again, err := os.ReadFile(path)
			assert.True(t, bytes.Equal(again, whole) && withIndex(store, 10) == 1, "%s, %s: not made again: %v", end, name, err)
		}
	}
}

// The places of rows while parts are merged lie in a file.
func TestPartsAreMergedInMemoryThatDoesNotGrowWithTheirRows(t *testing.T) {
	const rows, dim, parts = 1 << 16, 2, 6 // eight times as many have places of 4 MiB, which would be copied as they grow
	merged := func(rows int) int {
		store := open(t, t.TempDir())
		require.NoError(t, store.Create(t.Context(), "c", dim))
		all := vectorstest.Rows(rows, dim, 7)
		for i := range parts {
			var some []vectors.Row
			for at := i; at < rows; at += parts {
				some = append(some, all[at])
			}
			require.NoError(t, store.Upsert(t.Context(), "c", some))
		}
		c := store.open["c"]
		c.mu.Lock()
		defer c.mu.Unlock()
		return allocated(t, func() error { return c.mergeParts(c.parts) })
	}
	few, many := merged(rows), merged(8*rows)
	const column = 4 << 20 // what a column holds before it is written out, and what it was before it grew to that
	more := many - few
	assert.True(t, more <= column, "of %d rows %d bytes, of %d %d: %d more", rows, few, 8*rows, many, more)
}
