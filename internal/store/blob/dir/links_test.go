package dir_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

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

// listed gives the keys of a listing, and those that were named and left out.
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

// listAll returns what a listing gives, errors of objects too.
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
				assert.True(t, slices.Equal(slices.Concat(low, high), all),
					"%s, cut at %q: %q and %q, of %q", name, cut, low, high, all)
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
			_, _, err := store.Get(t.Context(), key, blob.All)
			assert.True(t, fault.Is(err, fault.NotFollowed), "%s: %s is read: %v", how, key, err)
			_, err = store.Stat(t.Context(), key)
			assert.True(t, fault.Is(err, fault.NotFollowed), "%s: %s is described: %v", how, key, err)
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
		_, err := dir.OpenCorpus(path, data)
		assert.True(t, fault.Is(err, fault.CorpusRefused), "%s: %v", path, err)
	}
}
