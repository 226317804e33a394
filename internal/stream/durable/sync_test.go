package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seeSyncs has each sync seen for one test: what was synced, by its name, and how much it held.
func seeSyncs(t *testing.T, failing string) *[]string {
	var seen []string
	was := syncFile
	t.Cleanup(func() { syncFile = was })
	syncFile = func(file *os.File) error {
		name := filepath.Base(file.Name())
		if info, err := file.Stat(); err == nil && !info.IsDir() {
			name = fmt.Sprint(name, " of ", info.Size())
		}
		if seen = append(seen, name); name == failing {
			return syscall.EIO
		}
		return was(file)
	}
	return &seen
}

// Promises: 137.
func TestAFileIsSyncedBeforeItGetsItsNameAndItsFolderAfter(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(folder, PrivateFolder))
	path := filepath.Join(folder, "f")
	seen := seeSyncs(t, "")
	require.NoError(t, WriteFile(path, []byte("content"), PrivateFile))
	want := []string{"f.tmp of 7", "folder"}
	assert.True(t, slices.Equal(*seen, want), "synced %q, want %q", *seen, want)
	info, err := os.Stat(path)
	assert.True(t, err == nil && info.Mode().Perm() == PrivateFile, "%v, %v", info.Mode(), err)
	for _, failing := range []string{"f.tmp of 5", "folder"} {
		seeSyncs(t, failing)
		assert.ErrorIs(t, WriteFile(path, []byte("other"), PrivateFile), syscall.EIO, "a sync of %s that failed", failing)
		raw, err := os.ReadFile(path)
		if want := map[string]string{"folder": "other"}[failing]; err != nil || want == "" && string(raw) != "content" {
			t.Errorf("after a sync of %s that failed it holds %q, %v", failing, raw, err)
		}
	}
}

// Promises: 137.
func TestAFolderIsDurableInTheOnesAboveIt(t *testing.T) {
	root := t.TempDir()
	seen := seeSyncs(t, "")
	require.NoError(t, MkdirAll(filepath.Join(root, "a", "b"), PrivateFolder))
	want := []string{filepath.Base(root), "a"}
	assert.True(t, slices.Equal(*seen, want), "synced %q, want %q", *seen, want)
}
