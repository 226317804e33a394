package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// Vectors tell of the texts that they were made from: nothing below a store is for other users.
// Promises: 137.
func TestFilesOfVectorsAreTheirOwnersAlone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "vectors")
	store := open(t, root)
	rows := vectorstest.Rows(50, vectorstest.Dim, 3)
	err := errors.Join(store.Create(t.Context(), "c", vectorstest.Dim), store.Upsert(t.Context(), "c", rows),
		store.Delete(t.Context(), "c", []string{rows[0].Key}), store.Load(t.Context(), "c"))
	require.NoError(t, err)
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may use %s: %s", path, info.Mode())
		}
		seen[filepath.Ext(path)] = true
		return err
	})
	assert.True(t, err == nil && seen[partEnd] && seen[deadEnd], "looked at %v, %v", seen, err)
}
