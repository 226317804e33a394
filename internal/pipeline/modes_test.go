package pipeline_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	coordbolt "github.com/unweaver/unweaver/internal/store/coordination/bolt"
	recordsbolt "github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
)

// onDisk lets a site keep all that it writes below a folder, as the embedded stack does.
func (s *site) onDisk(t *testing.T, data string) {
	t.Helper()
	artifacts, err := dir.Open(filepath.Join(data, "artifacts"))
	require.NoError(t, err)
	coordination, err := coordbolt.Open(filepath.Join(data, "classes.bolt.runs"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = coordination.Close() })
	records, err := recordsbolt.Open(filepath.Join(data, "classes.bolt"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = records.Close() })
	vectors, err := files.Open(filepath.Join(data, "vectors"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = vectors.Close() })
	cache, err := localfile.New(filepath.Join(data, "cache"), 0)
	require.NoError(t, err)
	id, err := artifact.OpenStoreID(t.Context(), artifacts)
	require.NoError(t, err)
	s.Artifacts, s.Coordination, s.Records, s.Vectors, s.Cache = artifacts, coordination, records, vectors, cache
	s.Ledger, s.StoreID = ledger.New(artifacts, coordination), id
}

// The text of documents is in almost everything that a build writes: only the owner can read any of it, whatever the
// umask of the process is.
func TestNothingThatABuildWritesIsReadableForOthers(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	data := filepath.Join(t.TempDir(), "data")
	s := newSite(t, sample(4))
	s.onDisk(t, data)
	s.night(t)
	s.write(t, map[string]string{"place-001.md": "# New\n\nThe harbour of Port Selm was built by Carla Ruiz.\n"})
	s.night(t)
	seen := 0
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s %s", info.Mode(), path)
		}
		return nil
	})
	assert.True(t, err == nil && seen >= 30, "%d files, %v", seen, err)
}
