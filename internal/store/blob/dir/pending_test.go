package dir

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ends has the file of records that is written to end.
func ends(t *testing.T, store *Store) {
	t.Helper()
	store.journal.mu.Lock()
	store.journal.retire(store.journal.log)
	store.journal.mu.Unlock()
	require.NoError(t, store.journal.settle())
}

// files gives the objects of a folder that have a file.
func files(t *testing.T, root string) (keys []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if err == nil && !entry.IsDir() {
			key, _ := filepath.Rel(root, path)
			keys = append(keys, key)
		}
		return err
	})
	require.NoError(t, err)
	return keys
}

func TestOnlyWhatOutlivesItsJournalGetsAFile(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	for i := range 10 {
		write(t, store, fmt.Sprint("a/", i), "x")
	}
	if got := files(t, root); len(got) != 0 {
		t.Errorf("%q have a file at once", got)
	}
	for i := range 9 {
		require.NoError(t, store.Delete(t.Context(), fmt.Sprint("a/", i)))
	}
	if _, err := store.Stat(t.Context(), "a/3"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted one: %v", err)
	}
	var synced atomic.Int32
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	syncFile = func(file *os.File) error { synced.Add(1); return before(file) }
	ends(t, store)
	if got := files(t, root); !slices.Equal(got, []string{"a/9"}) || synced.Load() != 1 {
		t.Errorf("%q have a file, %d were synced", got, synced.Load())
	}
}

func TestAnObjectWithoutAFileIsReadAsAnyOther(t *testing.T) {
	store := journaled(t, t.TempDir())
	write(t, store, "a/k", "0123456789")
	seen, err := store.Stat(t.Context(), "a/k")
	require.True(t, err == nil && seen.Size == 10 && !seen.Modified.IsZero(), "%+v, %v", seen, err)
	for _, ask := range []struct {
		blob.Range
		want string
	}{
		{blob.Range{Length: -1}, "0123456789"},
		{blob.Range{Offset: 4, Length: -1}, "456789"},
		{blob.Range{Offset: 4, Length: 3, Match: seen.ETag}, "456"},
		{blob.Range{Offset: 8, Length: 30}, "89"},
	} {
		body, found, err := store.Get(t.Context(), "a/k", ask.Range)
		require.NoError(t, err)
		raw, err := io.ReadAll(body)
		assert.True(t, err == nil && string(raw) == ask.want && found == seen, "%+v: %q, %+v, %v", ask.Range, raw, found, err)
	}
	if _, _, err := store.Get(t.Context(), "a/k", blob.Range{Length: -1, Match: "other"}); !fault.Is(err, fault.Precondition) {
		t.Errorf("in another version: %v", err)
	}
	if _, err := blob.Write(t.Context(), store, "a/k", []byte("y"), absent); !fault.Is(err, fault.Precondition) {
		t.Errorf("put again: %v", err)
	}
	large := make([]byte, journalObject+1) // takes no journal
	if _, err := blob.Write(t.Context(), store, "a/k", large, absent); !fault.Is(err, fault.Precondition) {
		t.Errorf("put again, large: %v", err)
	}
}

func TestAnObjectWithoutAFileIsReplacedOnCondition(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "a/k", "negative")
	seen, err := store.Stat(t.Context(), "a/k")
	require.NoError(t, err)
	if _, err := blob.Write(t.Context(), store, "a/k", []byte("z"), blob.Cond{Match: "other"}); !fault.Is(err, fault.Precondition) {
		t.Errorf("on another version: %v", err)
	}
	_, err = blob.Write(t.Context(), store, "a/k", []byte("positive"), blob.Cond{Match: seen.ETag})
	require.NoError(t, err)
	for range 2 {
		raw, _, err := blob.Read(t.Context(), store, "a/k")
		assert.True(t, err == nil && string(raw) == "positive", "read %q, %v", raw, err)
		ends(t, store)
	}
	if got := reads(t, crashed(t, root)); got["a/k"] != "positive" {
		t.Errorf("after a crash: %q", got)
	}
}

// A listing gives files and what has none in the order of keys, each once.
func TestListingsHoldObjectsWithoutAFile(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	var want []string
	for i := range 40 {
		key := fmt.Sprintf("a/%d/%02d", i%3, i)
		if want = append(want, key); i%2 == 0 {
			leave(t, root, key, "x")
		} else {
			write(t, store, key, "x")
		}
	}
	write(t, store, "b", "x")
	slices.Sort(want)
	listed := func(prefix, after string, between func()) (keys []string) {
		for found, err := range store.List(t.Context(), prefix, after) {
			require.True(t, err == nil && found.Size == 1, "%+v, %v", found, err)
			if keys = append(keys, found.Key); len(keys) == 5 && between != nil {
				between()
			}
		}
		return keys
	}
	if got := listed("a/", "", nil); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := listed("a/", want[17], nil); !slices.Equal(got, want[18:]) {
		t.Errorf("after %s: %q", want[17], got)
	}
	for i, cut := range want {
		for _, bounds := range [][2]string{{"", cut}, {cut, ""}} {
			part := want[:i+1]
			if bounds[1] == "" {
				part = want[i+1:]
			}
			var got []string
			for found, err := range store.ListRange(t.Context(), "a/", bounds[0], bounds[1]) {
				require.NoError(t, err)
				got = append(got, found.Key)
			}
			assert.True(t, slices.Equal(got, part), "the range %q: %q", bounds, got)
		}
	}
	if got := listed("a/1/", "", nil); len(got) != 13 {
		t.Errorf("below a/1: %q", got)
	}
	var parts []string
	for i, cut := range []string{want[11], want[30], ""} {
		for found, err := range store.ListRange(t.Context(), "a/", []string{"", want[11], want[30]}[i], cut) {
			require.NoError(t, err)
			parts = append(parts, found.Key)
		}
	}
	assert.True(t, slices.Equal(parts, want), "in ranges: %q", parts)
	for range store.List(t.Context(), "", "") {
		break // yields no more
	}
	if got := listed("a/", "", func() { ends(t, store) }); !slices.Equal(got, want) {
		t.Errorf("while the journal ended: %q", got)
	}
	write(t, store, "a/2/90", "x")
	if got := listed("a/", "", func() {
		assert.NoError(t, store.Delete(t.Context(), "a/2/90"))
	}); !slices.Equal(got, want) {
		t.Errorf("with one that was deleted meanwhile: %q", got)
	}
}

// Whoever reads while a journal ends finds the object, in its record or in its file.
func TestAnObjectCanBeReadWhileItsJournalEnds(t *testing.T) {
	store := journaled(t, t.TempDir())
	var all sync.WaitGroup
	done := make(chan struct{})
	var written atomic.Int64
	written.Store(-1)
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				last := written.Load()
				for n := max(last-20, 0); n <= last; n++ {
					key := fmt.Sprint("k/", n)
					if raw, _, err := blob.Read(t.Context(), store, key); err != nil || string(raw) != key {
						t.Errorf("%s: %q, %v", key, raw, err)
						return
					}
				}
			}
		})
	}
	for n := range int64(300) {
		key := fmt.Sprint("k/", n)
		write(t, store, key, key)
		if written.Store(n); n%7 == 0 {
			ends(t, store)
		}
	}
	close(done)
	all.Wait()
}
