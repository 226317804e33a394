package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// A collection whose content cannot be opened counts as missing: filling missing ones fills it.
func TestADamagedCollectionIsSetAsideAndFilledAgain(t *testing.T) {
	for situation, spoil := range map[string]func([]byte) []byte{
		"cut":     func(raw []byte) []byte { return raw[:len(raw)/2] },
		"empty":   func([]byte) []byte { return nil },
		"flipped": func(raw []byte) []byte { raw[30] ^= 0x40; return raw },
	} {
		dir := t.TempDir()
		rows := vectorstest.Rows(30, vectorstest.Dim, 4)
		for range 2 { // the second time what was set aside is replaced
			store := open(t, dir)
			require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
			require.NoError(t, store.Upsert(t.Context(), "c", rows))
			before := must(store.Identity(t.Context(), "c"))
			require.NoError(t, store.Close())
			parts, err := filepath.Glob(filepath.Join(dir, "c", "*.part"))
			require.True(t, err == nil && len(parts) == 1, "%v %v", parts, err)
			raw := must(os.ReadFile(parts[0]))
			require.NoError(t, os.WriteFile(parts[0], spoil(raw), 0o600))
			store = open(t, dir)
			_, err = store.Count(t.Context(), "c")
			assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", situation, err)
			names, err := store.List(t.Context(), "")
			assert.True(t, err == nil && len(names) == 0, "%s: listed %q, %v", situation, names, err)
			_, err = os.Stat(filepath.Join(dir, "c.damaged", filepath.Base(parts[0])))
			assert.NoError(t, err, "%s", situation)
			require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
			after, err := store.Identity(t.Context(), "c")
			assert.True(t, err == nil && after != before, "%s: it passes for the one that was proven: %v", situation, err)
			require.NoError(t, store.Upsert(t.Context(), "c", rows))
			n, err := store.Count(t.Context(), "c")
			assert.True(t, err == nil && n == 30, "%s: %d rows, %v", situation, n, err)
			require.NoError(t, store.Close())
		}
		store := open(t, dir)
		require.NoError(t, store.Drop(t.Context(), "c"))
		left, err := os.ReadDir(dir)
		assert.True(t, err == nil && len(left) == 0, "%s: a drop left %v, %v", situation, left, err)
	}
}

// A part that cannot be read now may be whole: nothing is set aside for an error of the disk.
func TestAnUnreadableCollectionIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
	require.NoError(t, store.Close())
	if err := os.Symlink("00000001.part", filepath.Join(dir, "c", "00000001.part")); err != nil { // ELOOP when opened
		t.Fatal(err)
	}
	store = open(t, dir)
	_, err := store.Count(t.Context(), "c")
	assert.True(t, fault.Is(err, fault.StoreDown), "%v", err)
	names, err := store.List(t.Context(), "")
	assert.True(t, err == nil && len(names) == 1, "listed %q, %v", names, err)
}
