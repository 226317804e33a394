package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// The whole content is synced before it has the object's name; one that cannot be synced never gets it.
// Promises: 137.
func TestAnObjectIsSyncedWholeBeforeItHasItsName(t *testing.T) {
	root := t.TempDir()
	store, err := Open(root)
	require.NoError(t, err)
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	for _, cond := range []blob.Cond{{}, {Absent: true}} {
		for _, failure := range []error{syscall.EIO, nil} {
			synced := 0
			syncFile = func(file *os.File) error {
				synced++
				info, err := file.Stat()
				assert.True(t, err == nil && info.Size() == 7 && info.Mode().Perm() == durable.PrivateFile,
					"synced %v, %v", info, err)
				_, err = os.Lstat(filepath.Join(root, "a", "k"))
				assert.True(t, errors.Is(err, fs.ErrNotExist), "it has its name before it is synced: %v", err)
				return failure
			}
			_, err := blob.Write(t.Context(), store, "a/k", []byte("content"), cond)
			assert.True(t, synced == 1 && (err != nil) == (failure != nil), "%+v: synced %d times, %v", cond, synced, err)
			_, err = store.Stat(t.Context(), "a/k")
			assert.True(t, fault.Is(err, fault.NotFound) == (failure != nil), "%+v, the sync gave %v: %v", cond, failure, err)
		}
		require.NoError(t, store.Delete(t.Context(), "a/k"))
	}
}

// Objects hold the texts of documents: nothing below a store is for other users, also where it was before.
// Promises: 137.
func TestObjectsAreTheirOwnersAlone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "artifacts")
	require.NoError(t, errors.Join(os.Mkdir(root, 0o755), os.Chmod(root, 0o755)))
	plain, err := Open(root)
	require.NoError(t, err)
	for _, key := range []string{"docs/segments/1", "a/b/2"} {
		_, err := blob.Write(t.Context(), plain, key, []byte("x"), blob.Cond{})
		require.NoError(t, err)
	}
	objects := 0
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may use %s: %s", path, info.Mode())
		}
		objects++
		return err
	})
	assert.True(t, err == nil && objects >= 6, "%d files and folders, %v", objects, err)
}
