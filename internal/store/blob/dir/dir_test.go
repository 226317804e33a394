package dir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

// What a crash of an upload left goes a day later; what others wrote into the same folder stays.
func TestACorpusIsWrittenWholeAndSwept(t *testing.T) {
	root := t.TempDir()
	defer unix.Umask(unix.Umask(0o077)) // as programs of ours have
	corpus := musttest.Get(dir.OpenCorpus(root))(t)
	require.NoError(t, os.Mkdir(filepath.Join(root, ".tmp"), 0o700))
	for name, age := range map[string]time.Duration{"unweaver-upload-old": 25, "unweaver-upload-new": 1, "of-others": 99} {
		path := filepath.Join(root, ".tmp", name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age*time.Hour)))
	}
	_, err := corpus.Put(t.Context(), "a/b.txt", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrClosedPipe)),
		-1, blob.Cond{})
	require.Error(t, err)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := blob.Write(t.Context(), corpus, fmt.Sprint("c/", i%4, ".txt"), []byte("whole"), blob.Cond{})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	blobtest.Holds(t, corpus, "c/3.txt", "whole")
	left := musttest.Get(os.ReadDir(filepath.Join(root, ".tmp")))(t)
	assert.True(t, len(left) == 2 && left[0].Name() == "of-others", "%v", left)
	musttest.Refuse(corpus.Stat(t.Context(), "a/b.txt"))(t, fault.NotFound)
	require.NoError(t, os.Chmod(filepath.Join(root, "c/3.txt"), 0o640))
	musttest.Get(blob.Write(t.Context(), corpus, "c/3.txt", []byte("again"), blob.Cond{}))(t)
	for name, mode := range map[string]fs.FileMode{"c": fs.ModeDir | 0o755, "c/2.txt": 0o644, "c/3.txt": 0o640} {
		assert.Equal(t, mode, musttest.Get(os.Stat(filepath.Join(root, name)))(t).Mode(), "%s", name)
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
			musttest.Code(t, use(), fault.StoreDown, "%s, empty %t", name, empty)
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
				body, _ := musttest.Get2(store.Get(t.Context(), "a.txt", blob.Range{Length: -1, Match: match}))(t)
				musttest.Get(io.ReadFull(body, make([]byte, 100)))(t)
				if match != "" {
					require.NoError(t, change())
				}
				_, err := io.Copy(io.Discard, body)
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
	cancelled := musttest.EndedContext(t)
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "late": late{t.Context()}} {
		for _, err := range []error{store.DeleteAll(ctx, keys), store.Delete(ctx, keys[0])} {
			assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%s: %v", name, err)
		}
	}
	for _, key := range keys {
		assert.NoError(t, musttest.Err(store.Stat(t.Context(), key)))
	}
}

// hostile makes a corpus with links of every kind, a pipe and a socket's like, and the folder of secrets beside it.
func hostile(t *testing.T) (root string) {
	t.Helper()
	top := t.TempDir()
	root = filepath.Join(top, "corpus")
	for _, folder := range []string{"corpus/sub", "secrets/deep"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, folder), 0o700))
	}
	for _, file := range []string{"corpus/a.txt", "corpus/sub/b.txt", "secrets/key.txt", "secrets/deep/c.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(top, file), []byte(file), 0o600))
	}
	for link, target := range map[string]string{
		"d1": ".", "d2": ".", "out.txt": "../secrets/key.txt", "outdir": "../secrets", "outdir2": "../secrets",
		"nowhere.txt": "gone", "in.txt": "a.txt", "sub/up": "..", "null.txt": "/dev/null", "self.txt": "self.txt",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(root, "pipe.txt"), 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	return root
}

func listed(t *testing.T, store blob.Store) (keys, left []string) {
	t.Helper()
	last := ""
	for info, err := range store.List(t.Context(), "", "") {
		assert.True(t, info.Key > last, "%q comes after %q", info.Key, last)
		last = info.Key
		switch {
		case err == nil:
			keys = append(keys, info.Key)
		case fault.Is(err, fault.NotFollowed):
			left = append(left, info.Key)
		default:
			t.Fatal(err)
		}
		require.True(t, len(keys)+len(left) <= 1000, "the walk does not end")
	}
	return keys, left
}

func TestLinksOfACorpusAreNamedAndNotFollowed(t *testing.T) {
	store := musttest.Get(dir.OpenCorpus(hostile(t)))(t)
	keys, left := listed(t, store)
	if want := []string{"a.txt", "sub/b.txt"}; !slices.Equal(keys, want) {
		t.Errorf("listed %v, want %v", keys, want)
	}
	want := []string{"d1", "d2", "in.txt", "nowhere.txt", "null.txt", "out.txt", "outdir", "outdir2", "pipe.txt",
		"self.txt", "sub/up"}
	assert.True(t, slices.Equal(left, want), "left out %v, want %v", left, want)
	for _, err := range store.List(t.Context(), "out.txt", "") {
		assert.Contains(t, err.Error(), "follow_links", "%v does not name the option", err)
	}
}

func TestFollowedLinksLeadOutOnceAndNeverRound(t *testing.T) {
	corpus := musttest.Get(dir.OpenCorpus(hostile(t)))(t)
	store := corpus.FollowLinks()
	keys, left := listed(t, store)
	want := []string{"a.txt", "in.txt", "out.txt", "outdir/deep/c.txt", "outdir/key.txt", "sub/b.txt"}
	assert.True(t, slices.Equal(keys, want), "listed %v, want %v", keys, want)
	want = []string{"d1", "d2", "nowhere.txt", "null.txt", "outdir2", "pipe.txt", "self.txt", "sub/up"}
	assert.True(t, slices.Equal(left, want), "left out %v, want %v", left, want)
	raw, _, err := blob.Read(t.Context(), store, "outdir/key.txt")
	assert.True(t, err == nil && string(raw) == "secrets/key.txt", "%q, %v", raw, err)
}

// What is listed as a file may be a link or a pipe when it is read.
func TestWhatBecameALinkOrAPipeIsNotRead(t *testing.T) {
	root := hostile(t)
	store := musttest.Get(dir.OpenCorpus(root))(t)
	for _, key := range []string{"out.txt", "outdir/key.txt", "in.txt", "d1/a.txt"} {
		raw, _, err := blob.Read(t.Context(), store, key)
		assert.True(t, fault.Is(err, fault.NotFollowed), "%s: read %q, %v", key, raw, err)
	}
	done := make(chan error, 1)
	go func() {
		body, _, err := store.Get(t.Context(), "pipe.txt", blob.All)
		if err == nil {
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	case <-time.After(time.Minute):
		t.Fatal("reading a pipe does not end")
	}
}

func TestACorpusMayBeALinkItself(t *testing.T) {
	root := hostile(t)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(root, link))
	store := musttest.Get(dir.OpenCorpus(link))(t)
	keys, _ := listed(t, store)
	assert.True(t, len(keys) == 2, "%v", keys)
	raw, _, err := blob.Read(t.Context(), store, "sub/b.txt")
	assert.True(t, err == nil && string(raw) == "corpus/sub/b.txt", "%q, %v", raw, err)
}

// A chain of folders that are each linked twice has as many paths as 2 to its length.
func TestLinksCannotMultiplyFolders(t *testing.T) {
	root := t.TempDir()
	for i := range 40 {
		folder := filepath.Join(root, ".chain", string(rune('a'+i%26))+strings.Repeat("x", i/26))
		require.NoError(t, os.MkdirAll(folder, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "doc.txt"), nil, 0o600))
	}
	folders := musttest.Get(filepath.Glob(filepath.Join(root, ".chain", "*")))(t)
	for i := range folders[1:] {
		for _, name := range []string{"l1", "l2"} {
			if err := os.Symlink(folders[i+1], filepath.Join(folders[i], name)); err != nil {
				t.Skip("no links here: ", err)
			}
		}
	}
	require.NoError(t, os.Symlink(folders[0], filepath.Join(root, "begin")))
	corpus := musttest.Get(dir.OpenCorpus(root))(t)
	keys, left := listed(t, corpus.FollowLinks())
	assert.True(t, len(keys) <= 100 && len(left) != 0, "%d documents of 40, %d left out", len(keys), len(left))
}

// Folders that are gone between the listing of their parent and the look at them leave what is above them known.
func TestFoldersThatVanishWhileACorpusIsListedLoseNothingElse(t *testing.T) {
	root := t.TempDir()
	for _, folder := range []string{"top/a", "top/b", "top/c", "top/d"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, folder, "x.txt"), []byte("x"), 0o600))
	}
	if err := os.Symlink("../..", filepath.Join(root, "top/d/up")); err != nil {
		t.Skip("no links here: ", err)
	}
	corpus := musttest.Get(dir.OpenCorpus(root))(t)
	var keys []string
	for info, err := range corpus.FollowLinks().List(t.Context(), "", "") {
		require.True(t, err == nil || fault.Is(err, fault.NotFollowed), "%v", err)
		keys = append(keys, info.Key)
		if info.Key == "top/a/x.txt" {
			for _, gone := range []string{"top/b", "top/c"} {
				require.NoError(t, os.RemoveAll(filepath.Join(root, gone)))
			}
		}
	}
	want := []string{"top/a/x.txt", "top/d/up", "top/d/x.txt"}
	assert.True(t, slices.Equal(keys, want), "%q, want %q", keys, want)
}

// The names in a folder without the right to enter it can be listed, and nothing that they name can be looked at.
func TestAFolderThatMayBeListedAndNotEnteredIsAnErrorNotAPanic(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("the superuser may enter every folder")
	}
	root := t.TempDir()
	for _, folder := range []string{"locked/a", "locked/b", "locked/c"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o700))
	}
	locked := filepath.Join(root, "locked")
	require.NoError(t, os.Chmod(locked, 0o400))
	t.Cleanup(func() { _ = os.Chmod(locked, 0o700) }) //nolint:gosec // so that it can be removed
	corpus := musttest.Get(dir.OpenCorpus(root))(t)
	failures := 0
	for _, err := range corpus.FollowLinks().List(t.Context(), "", "") {
		if err != nil {
			failures++
		}
	}
	assert.True(t, failures != 0, "nothing is reported")
}

func listAll(t *testing.T, store blob.Store, after, until string) (out []string) {
	for info, err := range store.ListRange(t.Context(), "", after, until) {
		require.True(t, err == nil || info.Key != "", "%v", err)
		out = append(out, fmt.Sprint(info.Key, " ", fault.CodeOf(err)))
	}
	return out
}

// Wherever a listing is cut, each object and each thing that is left out is given once: links to folders too, which are
// named without the slash that they are sorted with, and of which only one to each folder is followed.
// Promises: 33.
func TestRangesOfACorpusWithLinksTellEverythingOnce(t *testing.T) {
	root := hostile(t)
	for _, file := range []string{"outdir-beside.txt", "d1.txt", "sub.txt", "sub-beside.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(file), 0o600))
	}
	store := musttest.Get(dir.OpenCorpus(root))(t)
	for name, store := range map[string]blob.Store{"named": store, "followed": blob.FollowLinks(store)} {
		all := listAll(t, store, "", "")
		require.True(t, len(all) >= 12, "%s: %q", name, all)
		for info := range store.ListRange(t.Context(), "", "", "") {
			for _, cut := range []string{info.Key, info.Key + "-", info.Key + "/", info.Key + "/deep", info.Key + "0"} {
				low, high := listAll(t, store, "", cut), listAll(t, store, cut, "")
				assert.True(t, slices.Equal(slices.Concat(low, high), all), "%s, %q, %q, %q, %q", name, cut, low, high, all)
			}
		}
	}
}

// project makes a folder of documents with the folder of this program's own files in it, and links into that one.
func project(t *testing.T) (root, data string) {
	t.Helper()
	root = t.TempDir()
	data = filepath.Join(root, "data")
	for _, file := range []string{"a.txt", "data.txt", "data/dev.json", "data/deep/secret.txt", "z/b.txt"} {
		path := filepath.Join(root, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	}
	for link, target := range map[string]string{"in.txt": "data/dev.json", "indeed": "data/deep", "whole": "data"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skip("no links here:", err)
		}
	}
	return root, data
}

func TestOwnFilesBelowACorpusAreNamedAndNeverRead(t *testing.T) {
	root, data := project(t)
	corpus := musttest.Get(dir.OpenCorpus(root, data, filepath.Join(root, "gone")))(t)
	for how, store := range map[string]blob.Store{"links named": corpus, "links followed": corpus.FollowLinks()} {
		keys, left := listed(t, store)
		want := []string{"a.txt", "data.txt", "z/b.txt"}
		assert.True(t, slices.Equal(keys, want), "%s: listed %v, want %v", how, keys, want)
		want = []string{"data", "in.txt", "indeed", "whole"}
		assert.True(t, slices.Equal(left, want), "%s: left out %v, want %v", how, left, want)
		for info, err := range store.List(t.Context(), "data/", "") {
			assert.True(t, fault.Is(err, fault.NotFollowed), "%s: below it %q is listed: %v", how, info.Key, err)
		}
		for _, key := range []string{"data/dev.json", "data/deep/secret.txt", "in.txt", "indeed/secret.txt"} {
			musttest.Code(t, musttest.Err2(store.Get(t.Context(), key, blob.All)), fault.NotFollowed, "%s: %s is read", how, key)
			musttest.Code(t, musttest.Err(store.Stat(t.Context(), key)), fault.NotFollowed, "%s: %s is described", how, key)
		}
		if body, _, err := store.Get(t.Context(), "z/b.txt", blob.All); err != nil {
			t.Error(err)
		} else {
			_ = body.Close()
		}
	}
}

func TestACorpusInAFolderOfOwnFilesIsRefused(t *testing.T) {
	root, data := project(t)
	for _, path := range []string{data, filepath.Join(data, "deep"), filepath.Join(root, "indeed"), data + "/../data/"} {
		musttest.Code(t, musttest.Err(dir.OpenCorpus(path, data)), fault.CorpusRefused, path)
	}
}
