package dir

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
)

var absent = blob.Cond{Absent: true}

func every(string) bool { return true }

func journaled(t *testing.T, root string) *Store {
	t.Helper()
	store, err := Open(root, Journal(every))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestAJournaledFolderConforms(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return journaled(t, t.TempDir()) })
}

// crashed copies a folder as it is, without the owner of its journal.
func crashed(t *testing.T, root string) string {
	t.Helper()
	to := t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(root)))
	return to
}

// onlyJournal gives the path of the one journal of a folder.
func onlyJournal(t *testing.T, root string) string {
	t.Helper()
	names, err := journals(filepath.Join(root, journalDir))
	require.True(t, err == nil && len(names) == 1, "journals: %q, %v", names, err)
	return filepath.Join(root, journalDir, names[0])
}

// leave makes a file of a folder.
func leave(t *testing.T, root, key, value string) {
	t.Helper()
	path := filepath.Join(root, key)
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(value), 0o600)))
}

func write(t *testing.T, store *Store, key, value string) {
	t.Helper()
	_, err := blob.Write(t.Context(), store, key, []byte(value), absent)
	require.NoError(t, err)
}

func reads(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	store, err := Open(root)
	require.NoError(t, err)
	for found, err := range store.List(t.Context(), "", "") {
		require.NoError(t, err)
		raw, _, err := blob.Read(t.Context(), store, found.Key)
		require.NoError(t, err)
		out[found.Key] = string(raw)
	}
	return out
}

// Every write of a group is durable when it is acknowledged: its record is in the file that the sync covered.
func TestWritersShareTheSyncOfTheJournal(t *testing.T) {
	store := journaled(t, t.TempDir())
	hold, began := make(chan struct{}), make(chan struct{}, 100)
	var syncs atomic.Int32
	before := syncData
	t.Cleanup(func() { syncData = before })
	syncData = func(file *os.File) error {
		if syncs.Add(1) == 1 {
			began <- struct{}{}
			<-hold
		}
		return before(file)
	}
	var all sync.WaitGroup
	put := func(i int) { all.Go(func() { write(t, store, fmt.Sprint("a/", i), "x") }) }
	put(0)
	<-began
	for i := 1; i < 100; i++ {
		put(i)
	}
	for waiting := 0; waiting < 100; { // until all of them wait
		store.journal.mu.Lock()
		waiting = 1
		if group := store.journal.log.waiting; group != nil {
			waiting += len(group.objects)
		}
		store.journal.mu.Unlock()
	}
	if _, err := store.Stat(t.Context(), "a/0"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an object can be read before it is durable: %v", err)
	}
	close(hold)
	all.Wait()
	assert.Equal(t, int32(2), syncs.Load(), "100 writes cost")
}

func TestAJournalSparesSyncsOfFilesAndFolders(t *testing.T) {
	store := journaled(t, t.TempDir())
	write(t, store, "a/b/0", "x") // opens the journal
	folders := 0
	watch(t, func(string) error { folders++; return nil })
	for i := 1; i < 10; i++ {
		write(t, store, fmt.Sprintf("a/%d/%d", i, i), "x")
	}
	assert.Zero(t, folders)
}

// Whatever a loss of power leaves of the objects, all is there when the folder is opened.
// Promises: 55.
func TestWhatPowerTookOfJournaledObjectsComesBack(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	want := map[string]string{}
	for i := range 8 {
		key := fmt.Sprintf("ledger/%d/%d", i%2, i)
		want[key] = strings.Repeat(fmt.Sprint(i+1, ";"), 4000)
		write(t, store, key, want[key])
	}
	left := crashed(t, root)
	for key, value := range want { // as earlier releases did, and as an end of the journal that was cut off leaves them
		leave(t, left, key, value)
	}
	torn := map[int]func(path string) error{
		0: os.Remove,
		1: func(path string) error { return os.Truncate(path, 0) },
		2: func(path string) error { return os.Truncate(path, 100) },
		3: func(path string) error { return os.WriteFile(path, make([]byte, 8000), 0o600) },
		4: func(path string) error {
			raw, err := os.ReadFile(path)
			clear(raw[4096:])
			return errors.Join(err, os.WriteFile(path, raw, 0o600))
		},
	}
	for i, tear := range torn {
		require.NoError(t, tear(filepath.Join(left, fmt.Sprintf("ledger/%d/%d", i%2, i))))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(left, "ledger/1/7")))
	for range 2 { // and again
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(reads(t, left)), "read")
	}
	if names, _ := journals(filepath.Join(left, journalDir)); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
}

// The end of a journal is cut at every byte: what was whole is there, nothing else, and nothing torn.
// Promises: 55.
func TestAJournalThatIsCutAtAnyByteGivesWhatItHolds(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	var ends []int64
	for i := range 3 {
		write(t, store, fmt.Sprint("k/", i), strings.Repeat(fmt.Sprint(i), 40))
		st, err := os.Stat(onlyJournal(t, root))
		require.NoError(t, err)
		ends = append(ends, st.Size())
	}
	raw, err := os.ReadFile(onlyJournal(t, root))
	require.NoError(t, err)
	name := filepath.Base(onlyJournal(t, root))
	for cut := range len(raw) + 1 {
		left := onlyWith(t, name, raw[:cut])
		whole := 0
		for whole < len(ends) && ends[whole] <= int64(cut) {
			whole++
		}
		got := reads(t, left)
		require.Len(t, got, whole, "cut at %d", cut)
		for i := range whole {
			key := fmt.Sprint("k/", i)
			require.True(t, got[key] == strings.Repeat(fmt.Sprint(i), 40), "cut at %d: %s is %q", cut, key, got[key])
		}
	}
}

// onlyWith makes a folder that has a journal and nothing else.
func onlyWith(t *testing.T, name string, raw []byte) string {
	t.Helper()
	left := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(left, journalDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, journalDir, name), raw, 0o600))
	return left
}

// A bit that flips takes one record; it changes none, and the others count.
func TestABitThatFlipsInAJournalTakesOneRecord(t *testing.T) {
	var id recordID
	copy(id[:], "12345678")
	var raw []byte
	for i := range 3 {
		raw = appendRecord(raw, id, recordPut, fmt.Sprint("k/", i), []byte("value "+string(id[:4])))
	}
	for bit := range 8 * len(raw) {
		flipped := bytes.Clone(raw)
		flipped[bit/8] ^= 1 << (bit % 8)
		found := parseRecords(flipped, id)
		require.Len(t, found, 2, "bit %d", bit)
		for _, r := range found {
			require.True(t, string(r.raw) == "value 1234" && strings.HasPrefix(r.key, "k/") && r.kind == recordPut,
				"bit %d: %+v", bit, r)
		}
	}
}

// What an object holds is never taken for a record, not even where the record of the object is damaged.
func TestAnObjectThatLooksLikeARecordIsNone(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	forged := appendRecord(nil, recordID{1, 2, 3, 4, 5, 6, 7, 8}, recordPut, "forged", []byte("x"))
	write(t, store, "k", string(forged))
	raw, err := os.ReadFile(onlyJournal(t, root))
	require.NoError(t, err)
	raw[9] ^= 1
	if got := reads(t, onlyWith(t, filepath.Base(onlyJournal(t, root)), raw)); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

// An object that stands is another writer's, who was told so.
func TestAReplayNeverOverwritesAnObjectOfAnother(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "k/1", "negative")
	write(t, store, "k/2", "first")
	seen, err := store.Stat(t.Context(), "k/1")
	require.NoError(t, err)
	_, err = blob.Write(t.Context(), store, "k/1", []byte("positive"), blob.Cond{Match: seen.ETag})
	require.NoError(t, err)
	left := crashed(t, root)
	require.NoError(t, os.WriteFile(filepath.Join(left, "k/2"), []byte("other"), 0o600))
	if got := reads(t, left); got["k/1"] != "positive" || got["k/2"] != "other" {
		t.Errorf("got %q", got)
	}
}

// What was deleted stays so once that is in the journal, and what was put again under the key counts, whichever of the
// two the file system has kept.
func TestWhatWasPutAfterADeletionCounts(t *testing.T) {
	for name, kept := range map[string]string{
		"nothing": "", "the old": "the first, refused", "the old, torn": "the fir", "the new, torn": "the sec",
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			store := journaled(t, root)
			write(t, store, "k", "the first, refused")
			write(t, store, "gone", "refused")
			for _, key := range []string{"k", "gone"} {
				require.NoError(t, store.Delete(t.Context(), key))
			}
			write(t, store, "k", "the second")
			left := crashed(t, root)
			_ = os.Remove(filepath.Join(left, "k"))
			if kept != "" {
				for _, key := range []string{"k", "gone"} {
					require.NoError(t, os.WriteFile(filepath.Join(left, key), []byte(kept), 0o600))
				}
			}
			require.NoError(t, os.WriteFile(filepath.Join(left, "gone"), []byte("refu"), 0o600))
			if got := reads(t, left); len(got) != 1 || got["k"] != "the second" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The deletion is in another file than the object where a journal has ended in between.
func TestADeletionCountsOverTwoJournals(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "k", "the first")
	store.journal.mu.Lock()
	store.journal.retire(store.journal.log)
	store.journal.mu.Unlock()
	require.NoError(t, store.Delete(t.Context(), "k"))
	write(t, store, "k", "the second")
	left := crashed(t, root)
	require.NoError(t, os.WriteFile(filepath.Join(left, "k"), []byte("the first"), 0o600))
	if got := reads(t, left); got["k"] != "the second" {
		t.Errorf("got %q", got)
	}
}

// The journal of a process that lives is its own: it goes on writing to it.
func TestAJournalWhoseOwnerLivesIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	one := journaled(t, root)
	write(t, one, "k/1", "1")
	two := journaled(t, root)
	write(t, two, "k/2", "2")
	write(t, one, "k/3", "3")
	names, err := journals(filepath.Join(root, journalDir))
	require.True(t, err == nil && len(names) == 2, "journals: %q, %v", names, err)
	left := crashed(t, root)
	require.NoError(t, os.RemoveAll(filepath.Join(left, "k")))
	if got := reads(t, left); len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

func TestCloseSyncsWhatTheJournalHoldsAndEndsIt(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	var synced atomic.Int32
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	syncFile = func(file *os.File) error {
		synced.Add(1)
		return before(file)
	}
	var folders []string
	write(t, store, "a/b/1", "x")
	write(t, store, "a/c/2", "x")
	watch(t, func(folder string) error { folders = append(folders, folder); return nil })
	require.NoError(t, store.Close())
	assert.Equal(t, int32(2), synced.Load())
	for _, key := range []string{"a/b/1", "a/c/2"} {
		raw, err := os.ReadFile(store.path(key))
		assert.True(t, err == nil && string(raw) == "x", "%s: %q, %v", key, raw, err)
	}
	for _, folder := range []string{"", "a", "a/b", "a/c", journalDir} {
		assert.True(t, strings.Contains(fmt.Sprintln(folders), filepath.Join(root, folder)),
			"folder %q was not synced: %q", folder, folders)
	}
	if names, _ := journals(filepath.Join(root, journalDir)); len(names) != 0 {
		t.Errorf("%q are left", names)
	}
	write(t, store, "late", "x")
	if names, _ := journals(filepath.Join(root, journalDir)); len(names) != 0 {
		t.Error("a closed store opened a journal")
	}
}

// What is in the journal can be read, and is put in place when that goes: it was paid for.
func TestAnObjectThatCannotGetAFileGetsItLater(t *testing.T) {
	for _, killed := range []bool{false, true} {
		root := t.TempDir()
		store := journaled(t, root)
		require.NoError(t, os.Remove(filepath.Join(root, tmpDir)))
		write(t, store, "k", "x")
		require.Error(t, store.Close(), "it was put in place")
		raw, _, err := blob.Read(t.Context(), store, "k")
		assert.True(t, err == nil && string(raw) == "x", "read %q, %v", raw, err)
		require.NoError(t, os.Mkdir(filepath.Join(root, tmpDir), 0o700))
		left := root
		if killed {
			left = crashed(t, root)
		} else if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		got := reads(t, left)
		assert.True(t, got["k"] == "x", "killed %v: got %q", killed, got)
	}
}

func TestAJournalWhoseFolderWasRemovedIsMadeAgain(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	for i := range 2 {
		write(t, store, fmt.Sprint("a/", i), "x")
		require.NoError(t, os.RemoveAll(filepath.Join(root, journalDir)))
		store.journal.mu.Lock()
		store.journal.retire(store.journal.log)
		store.journal.mu.Unlock()
	}
	assert.NoError(t, store.Close())
}

// Where an object cannot be synced its journal stays.
func TestAJournalStaysUntilItsObjectsAreSynced(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "k", "x")
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	syncFile = func(*os.File) error { return syscall.EIO }
	if err := store.Close(); !fault.Is(err, fault.StoreDown) {
		t.Errorf("close: %v", err)
	}
	syncFile = before
	_, err := os.Stat(store.path("k"))
	assert.Error(t, err, "a file whose sync failed got the object's name")
	left := crashed(t, root)
	if got := reads(t, left); got["k"] != "x" {
		t.Errorf("got %q", got)
	}
}

// reopens has a journal try again at once after a failure.
func reopens(store *Store) {
	store.journal.mu.Lock()
	defer store.journal.mu.Unlock()
	store.journal.failedAt = time.Time{}
}

// A sync that fails is the error of every writer that waited for it, and a later write takes another file.
func TestASyncOfTheJournalThatFailsIsItsWritersError(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	before := syncData
	t.Cleanup(func() { syncData = before })
	for failure, want := range map[error]fault.Code{
		syscall.EIO: fault.StoreDown, syscall.ENOSPC: fault.StoreFull,
	} {
		syncData = func(*os.File) error { return failure }
		_, err := blob.Write(t.Context(), store, "k", []byte("x"), absent)
		assert.True(t, fault.Is(err, want), "%v: got %v", failure, err)
		_, err = store.Stat(t.Context(), "k")
		assert.True(t, fault.Is(err, fault.NotFound), "the object is there: %v", err)
		reopens(store)
	}
	syncData = before
	write(t, store, "k", "x")
	assert.NoError(t, store.Close())
	if got := reads(t, root); got["k"] != "x" {
		t.Errorf("got %q", got)
	}
}

// A full disk: what was acknowledged before is synced in place and its journal goes, which makes room; tries that fail
// leave no file behind, and open one at most once in a while.
func TestAFailedJournalIsSettledAndTriesLeaveNothing(t *testing.T) {
	synctest.Test(t, failedJournalIsSettled)
}

func failedJournalIsSettled(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "a/before", "x")
	before, tries := syncData, 0
	t.Cleanup(func() { syncData = before })
	syncData = func(*os.File) error { tries++; return syscall.ENOSPC }
	for i := range 20 {
		if i == 1 || i == 10 {
			time.Sleep(reopenAfter)
		}
		_, err := blob.Write(t.Context(), store, "a/held", []byte("x"), absent)
		require.True(t, fault.Is(err, fault.StoreFull), "got %v", err)
	}
	assert.Equal(t, 3, tries)
	synctest.Wait()
	if names, err := journals(store.journal.folder); err != nil || len(names) != 0 {
		t.Errorf("%q are left, %v", names, err)
	}
	syncData = before
	time.Sleep(reopenAfter)
	write(t, store, "a/held", "x")
	if got := reads(t, crashed(t, root)); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// A disk that fails: what cannot be settled stays, alone.
func TestTriesLeaveNothingBesideAJournalThatCannotBeSettled(t *testing.T) {
	synctest.Test(t, journalCannotBeSettled)
}

func journalCannotBeSettled(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "a/before", "x")
	before, beforeFile := syncData, syncFile
	restore := func() { syncData, syncFile = before, beforeFile }
	t.Cleanup(restore)
	syncData = func(*os.File) error { return syscall.EIO }
	syncFile = syncData
	for range 5 {
		_, err := blob.Write(t.Context(), store, "a/held", nil, absent)
		require.True(t, fault.Is(err, fault.StoreDown), "got %v", err)
		time.Sleep(reopenAfter)
	}
	synctest.Wait()
	onlyJournal(t, root)
	restore()
	require.NoError(t, store.Close())
	if got := reads(t, root); got["a/before"] != "x" {
		t.Errorf("got %q", got)
	}
}

// The same where no file of records can be opened at all.
func TestAJournalThatCannotBeOpenedIsTriedOnceInAWhile(t *testing.T) {
	synctest.Test(t, journalCannotBeOpened)
}

func journalCannotBeOpened(t *testing.T) {
	store := journaled(t, t.TempDir())
	tries := 0
	watch(t, func(string) error { tries++; return syscall.EIO })
	for range 10 {
		_, err := blob.Write(t.Context(), store, "k", nil, absent)
		require.True(t, fault.Is(err, fault.StoreDown), "got %v", err)
	}
	assert.Equal(t, 1, tries)
}

// inode tells one file from another that took its name.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	found, err := os.Stat(path)
	require.NoError(t, err)
	return found.Sys().(*syscall.Stat_t).Ino
}

// What a start reads may be pages that were never written and are counted as clean.
func TestAStartWritesAnewWhatEqualsItsRecord(t *testing.T) {
	root := t.TempDir()
	write(t, journaled(t, root), "a/k", "x")
	left := crashed(t, root)
	leave(t, left, "a/k", "x")
	kept, err := os.Open(filepath.Join(left, "a/k"))
	require.NoError(t, err)
	defer func() { _ = kept.Close() }()
	before := inode(t, kept.Name())
	if got := reads(t, left); got["a/k"] != "x" {
		t.Errorf("got %q", got)
	}
	assert.True(t, inode(t, kept.Name()) != before, "the file was trusted")
}

// An old object whose journal is gone, deleted and written again: power takes back the deletion only where no sync of
// its folder came before the second was acknowledged.
func TestADeletionIsDurableBeforeItsKeyIsAcknowledgedAgain(t *testing.T) {
	for _, many := range []bool{false, true} {
		root := t.TempDir()
		first := journaled(t, root)
		write(t, first, "a/k", "the refused")
		require.NoError(t, first.Close())
		store := journaled(t, root)
		returns := true // the name, if power goes now
		before := syncFolder
		watch(t, func(folder string) error {
			if _, err := os.Lstat(store.path("a/k")); folder == filepath.Join(root, "a") && err != nil {
				returns = false
			}
			return before(folder)
		})
		require.NoError(t, store.Delete(t.Context(), "a/k"))
		if many {
			forgetMany(t, store)
		}
		write(t, store, "a/k", "the second")
		left := crashed(t, root)
		if returns {
			require.NoError(t, os.WriteFile(filepath.Join(left, "a/k"), []byte("the refused"), 0o600))
		}
		got := reads(t, left)
		assert.True(t, got["a/k"] == "the second", "many %v: got %q", many, got)
	}
}

// forgetMany deletes more than is remembered.
func forgetMany(t *testing.T, store *Store) {
	t.Helper()
	for i := range removedMost {
		require.NoError(t, store.Delete(t.Context(), fmt.Sprint("a/none/", i)))
	}
	if left := len(store.journal.removed); left >= removedMost {
		t.Errorf("%d removals are remembered", left)
	}
}

// No journal would mend what comes back of an object that had a file.
func TestSettlingMakesDeletionsDurable(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	write(t, store, "a/k", "x")
	write(t, store, "b/k", "x")
	_, err := blob.Write(t.Context(), store, "a/k", []byte("other"), blob.Cond{})
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), "a/k"))
	var folders []string
	before := syncFolder
	watch(t, func(folder string) error { folders = append(folders, folder); return before(folder) })
	require.NoError(t, store.Close())
	assert.True(t, slices.Contains(folders, filepath.Join(root, "a")), "only %q were synced", folders)
}

func TestAJournalEndsWhenItIsLong(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	value := strings.Repeat("x", journalObject)
	n := journalBytes/journalObject + 10
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := i; k < n; k += 16 {
				write(t, store, fmt.Sprintf("k/%d/%d", k%8, k), value)
			}
		})
	}
	all.Wait()
	require.NoError(t, store.Close())
	if got := reads(t, root); len(got) != n {
		t.Errorf("%d objects, want %d", len(got), n)
	}
}

// A build that was killed while it wrote: another process reads all that was acknowledged, and one after it as well.
// Promises: 55.
func TestAWriterThatWasKilledLosesNothingItAcknowledged(t *testing.T) {
	if root := os.Getenv("UNWEAVER_TEST_JOURNAL"); root != "" {
		store := journaled(t, root)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for n := 0; ; n++ {
					key := fmt.Sprintf("k/%d/%d", i, n)
					write(t, store, key, strings.Repeat(key, 50))
					fmt.Println("wrote", key)
				}
			})
		}
		all.Wait()
	}
	for _, acknowledged := range []int{1, 40, 400} {
		root := t.TempDir()
		keys := killedAfter(t, root, acknowledged)
		store := journaled(t, root)
		for _, key := range keys {
			raw, _, err := blob.Read(t.Context(), store, key)
			assert.True(t, err == nil && string(raw) == strings.Repeat(key, 50), "%s: %d bytes, %v", key, len(raw), err)
		}
		names, _ := journals(filepath.Join(root, journalDir))
		assert.True(t, len(names) == 0, "%q are left", names)
	}
}

func TestNamesOfJournalsTellTheirOrder(t *testing.T) {
	root := t.TempDir()
	store := journaled(t, root)
	store.journal.opened = 1 << 62 // the clock was set back since
	write(t, store, "k", "x")
	name := filepath.Base(onlyJournal(t, root))
	if !strings.HasPrefix(name, fmt.Sprintf("%020d-", 1<<62+1)) || !strings.Contains(name, hex.EncodeToString(store.journal.log.id[:])) {
		t.Errorf("it is called %s", name)
	}
}

// killedAfter kills a child that writes once it has acknowledged so many objects, and gives all that it acknowledged.
func killedAfter(t *testing.T, root string, acknowledged int) (keys []string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^TestAWriterThatWasKilledLosesNothingItAcknowledged$")
	child.Env = append(os.Environ(), "UNWEAVER_TEST_JOURNAL="+root)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if key, ok := strings.CutPrefix(lines.Text(), "wrote "); ok {
			keys = append(keys, key)
		}
		if len(keys) == acknowledged {
			require.NoError(t, child.Process.Kill())
		}
	}
	if err := child.Wait(); err == nil || len(keys) < acknowledged {
		t.Fatalf("%d were acknowledged, %v", len(keys), err)
	}
	return keys
}

// Ledger entries by 64 callers, with the processor time of each.
func BenchmarkPutSmall(b *testing.B) {
	for name, options := range map[string][]Option{"synced": nil, "journal": {Journal(every)}} {
		b.Run(name, func(b *testing.B) {
			store, err := Open(b.TempDir(), options...)
			require.NoError(b, err)
			var number atomic.Int64
			raw := bytes.Repeat([]byte("x"), 1800)
			cpu := used(b)
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n := number.Add(1)
					key := fmt.Sprintf("loose/%02x/%064d", n%256, n)
					_, err := blob.Write(b.Context(), store, key, raw, absent)
					assert.NoError(b, err)
				}
			})
			assert.NoError(b, store.Close())
			b.ReportMetric(float64(used(b)-cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}

// used is the processor time of this process in nanoseconds.
func used(b *testing.B) int64 {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}
