package dir

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// watch replaces the sync of a folder for a test.
func watch(t *testing.T, sync func(folder string) error) {
	t.Helper()
	before := syncFolder
	t.Cleanup(func() { syncFolder = before })
	syncFolder = sync
}

// Promises: 55.
func TestANameIsDurableInEveryFolderAboveItWhenPutReturns(t *testing.T) {
	root := t.TempDir()
	store, err := Open(root)
	require.NoError(t, err)
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
		_, err := blob.Write(t.Context(), store, c.key, []byte("x"), c.cond)
		require.NoError(t, err)
		assert.True(t, slices.Equal(synced, c.want), "%s: synced %q, want %q", c.key, synced, c.want)
	}
}

func TestASyncThatFailsIsTheWritersError(t *testing.T) {
	store, err := Open(t.TempDir())
	require.NoError(t, err)
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
	store, err := Open(t.TempDir())
	require.NoError(t, err)
	failing := true
	watch(t, func(string) error {
		if failing {
			return syscall.EIO
		}
		return nil
	})
	put := func() error {
		_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true})
		return err
	}
	for range 2 {
		assert.True(t, fault.Is(put(), fault.StoreDown))
	}
	failing = false
	assert.True(t, fault.Is(put(), fault.Precondition))
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
	store, err := Open(t.TempDir())
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			key := fmt.Sprintf("deep/%d/er/%d", i%4, i)
			_, err := blob.Write(t.Context(), store, key, []byte(key), blob.Cond{Absent: true})
			assert.NoError(t, err)
			raw, _, err := blob.Read(t.Context(), store, key)
			assert.True(t, err == nil && string(raw) == key, "%s reads %q, %v", key, raw, err)
		})
	}
	wg.Wait()
}
