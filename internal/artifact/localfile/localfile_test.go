package localfile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// source is a store that counts reads, and may hold them up.
type source struct {
	*blobmemory.Store
	reads atomic.Int64
	wait  func(key string)
	body  func(io.ReadCloser) io.ReadCloser
}

func newSource() *source { return &source{Store: blobmemory.New()} }

func (s *source) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	s.reads.Add(1)
	if s.wait != nil {
		s.wait(key)
	}
	body, info, err := s.Store.Get(ctx, key, part)
	if s.body != nil && err == nil {
		body = s.body(body)
	}
	return body, info, err
}

func (s *source) put(t testing.TB, content string) (sha string) {
	sum := sha256.Sum256([]byte(content))
	sha = hex.EncodeToString(sum[:])
	musttest.Get(blob.Write(t.Context(), s.Store, sha, []byte(content), blob.Cond{}))(t)
	return sha
}

func newCache(t *testing.T, dir string, limit int64) *localfile.Cache {
	return musttest.Get(localfile.New(dir, limit))(t)
}

type file struct {
	content string
	closed  atomic.Int64
}

func (f *file) Close() { f.closed.Add(1) }

func read(path string) (*file, error) {
	raw, err := os.ReadFile(path)
	return &file{content: string(raw)}, err
}

func cached(t *testing.T) (dir string, store *source, cache *localfile.Cache, sha string) {
	dir, store = t.TempDir(), newSource()
	return dir, store, newCache(t, dir, 0), store.put(t, "content")
}

func acquire(t *testing.T, cache *localfile.Cache, store *source, sha string) (*file, func()) {
	handle, release := musttest.Get2(localfile.Acquire(t.Context(), cache, store, sha, sha, read))(t)
	return handle, release
}

func names(t *testing.T, dir string) []string {
	var out []string
	for _, entry := range musttest.Get(os.ReadDir(dir))(t) {
		out = append(out, entry.Name())
	}
	return out
}

func here(dir, sha string) bool {
	_, err := os.Stat(filepath.Join(dir, sha))
	return err == nil
}

func TestManyWhoAskForOneContentBringItOnce(t *testing.T) {
	store, cache := newSource(), newCache(t, t.TempDir(), 0)
	store.wait = func(string) { time.Sleep(20 * time.Millisecond) }
	sha := store.put(t, "content")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			path, err := cache.Get(t.Context(), store, sha, sha)
			raw, rerr := os.ReadFile(path)
			assert.True(t, err == nil && rerr == nil && string(raw) == "content", "got %q, %v, %v", raw, err, rerr)
		})
	}
	wg.Wait()
	assert.Equal(t, int64(1), store.reads.Load(), "it was brought")
	assert.Zero(t, cache.Remembered())
}

func TestADownloadHoldsUpNobodyButThoseWhoWantIt(t *testing.T) {
	store, cache := newSource(), newCache(t, t.TempDir(), 0)
	slow, fast := store.put(t, "slow"), store.put(t, "fast")
	begun, finish := make(chan struct{}), make(chan struct{})
	store.wait = func(key string) {
		if key == slow {
			close(begun)
			<-finish
		}
	}
	got := make(chan error, 1)
	go func() { _, err := cache.Get(t.Context(), store, slow, slow); got <- err }()
	<-begun
	handle, release := acquire(t, cache, store, fast)
	release()
	assert.Equal(t, "fast", handle.content)
	// One who asks for the same waits, but not beyond its own end.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := cache.Get(ctx, store, slow, slow)
	assert.True(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	close(finish)
	assert.NoError(t, <-got)
	assert.Zero(t, cache.Remembered())
}

func TestOneMappingIsSharedAndClosedByItsLastUser(t *testing.T) {
	_, store, cache, sha := cached(t)
	var opened atomic.Int64
	open := func(path string) (*file, error) { opened.Add(1); return read(path) }
	handles, releases := make([]*file, 16), make([]func(), 16)
	var wg sync.WaitGroup
	for i := range handles {
		wg.Go(func() {
			var err error
			handles[i], releases[i], err = localfile.Acquire(t.Context(), cache, store, sha, sha, open)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	require.True(t, opened.Load() == 1 && store.reads.Load() == 1,
		"brought %d times and opened %d times", store.reads.Load(), opened.Load())
	for i, release := range releases {
		require.True(t, handles[i] == handles[0], "two mappings of one content")
		require.True(t, handles[0].closed.Load() == 0, "closed while %d use it", len(releases)-i)
		release()
		release() // once more does nothing
	}
	assert.Equal(t, int64(1), handles[0].closed.Load(), "closed")
	assert.Zero(t, cache.Remembered())
	again, release := musttest.Get2(localfile.Acquire(t.Context(), cache, store, sha, sha, open))(t)
	defer release()
	assert.True(t, again != handles[0] && store.reads.Load() == 1,
		"a closed mapping was given, or the copy was brought %d times", store.reads.Load())
}

type other struct{ file }

func TestAContentMayBeMappedAsTwoKinds(t *testing.T) {
	dir, store, cache, sha := cached(t)
	_, releaseFirst := acquire(t, cache, store, sha)
	_, releaseSecond := musttest.Get2(localfile.Acquire(t.Context(), cache, store, sha, sha,
		func(string) (*other, error) { return &other{}, nil }))(t)
	cache.Forget(sha)
	releaseFirst()
	assert.True(t, here(dir, sha), "the copy is gone while the second kind maps it")
	releaseSecond()
	assert.True(t, !here(dir, sha) && cache.Remembered() == 0, "the copy is still here, or remembered")
}

// A file that is cut within its last page reads as zeros there, without an error.
func TestAMappedCopyThatAnotherWroteToIsNotShared(t *testing.T) {
	dir, store, cache, sha := cached(t)
	_, release := acquire(t, cache, store, sha)
	assert.False(t, cache.HasChanged(sha) || cache.HasChanged("another"))
	require.NoError(t, os.Truncate(filepath.Join(dir, sha), 3))
	assert.True(t, cache.HasChanged(sha))
	again, releaseAgain := acquire(t, cache, store, sha)
	assert.Equal(t, "content", again.content)
	release()
	assert.False(t, cache.HasChanged(sha))
	releaseAgain()
	assert.Zero(t, cache.Remembered())
}

func TestEvictionTakesTheOldestAndNothingThatIsUsed(t *testing.T) {
	dir := t.TempDir()
	store, cache := newSource(), newCache(t, dir, 1000)
	// Another process, or another cache of this one, has a copy mapped: its files are not to be taken either.
	neighbour, contents := newCache(t, dir, 1000), make([]string, 6)
	for i := range contents {
		contents[i] = store.put(t, strings.Repeat(fmt.Sprint(i), 300))
	}
	used, release := acquire(t, cache, store, contents[0])
	_, releaseNeighbour := acquire(t, neighbour, store, contents[1])
	for i, sha := range contents[2:] {
		musttest.Get(cache.Get(t.Context(), store, sha, sha))(t)
		long := time.Now().Add(time.Duration(i-10) * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, sha), long, long))
	}
	for i, want := range []bool{true, true, false, false, false, true} {
		assert.Equal(t, want, here(dir, contents[i]), "copy %d is here", i)
	}
	release()
	releaseNeighbour()
	assert.Equal(t, int64(1), used.closed.Load(), "it was not closed")
	old := time.Now().Add(-100 * time.Hour)
	for _, sha := range contents[:2] {
		require.NoError(t, os.Chtimes(filepath.Join(dir, sha), old, old))
	}
	for _, sha := range contents[2:4] {
		musttest.Get(cache.Get(t.Context(), store, sha, sha))(t)
	}
	assert.True(t, !here(dir, contents[0]) && !here(dir, contents[1]), "what is not in use any more was kept")
}

func TestWhatIsForgottenLeavesTheDiskWhenNobodyUsesIt(t *testing.T) {
	dir := t.TempDir()
	store, cache := newSource(), newCache(t, dir, 0)
	used, idle := store.put(t, "used"), store.put(t, "idle")
	_, release := acquire(t, cache, store, used)
	musttest.Get(cache.Get(t.Context(), store, idle, idle))(t)
	for _, sha := range []string{used, idle, "never here"} {
		cache.Forget(sha)
	}
	assert.True(t, !here(dir, idle) && here(dir, used),
		"idle is here: %v, used is here: %v", here(dir, idle), here(dir, used))
	// Asked for again, it is not to go.
	_, releaseAgain := acquire(t, cache, store, used)
	release()
	releaseAgain()
	assert.True(t, here(dir, used), "it was asked for again, and went")
	cache.Forget(used)
	assert.True(t, !here(dir, used) && cache.Remembered() == 0, "it is still here, or remembered")
}

func TestADamagedCopyIsBroughtOnceMore(t *testing.T) {
	damaged := func(path string) (*file, error) {
		got, err := read(path)
		if err == nil && got.content != "content" {
			err = fault.SegmentDamage.At("open", path).Because("its checksum differs")
		}
		return got, err
	}
	dir, store, cache, sha := cached(t)
	for _, acquire := range []func() (*file, error){
		func() (*file, error) { return localfile.Open(t.Context(), cache, store, sha, sha, damaged) },
		func() (*file, error) {
			handle, release, err := localfile.Acquire(t.Context(), cache, store, sha, sha, damaged)
			if err == nil {
				release()
			}
			return handle, err
		},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, sha), []byte("rotten"), 0o600))
		before := store.reads.Load()
		if got, err := acquire(); err != nil || got.content != "content" || store.reads.Load() != before+1 {
			t.Errorf("got %+v after %d downloads, %v", got, store.reads.Load()-before, err)
		}
	}
	// What is damaged for good is not brought for ever, and another failure not once more.
	for code, want := range map[fault.Code]int64{fault.SegmentDamage: 1, fault.StoreDenied: 0} {
		before := store.reads.Load()
		_, release, err := localfile.Acquire(t.Context(), cache, store, sha, sha, func(path string) (*file, error) {
			return nil, code.At("open", path)
		})
		assert.True(t, fault.Is(err, code) && release == nil && store.reads.Load()-before == want,
			"%s: %d downloads, %v", code, store.reads.Load()-before, err)
	}
	assert.Zero(t, cache.Remembered(), "a failure is remembered")
}

func TestADownloadThatFailsLeavesNothingAndSaysWhy(t *testing.T) {
	broken := errors.New("the line broke")
	for name, c := range map[string]struct {
		prepare func(store *source)
		want    fault.Code
		says    string
	}{
		"absent": {func(s *source) { s.Store = blobmemory.New() }, fault.NotFound, "does not exist"},
		"another content": {func(s *source) {
			_, _ = blob.Write(context.Background(), s.Store, "k", []byte("x"), blob.Cond{})
		}, fault.SegmentDamage, "hashes to"},
		"breaks": {func(s *source) {
			s.body = func(io.ReadCloser) io.ReadCloser { return io.NopCloser(&failing{broken}) }
		}, fault.StoreDown, "the line broke"},
		"is denied midway": {func(s *source) {
			s.body = func(io.ReadCloser) io.ReadCloser {
				return io.NopCloser(&failing{fault.StoreDenied.At("read", "k").Because("the token ended")})
			}
		}, fault.StoreDenied, "token"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, store, cache, sha := cached(t)
			musttest.Get(blob.Write(t.Context(), store.Store, "k", []byte("content"), blob.Cond{}))(t)
			c.prepare(store)
			musttest.Refuse(cache.Get(t.Context(), store, "k", sha))(t, c.want, c.says)
			assert.Empty(t, names(t, dir))
		})
	}
}

// failing is a body that gives some bytes and then an error.
type failing struct{ err error }

func (f *failing) Read(p []byte) (int, error) { return min(3, len(p)), f.err }

func TestAFullDiskSaysSo(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	dir, store, cache, sha := cached(t)
	full := filepath.Join(dir, ".in-full")
	cache.WriteTo(func() (*os.File, error) {
		if err := os.Symlink("/dev/full", full); err != nil {
			return nil, err
		}
		return os.OpenFile(full, os.O_WRONLY, 0)
	})
	_, err := cache.Get(t.Context(), store, sha, sha)
	assert.True(t, fault.Is(err, fault.StoreFull) && fault.As(err).Object == dir, "got %v", err)
	assert.Empty(t, names(t, dir))
}

func TestAFolderThatCannotBeMadeIsNamed(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
	_, err := localfile.New(inTheWay, 0)
	assert.True(t, fault.As(err) != nil && fault.As(err).Object == inTheWay, "got %v", err)
}

// downloader names the folder into which the test's own program downloads until it is killed.
const downloader = "UNWEAVER_TEST_CACHE"

func TestDownloadsOfDeadProcessesAreRemovedAndThoseOfOthersKept(t *testing.T) {
	if dir := os.Getenv(downloader); dir != "" {
		store, cache := newSource(), newCache(t, dir, 0)
		sha := store.put(t, "content")
		store.body = func(io.ReadCloser) io.ReadCloser {
			fmt.Println("begun") // the file is made and locked before the first byte is asked for
			return io.NopCloser(never{})
		}
		_, _ = cache.Get(t.Context(), store, sha, sha)
		return
	}
	dir, child := t.TempDir(), exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), downloader+"="+dir)
	out := musttest.Get(child.StdoutPipe())(t)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	musttest.Get(io.ReadFull(out, make([]byte, len("begun"))))(t)
	var left []string
	for begin := time.Now(); len(left) == 0; left = names(t, dir) {
		require.True(t, time.Since(begin) <= time.Minute, "the child made no file")
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // from the file to its lock
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, left[0]), old, old))
	newCache(t, dir, 0)
	assert.Len(t, names(t, dir), 1)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	newCache(t, dir, 0)
	assert.Empty(t, names(t, dir))
}

type never struct{}

func (never) Read([]byte) (int, error) {
	time.Sleep(time.Minute)
	return 0, io.ErrUnexpectedEOF
}

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
	assert.Len(t, musttest.Get(os.ReadDir(folder))(t), 1)
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
	assert.True(t, len(again) == 1 && again[0].Offset == 7*aRange && again[0].Length == aRange-1000, "%v", again)
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
	assert.Empty(t, store.ranges())
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
			require.Error(t, musttest.Err(newCache(t, folder, 0).Get(t.Context(), store, "k", sha)), "an answer that broke off")
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
	assert.Empty(t, musttest.Get(os.ReadDir(folder))(t))
}

// Who can put a file into the cache must not decide what is served: a copy is not believed by its name.
func TestACopyThatAnotherPutThereIsBroughtAgain(t *testing.T) {
	dir, store := t.TempDir(), newSource()
	sha := store.put(t, "content")
	require.NoError(t, os.WriteFile(filepath.Join(dir, sha), []byte("EVIL!!!"), 0o600))
	path := musttest.Get(newCache(t, dir, 0).Get(t.Context(), store, sha, sha))(t)
	assert.Equal(t, "content", string(musttest.Get(os.ReadFile(path))(t)))
	hasMode(t, path, 0o600)
}

func TestACopyIsReadThroughOnceInAProcessAndAgainWhenItChanged(t *testing.T) {
	localfile.ForgetChecked()
	dir, store := t.TempDir(), newSource()
	sha := store.put(t, "content")
	get := func() { musttest.Get(newCache(t, dir, 0).Get(t.Context(), store, sha, sha))(t) }
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
	assert.Equal(t, "content", string(musttest.Get(os.ReadFile(filepath.Join(dir, sha)))(t)))
}

func TestCheckingACopyEndsWithItsCaller(t *testing.T) {
	localfile.ForgetChecked()
	dir, store := t.TempDir(), newSource()
	sha, cache := store.put(t, "content"), newCache(t, dir, 0)
	musttest.Get(cache.Get(t.Context(), store, sha, sha))(t)
	localfile.ForgetChecked()
	assert.ErrorIs(t, musttest.Err(cache.Get(musttest.EndedContext(t), store, sha, sha)), context.Canceled)
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
	require.Equal(t, dir, musttest.Get(localfile.MakeFolder(dir, "worker"))(t))
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
	assert.Equal(t, filepath.Join(base, "unweaver", "worker"), musttest.Get(localfile.MakeFolder("", "worker"))(t))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	musttest.Refuse(localfile.MakeFolder("", "worker"))(t, fault.BadConfig, "UNWEAVER_CACHE_DIR")
}

func hasMode(t *testing.T, path string, mode fs.FileMode) {
	assert.Equal(t, mode, musttest.Get(os.Stat(path))(t).Mode().Perm(), path)
}
