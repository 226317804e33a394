package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// onePart closes a store whose collection lies in one part, and gives the part's path and content.
func onePart(t *testing.T, store *Store, dir string) (string, []byte) {
	t.Helper()
	require.NoError(t, store.Close())
	parts := matching(t, dir, "*"+partEnd)
	require.True(t, len(parts) == 1, "%v", parts)
	raw := must(os.ReadFile(parts[0]))
	return parts[0], raw
}

// exactAt returns where the vector of a key lies in a part's file.
func exactAt(t *testing.T, path, key string) int {
	t.Helper()
	p := must(openPart(path))
	defer func() { _ = p.close() }()
	row := p.findKey(key)
	require.True(t, row >= 0, "no row %v", key)
	return len(p.data) - 4 - 4*p.dim*(p.n-row)
}

// twice writes rows of a closed collection of one part into a second part, as a merge or a repair does that is cut off.
func twice(t *testing.T, dir string, rows []vectors.Row) {
	t.Helper()
	path := filepath.Join(dir, "c", "00000001"+partEnd)
	require.NoError(t, writePart(path, vectorstest.Dim, sourceOf(sortRows(rows), vectorstest.Dim)))
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, raw, 0o600))
}

func loaded(t *testing.T, dir string) *Store {
	t.Helper()
	store := open(t, dir)
	require.NoError(t, store.Load(t.Context(), "c"))
	return store
}

// finds demands that a search for a row gives the row first.
func finds(t *testing.T, store *Store, row vectors.Row) {
	t.Helper()
	hits, err := store.Search(t.Context(), "c", row.Vector, 3)
	assert.True(t, err == nil && len(hits) == 3 && hits[0].Key == row.Key, "found %v, %v", hits, err)
}

func identity(t *testing.T, store *Store) string {
	t.Helper()
	identity := must(store.Identity(t.Context(), "c"))
	return identity
}

// Whichever byte of an exact row is damaged, no caller gets the row, and filling missing rows mends it.
func TestADamagedRowIsNeverGivenAndIsWrittenAgain(t *testing.T) {
	for situation, bit := range map[string]byte{"a sign": 31, "an exponent": 25, "the last bit of a number": 0} {
		t.Run(situation, func(t *testing.T) {
			dir := t.TempDir()
			store, rows := filled(t, dir, 200)
			before := identity(t, store)
			path, raw := onePart(t, store, dir)
			at := exactAt(t, path, rows[7].Key) + 4*5
			raw[at+int(bit/8)] ^= 1 << (bit % 8)
			write(t, path, raw)

			store = loaded(t, dir)
			_, err := store.Search(t.Context(), "c", rows[7].Vector, 3)
			assert.True(t, fault.Is(err, fault.SegmentDamage), "a search gave %v", err)
			_, err = store.Fetch(t.Context(), "c", []string{rows[7].Key})
			assert.True(t, fault.Is(err, fault.SegmentDamage), "a fetch gave %v", err)
			assert.True(t, identity(t, store) != before, "no build will look for the row")
			has, err := store.Has(t.Context(), "c", []string{rows[6].Key, rows[7].Key})
			assert.True(t, err == nil && has[0] && !has[1], "has %v, %v", has, err)
			for range 2 {
				require.NoError(t, store.Upsert(t.Context(), "c", rows))
				finds(t, store, rows[7])
				counts(t, store, 200)
				require.NoError(t, store.Close())
				store = loaded(t, dir)
			}
			parts := matching(t, dir, "*"+partEnd)
			assert.True(t, len(parts) == 2, "whole rows were written again: %v", parts)
		})
	}
}

// A repair that was cut off between its two files leaves the damaged row beside the new one.
func TestADamagedRowBesideAWholeOneIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	store, rows := filled(t, dir, 50)
	path, raw := onePart(t, store, dir)
	twice(t, dir, rows)
	raw[exactAt(t, path, rows[3].Key)] ^= 1
	write(t, path, raw)
	store = loaded(t, dir)
	finds(t, store, rows[3])
	store.open["c"].mu.Lock()
	err := store.open["c"].mergeParts(store.open["c"].parts)
	store.open["c"].mu.Unlock()
	require.NoError(t, err)
	finds(t, store, rows[3])
}

// A merge must not give a damaged row a checksum that fits it.
func TestAMergeKeepsADamagedRowDamaged(t *testing.T) {
	dir := t.TempDir()
	store, rows := filled(t, dir, 60)
	path, raw := onePart(t, store, dir)
	raw[exactAt(t, path, rows[9].Key)+3] ^= 0x80 // a sign
	write(t, path, raw)
	store = loaded(t, dir)
	remove(t, store, rows[20:]) // so many that the part is written again
	parts := matching(t, dir, "*"+partEnd)
	require.True(t, len(parts) == 1 && parts[0] != path, "%v", parts)
	_, err := store.Search(t.Context(), "c", rows[9].Vector, 3)
	assert.True(t, fault.Is(err, fault.SegmentDamage), "a search gave %v", err)
	has, err := store.Has(t.Context(), "c", []string{rows[9].Key, rows[12].Key})
	assert.True(t, err == nil && !has[0] && has[1], "has %v, %v", has, err)
}

// A part that was copied over another is whole, and has not the rows of the place where it lies.
func TestAPartOfAnotherPlaceIsRefused(t *testing.T) {
	for _, to := range []string{"c/00000001.part", "d/00000000.part"} {
		dir := t.TempDir()
		store, rows := filled(t, dir, 20)
		require.NoError(t, store.Create(t.Context(), "d", vectorstest.Dim))
		require.NoError(t, store.Upsert(t.Context(), "d", rows))
		_, raw := onePart(t, store, dir)
		write(t, filepath.Join(dir, to), raw)
		_, err := open(t, dir).Count(t.Context(), to[:1])
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", to, err)
	}
}
