package localfile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

const aRange = 8 << 20

// ranged is a store with one large object, whose readings it remembers and can let break off.
type ranged struct {
	blob.Store
	mu     sync.Mutex
	asked  []blob.Range
	breaks map[int64]bool // offsets whose answers break off
	gather int            // answers wait until so many are asked for
	full   chan struct{}
}

func (s *ranged) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := s.Store.Get(ctx, key, part)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, part)
	if part.Length < 0 {
		return body, info, err
	}
	if s.gather--; s.gather == 0 {
		close(s.full)
	}
	if s.full != nil {
		s.mu.Unlock()
		<-s.full
		s.mu.Lock()
	}
	if s.breaks[part.Offset] {
		return io.NopCloser(io.LimitReader(body, 1000)), info, err
	}
	return body, info, err
}

// ranges returns the ranges that were asked for since the last call, without requests for the whole file.
func (s *ranged) ranges() (out []blob.Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range s.asked {
		if part.Length >= 0 {
			out = append(out, part)
		}
	}
	s.asked = nil
	return out
}

// large makes a store with an object of so many bytes.
func large(t *testing.T, size int) (store *ranged, content []byte, sha string) {
	content = make([]byte, size)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(content)
	store = &ranged{Store: blobmemory.New(), breaks: map[int64]bool{}}
	musttest.Get(blob.Write(t.Context(), store.Store, "k", content, blob.Cond{}))(t)
	sum := sha256.Sum256(content)
	return store, content, hex.EncodeToString(sum[:])
}

// holdsAlone reports whether a folder holds a content and nothing else.
func holdsAlone(t *testing.T, folder, sha string, content []byte) {
	raw, err := os.ReadFile(filepath.Join(folder, sha))
	assert.True(t, err == nil && bytes.Equal(raw, content), "%d bytes, want %d: %v", len(raw), len(content), err)
	entries, err := os.ReadDir(folder)
	assert.True(t, err == nil && len(entries) == 1, "the folder holds %v: %v", entries, err)
}

// Promises: 115.
func TestOfALargeFileSevenOfWhoseEightRangesAreThereOneIsAskedFor(t *testing.T) {
	store, content, sha := large(t, 8*aRange-1000)
	folder := t.TempDir()
	store.breaks[7*aRange] = true
	musttest.Refuse(newCache(t, folder, 0).Get(t.Context(), store, "k", sha))(t, fault.StoreDown)
	first := store.ranges()
	require.Len(t, first, 8, "asked for %v", first)
	store.breaks = nil
	path, err := newCache(t, folder, 0).Get(t.Context(), store, "k", sha) // another process
	require.True(t, err == nil && path != "", "%v", err)
	again := store.ranges()
	assert.True(t, len(again) == 1 && again[0].Offset == 7*aRange && again[0].Length == aRange-1000,
		"asked again for %v", again)
	holdsAlone(t, folder, sha, content)
}

func TestRangesComeSideBySide(t *testing.T) {
	store, content, sha := large(t, 4*aRange)
	store.gather, store.full = 4, make(chan struct{})
	folder := t.TempDir()
	musttest.Get(newCache(t, folder, 0).Get(t.Context(), store, "k", sha))(t)
	holdsAlone(t, folder, sha, content)
}

func TestASmallFileComesAtOnce(t *testing.T) {
	store, content, sha := large(t, 2*aRange-1)
	folder := t.TempDir()
	musttest.Get(newCache(t, folder, 0).Get(t.Context(), store, "k", sha))(t)
	asked := store.ranges()
	assert.True(t, len(asked) == 0, "asked for %v", asked)
	holdsAlone(t, folder, sha, content)
}

// A part that was damaged since, by a loss of power or another program, is found out by the content's hash.
// Promises: 115.
func TestAPartialFileThatIsDamagedIsBroughtAnew(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, part, notes string){
		"a bit": func(t *testing.T, part, _ string) {
			raw := musttest.Get(os.ReadFile(part))(t)
			raw[5] ^= 1
			require.NoError(t, os.WriteFile(part, raw, 0o600))
		},
		"notes that say too much": func(t *testing.T, _, notes string) {
			require.NoError(t, os.WriteFile(notes, bytes.Repeat([]byte{1}, 9), 0o600))
		},
		"no notes":             func(t *testing.T, _, notes string) { require.NoError(t, os.Remove(notes)) },
		"a file that was cut":  func(t *testing.T, part, _ string) { require.NoError(t, os.Truncate(part, aRange)) },
		"a file without bytes": func(t *testing.T, part, _ string) { require.NoError(t, os.Truncate(part, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			store, content, sha := large(t, 3*aRange)
			folder := t.TempDir()
			store.breaks[2*aRange] = true
			_, err := newCache(t, folder, 0).Get(t.Context(), store, "k", sha)
			require.Error(t, err, "an answer that broke off")
			damage(t, filepath.Join(folder, ".part-"+sha), filepath.Join(folder, ".have-"+sha))
			store.breaks = nil
			musttest.Get(newCache(t, folder, 0).Get(t.Context(), store, "k", sha))(t)
			holdsAlone(t, folder, sha, content)
		})
	}
}

func TestALargeObjectThatIsNotItsContentLeavesNothing(t *testing.T) {
	store, content, sha := large(t, 2*aRange)
	content[len(content)/2] ^= 1
	musttest.Get(blob.Write(t.Context(), store.Store, "k", content, blob.Cond{}))(t)
	folder := t.TempDir()
	musttest.Refuse(newCache(t, folder, 0).Get(t.Context(), store, "k", sha))(t, fault.SegmentDamage)
	entries, err := os.ReadDir(folder)
	assert.True(t, err == nil && len(entries) == 0, "the folder holds %v: %v", entries, err)
}

// Who can put a file into the cache must not decide what is served: a copy is not believed by its name.
func TestACopyThatAnotherPutThereIsBroughtAgain(t *testing.T) {
	dir := t.TempDir()
	store := newSource()
	sha := store.put(t, "content")
	require.NoError(t, os.WriteFile(filepath.Join(dir, sha), []byte("EVIL!!!"), 0o600))
	path := musttest.Get(newCache(t, dir, 0).Get(t.Context(), store, sha, sha))(t)
	raw, err := os.ReadFile(path)
	assert.True(t, err == nil && string(raw) == "content", "%q, %v", raw, err)
	hasMode(t, path, 0o600)
}

func TestACopyIsReadThroughOnceInAProcessAndAgainWhenItChanged(t *testing.T) {
	localfile.ForgetChecked()
	dir := t.TempDir()
	store := newSource()
	sha := store.put(t, "content")
	get := func() {
		musttest.Get(newCache(t, dir, 0).Get(t.Context(), store, sha, sha))(t)
	}
	get()
	assert.Equal(t, 1, localfile.Checked())
	for range 3 {
		get() // nor does the age of use make it another file
	}
	assert.Equal(t, 1, localfile.Checked(), "it was read")
	localfile.ForgetChecked()
	get()
	got, brought := localfile.Checked(), store.reads.Load()
	assert.True(t, got == 1 && brought == 1, "another process: %d checked, %d downloads", got, brought)
	file := musttest.Get(os.OpenFile(filepath.Join(dir, sha), os.O_WRONLY, 0))(t)
	musttest.Get(file.WriteString("CONTENT"))(t) // in place, as long as before
	require.NoError(t, file.Close())
	get()
	raw, err := os.ReadFile(filepath.Join(dir, sha))
	assert.True(t, err == nil && string(raw) == "content", "%q, %v", raw, err)
}

func TestCheckingACopyEndsWithItsCaller(t *testing.T) {
	localfile.ForgetChecked()
	dir := t.TempDir()
	store := newSource()
	sha := store.put(t, "content")
	cache := newCache(t, dir, 0)
	musttest.Get(cache.Get(t.Context(), store, sha, sha))(t)
	localfile.ForgetChecked()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := cache.Get(ctx, store, sha, sha)
	assert.ErrorIs(t, err, context.Canceled)
	assert.FileExists(t, filepath.Join(dir, sha), "a copy that was not looked at is gone")
}

func TestTheFolderOfAnotherUserIsRefusedWithTheWayOut(t *testing.T) {
	defer localfile.AsOwner(os.Geteuid() + 1)()
	dir := t.TempDir()
	_, err := localfile.New(dir, 0)
	assert.True(t, fault.Is(err, fault.StoreDenied), "%v", err)
	assert.ErrorContains(t, err, dir)
	assert.ErrorContains(t, err, "UNWEAVER_CACHE_DIR")
}

func TestAFolderThatOthersMayWriteToIsTightened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777))
	folder, err := localfile.MakeFolder(dir, "worker")
	require.True(t, err == nil && folder == dir, "%s, %v", folder, err)
	hasMode(t, dir, 0o700)
}

// The tmpfs of a container is for all users, though it has one: it must work as it is.
func TestInAFolderForAllUsersTheCacheHasItsOwn(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(shared, 0o700))
	require.NoError(t, os.Chmod(shared, 0o777|fs.ModeSticky))
	folder := musttest.Get(localfile.MakeFolder(shared, "worker"))(t)
	require.True(t, folder == filepath.Join(shared, fmt.Sprintf("unweaver-%d", os.Geteuid())), "%s", folder)
	hasMode(t, folder, 0o700)
	hasMode(t, shared, 0o777)
}

func TestWithoutConfigurationACacheIsTheUsersOwn(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	folder, err := localfile.MakeFolder("", "worker")
	assert.True(t, err == nil && folder == filepath.Join(base, "unweaver", "worker"), "%s, %v", folder, err)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	musttest.Refuse(localfile.MakeFolder("", "worker"))(t, fault.BadConfig, "UNWEAVER_CACHE_DIR")
}

func hasMode(t *testing.T, path string, mode fs.FileMode) {
	info := musttest.Get(os.Stat(path))(t)
	assert.Equal(t, mode, info.Mode().Perm(), path)
}
