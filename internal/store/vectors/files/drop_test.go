package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
)

// A crash between the two steps of a drop leaves a folder of another name: it is no collection, nothing of it comes
// back in a new one, and the next start removes it.
func TestWhatACrashLeftOfADroppedCollectionIsRemoved(t *testing.T) {
	root := t.TempDir()
	store, err := files.Open(root)
	require.NoError(t, err)
	ctx, row := t.Context(), vectors.Row{Key: "k", Vector: []float32{1, 0}}
	require.NoError(t, store.Create(ctx, "c", 2))
	require.NoError(t, store.Upsert(ctx, "c", []vectors.Row{row}))
	require.NoError(t, store.Close())
	require.NoError(t, os.Rename(filepath.Join(root, "c"), filepath.Join(root, ".dropped-1")))
	store, err = files.Open(root)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	names, err := store.List(ctx, "")
	assert.True(t, err == nil && len(names) == 0, "listed %q, %v", names, err)
	require.NoError(t, store.Create(ctx, "c", 2))
	n, err := store.Count(ctx, "c")
	assert.True(t, err == nil && n == 0, "%d rows, %v", n, err)
	for range 2 { // what is not there is dropped already
		require.NoError(t, store.Drop(ctx, "c"))
	}
	entries, err := os.ReadDir(root)
	assert.True(t, err == nil && len(entries) == 0, "%v, %v", entries, err)
}
