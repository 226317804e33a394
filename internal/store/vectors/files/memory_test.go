package files

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// allocated returns how many bytes the heap gives out meanwhile, those that are given back at once included: no more
// can be held at any time.
func allocated(t *testing.T, do func() error) int {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := do()
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Four times as many rows take no more memory: an index of ten million would else take a gigabyte to be made.
func TestAnIndexIsMadeInMemoryThatDoesNotGrowWithItsRows(t *testing.T) {
	const rows, dim = 8192, fewestSigns
	made := func(rows int) int {
		path := filepath.Join(t.TempDir(), "00000000"+partEnd)
		require.NoError(t, writePart(path, dim, sourceOf(sortRows(vectorstest.Rows(rows, dim, 7)), dim)))
		p, err := openPart(path)
		require.NoError(t, err)
		defer func() { _ = p.close() }()
		return allocated(t, func() error {
			_, err := writeIndex(t.Context(), p)
			return err
		})
	}
	few, many := made(rows), made(4*rows)
	if more := many - few; more > 2*3*rows { // factors alone are four bytes a row
		t.Errorf("of %d rows %d bytes, of %d %d: %d more", rows, few, 4*rows, many, more)
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
