package dir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return musttest.Get(dir.Open(t.TempDir()))(t) })
}

func TestOpenSweepsWhatACrashLeft(t *testing.T) {
	root := t.TempDir()
	musttest.Get(dir.Open(root))(t)
	left := filepath.Join(root, ".tmp", "1-1")
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o600))
	musttest.Get(dir.Open(root))(t)
	_, err := os.Stat(left)
	assert.True(t, os.IsNotExist(err), "the file is still there")
}

func TestACorpusThatIsNoFolderIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, p := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		_, err := dir.OpenCorpus(p)
		assert.True(t, fault.Is(err, fault.CorpusMissing) && fault.As(err).Object == p, "%s: %v", p, err)
	}
}

func TestAFolderInTheWayOfAnObjectIsAnError(t *testing.T) {
	store := musttest.Get(dir.Open(t.TempDir()))(t)
	musttest.Get(blob.Write(t.Context(), store, "a", []byte("x"), blob.Cond{}))(t)
	_, err := blob.Write(t.Context(), store, "a/b", []byte("x"), blob.Cond{})
	assert.Error(t, err, "an object was stored below another")
	blobtest.Holds(t, store, "a", "x")
}

func TestAFolderThatWasRemovedIsMadeAgain(t *testing.T) {
	root := t.TempDir()
	store := musttest.Get(dir.Open(root))(t)
	for range 2 {
		musttest.Get(blob.Write(t.Context(), store, "a/b/c", []byte("x"), blob.Cond{}))(t)
		require.NoError(t, os.RemoveAll(filepath.Join(root, "a")))
	}
}

// A store that was moved away, and its mount point without the mount, hold no objects and are not empty either.
func TestAStoreWhoseFolderIsGoneIsUnavailable(t *testing.T) {
	root := filepath.Join(t.TempDir(), "store")
	store := musttest.Get(dir.Open(root))(t)
	musttest.Get(blob.Write(t.Context(), store, "a/b", []byte("x"), blob.Cond{}))(t)
	for _, empty := range []bool{false, true} {
		require.NoError(t, os.Rename(root, root+".away"))
		if empty {
			require.NoError(t, os.Mkdir(root, 0o700))
		}
		for name, use := range map[string]func() error{
			"read":    func() error { _, _, err := blob.Read(t.Context(), store, "a/b"); return err },
			"stat":    func() error { _, err := store.Stat(t.Context(), "a/b"); return err },
			"folders": func() error { _, err := store.ListFolders(t.Context()); return err },
			"delete":  func() error { return store.Delete(t.Context(), "a/b") },
			"write":   func() error { _, err := blob.Write(t.Context(), store, "c/d", nil, blob.Cond{}); return err },
			"replace": func() error { _, err := blob.Write(t.Context(), store, "a/b", nil, blob.Cond{Match: "x"}); return err },
		} {
			err := use()
			assert.True(t, fault.Is(err, fault.StoreDown), "%s, empty %t: %v", name, empty, err)
		}
		if empty {
			require.NoError(t, os.RemoveAll(root))
		}
		require.NoError(t, os.Rename(root+".away", root))
	}
	blobtest.Holds(t, store, "a/b", "x")
	corpus := musttest.Get(dir.OpenCorpus(root))(t)
	require.NoError(t, os.RemoveAll(root))
	musttest.Refuse(corpus.ListFolders(t.Context()))(t, fault.CorpusMissing)
}

// A key that cannot be removed must not keep the others, and must be named.
func TestDeletingManyGoesOnPastAFailureAndNamesIt(t *testing.T) {
	root := t.TempDir()
	store := musttest.Get(dir.Open(root))(t)
	for _, key := range []string{"folder1/x", "folder2/x", "b"} {
		musttest.Get(blob.Write(t.Context(), store, key, []byte("x"), blob.Cond{}))(t)
	}
	err := store.DeleteAll(t.Context(), []string{"folder1", "folder2", "b"}) // folders that are not empty
	assert.True(t, err != nil && strings.Contains(err.Error(), "2 of 3") && strings.Contains(err.Error(), "folder1"),
		"got %v", err)
	musttest.Refuse(store.Stat(t.Context(), "b"))(t, fault.NotFound)
}

// A file that is written to in place while it is read is of neither version: a reader that asked for one gets an error.
func TestAFileThatIsWrittenToWhileItIsReadIsToldAtItsEnd(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.txt")
	for name, change := range map[string]func() error{
		"nothing":   func() error { return nil },
		"appended":  func() error { return os.WriteFile(path, []byte(strings.Repeat("b", 5000)), 0o600) },
		"truncated": func() error { return os.Truncate(path, 10) },
		"replaced": func() error { // under the name: the reader has the old file, whole
			return errors.Join(os.WriteFile(path+".new", []byte("new"), 0o600), os.Rename(path+".new", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a", 4000)), 0o600))
			old := time.Now().Add(-time.Hour)
			require.NoError(t, os.Chtimes(path, old, old))
			store := musttest.Get(dir.OpenCorpus(root))(t)
			seen := musttest.Get(store.Stat(t.Context(), "a.txt"))(t)
			for _, match := range []string{seen.ETag, ""} {
				body, _, err := store.Get(t.Context(), "a.txt", blob.Range{Length: -1, Match: match})
				require.NoError(t, err)
				musttest.Get(io.ReadFull(body, make([]byte, 100)))(t)
				if match != "" {
					require.NoError(t, change())
				}
				_, err = io.Copy(io.Discard, body)
				torn := match != "" && (name == "appended" || name == "truncated")
				assert.True(t, fault.Is(err, fault.Precondition) == torn && (torn || err == nil), "match %q: %v", match, err)
				assert.NoError(t, body.Close())
				if name == "truncated" || name == "replaced" {
					break
				}
			}
		})
	}
}

// late is a context whose deadline has passed and whose timer has not gone off: that of a process that just woke up.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestDeletesEndWithTheirContextAndItsDeadline(t *testing.T) {
	store := musttest.Get(dir.Open(t.TempDir()))(t)
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprint("docs/segments/", i))
		musttest.Get(blob.Write(t.Context(), store, keys[i], []byte("x"), blob.Cond{}))(t)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "late": late{t.Context()}} {
		for _, err := range []error{store.DeleteAll(ctx, keys), store.Delete(ctx, keys[0])} {
			assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%s: %v", name, err)
		}
	}
	for _, key := range keys {
		_, err := store.Stat(t.Context(), key)
		assert.NoError(t, err)
	}
}
