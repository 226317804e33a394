package dir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// watch replaces the sync of a folder for a test.
func watch(t *testing.T, sync func(folder string) error) {
	before := syncFolder
	t.Cleanup(func() { syncFolder = before })
	syncFolder = sync
}

// Promises: 55.
func TestANameIsDurableInEveryFolderAboveItWhenPutReturns(t *testing.T) {
	root := t.TempDir()
	store := musttest.Get(Open(root))(t)
	var synced []string
	watch(t, func(folder string) error {
		rel, err := filepath.Rel(root, folder)
		synced = append(synced, rel)
		return err
	})
	for _, c := range []struct {
		key  string
		cond blob.Cond
		want []string
	}{
		{"a/b/1", blob.Cond{}, []string{".", "a", "a/b"}}, // new folders are names in those above
		{"a/b/2", blob.Cond{}, []string{"a/b"}},
		{"a/b/3", blob.Cond{Absent: true}, []string{"a/b"}},
		{"a/c/1", blob.Cond{}, []string{"a", "a/c"}},
		{"top", blob.Cond{}, []string{"."}},
	} {
		synced = nil
		musttest.Get(blob.Write(t.Context(), store, c.key, []byte("x"), c.cond))(t)
		assert.True(t, slices.Equal(synced, c.want), "%s: synced %q, want %q", c.key, synced, c.want)
	}
}

func TestASyncThatFailsIsTheWritersError(t *testing.T) {
	store := musttest.Get(Open(t.TempDir()))(t)
	for failure, want := range map[error]fault.Code{
		syscall.EIO: fault.StoreDown, syscall.ENOSPC: fault.StoreFull, syscall.EDQUOT: fault.StoreFull,
	} {
		watch(t, func(string) error { return failure })
		_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{})
		assert.True(t, fault.Is(err, want), "%v: got %v", failure, err)
	}
}

// That an object exists is an answer that a writer may rely on, also where the sync of the one before failed.
// Promises: 55.
func TestAnObjectThatExistsIsDurableBeforeThatIsSaid(t *testing.T) {
	store := musttest.Get(Open(t.TempDir()))(t)
	failure := error(syscall.EIO)
	watch(t, func(string) error { return failure })
	for _, want := range []fault.Code{fault.StoreDown, fault.StoreDown, fault.Precondition} {
		if want == fault.Precondition {
			failure = nil
		}
		musttest.Refuse(blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true}))(t, want)
	}
}

func TestWritersOfOneFolderShareItsSyncs(t *testing.T) {
	var mu sync.Mutex
	syncs := 0
	watch(t, func(string) error {
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		syncs++
		return nil
	})
	var all folders
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { assert.NoError(t, all.joinSync("folder")) })
	}
	wg.Wait()
	assert.True(t, syncs != 0 && syncs <= 20, "100 writers cost %d syncs", syncs)
	assert.Empty(t, all.waiting)
}

// A sync that has begun may have missed what came after: such a writer must wait for the next.
// Promises: 55.
func TestASyncThatHasBegunCoversNobodyElse(t *testing.T) {
	begun, finish := make(chan int, 2), make(chan error)
	number := 0
	watch(t, func(string) error {
		number++
		begun <- number
		return <-finish
	})
	var all folders
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- all.joinSync("folder") }()
	<-begun
	go func() { second <- all.joinSync("folder") }()
	failed := errors.New("the first failed")
	finish <- failed
	assert.ErrorIs(t, <-first, failed, "the first")
	<-begun
	finish <- nil
	assert.NoError(t, <-second, "the second")
}

func TestManyWritersMakeOneTree(t *testing.T) {
	store := musttest.Get(Open(t.TempDir()))(t)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			key := fmt.Sprintf("deep/%d/er/%d", i%4, i)
			assert.NoError(t, musttest.Err(blob.Write(t.Context(), store, key, []byte(key), blob.Cond{Absent: true})))
			blobtest.Holds(t, store, key, key)
		})
	}
	wg.Wait()
}

// The whole content is synced before it has the object's name; one that cannot be synced never gets it.
// Promises: 137.
func TestAnObjectIsSyncedWholeBeforeItHasItsName(t *testing.T) {
	root := t.TempDir()
	store := musttest.Get(Open(root))(t)
	before := syncFile
	t.Cleanup(func() { syncFile = before })
	for _, cond := range []blob.Cond{{}, {Absent: true}} {
		for _, failure := range []error{syscall.EIO, nil} {
			synced := 0
			syncFile = func(file *os.File) error {
				synced++
				info, err := file.Stat()
				assert.True(t, err == nil && info.Size() == 7 && info.Mode().Perm() == durable.PrivateFile, "%v, %v", info, err)
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

func TestNoWayToOpenAnObjectFollowsALink(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(folder, "sub/deep/a.txt"), filepath.Join(outside, "key.txt")} {
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("text"), 0o600)))
	}
	for name, target := range map[string]string{"out": outside, "in": "sub", "sub/deep/b.txt": "a.txt"} {
		require.NoError(t, os.Symlink(target, filepath.Join(folder, name)))
	}
	root := musttest.Get(os.Open(folder))(t)
	defer func() { _ = root.Close() }()
	for key, want := range map[string]error{
		"sub/deep/a.txt": nil, "sub/none.txt": unix.ENOENT, "sub/deep/a.txt/b": unix.ENOTDIR, "out/key.txt": unix.ELOOP,
		"in/deep/a.txt": unix.ELOOP, "sub/deep/b.txt": unix.ELOOP, "../key.txt": unix.EXDEV,
	} {
		descriptor, err := openBeneath(root, key)
		assert.ErrorIs(t, err, want, key)
		if err != nil {
			continue
		}
		file := os.NewFile(uintptr(descriptor), key)
		raw, err := io.ReadAll(file)
		assert.True(t, err == nil && string(raw) == "text", "%s: %q, %v", key, raw, err)
		_ = file.Close()
	}
}
