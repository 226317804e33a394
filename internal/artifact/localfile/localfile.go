// Package localfile keeps local copies of segments that must be mapped: named by content, checked on arrival, evicted
// by age of use when the cache is over its size.
//
// Processes may share a folder. A copy that is in use is locked (flock, shared) by its users, and a download by
// its maker, so that no other takes either away, and what a dead process left is known by its lock being free.
package localfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// incoming begins the names of downloads on their way.
const incoming = ".in-"

// abandoned is the age from which a download that is not locked belongs to no process: between the making of the file
// and its lock lies a moment.
const abandoned = time.Minute

// Cache is safe for concurrent use.
type Cache struct {
	dir    string
	limit  int64
	create func() (*os.File, error) // makes the file of a download

	mu     sync.Mutex
	busy   map[string]*turn     // by content
	mapped map[string][]*shared // by content; see Acquire
	stale  map[string]bool      // contents to remove when no one maps them
}

// turn lets one caller at a time do something with a content.
type turn struct {
	token   chan struct{} // holds one while the turn is free
	waiting int           // those who have it or wait for it
}

// New prepares a cache of at most limit bytes (0 = no limit), and removes the downloads that dead processes left. The
// folder is made as Folder says: it must be this user's alone.
func New(dir string, limit int64) (*Cache, error) {
	dir, err := makePrivate(dir)
	if err != nil {
		return nil, err
	}
	cache := &Cache{
		dir: dir, limit: limit, busy: map[string]*turn{}, mapped: map[string][]*shared{}, stale: map[string]bool{},
	}
	cache.create = func() (*os.File, error) { return os.CreateTemp(dir, incoming+"*") }
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, localFault("read cache", dir, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && isOutdated(info) {
			cache.removeUnused(entry.Name())
		}
	}
	return cache, nil
}

// isOutdated reports whether a download, or a part of one, belongs to no process any more.
func isOutdated(info fs.FileInfo) bool {
	age := time.Since(info.ModTime())
	return isIncoming(info) && age > abandoned || isPartial(info) && age > partialKept
}

func isIncoming(info fs.FileInfo) bool { return strings.HasPrefix(info.Name(), incoming) }

// localFault returns the fault of a failure of the local disk.
func localFault(op, object string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.StoreFull.At(op, object).
			Because(err).
			Advise("free disk space there, or move the cache: set UNWEAVER_CACHE_DIR")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.StoreDenied.At(op, object).Because(err).Advise("check the owner and mode of the folder")
	}
	return fault.StoreDown.At(op, object).Because(err)
}

// takeTurn waits for the turn at a content; done gives it on. No caller waits for another content, and what has no
// waiter is not remembered.
func (c *Cache) takeTurn(ctx context.Context, sha string) (done func(), err error) {
	c.mu.Lock()
	mine := c.busy[sha]
	if mine == nil {
		mine = &turn{token: make(chan struct{}, 1)}
		mine.token <- struct{}{}
		c.busy[sha] = mine
	}
	mine.waiting++
	c.mu.Unlock()
	leave := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if mine.waiting--; mine.waiting == 0 {
			delete(c.busy, sha)
		}
	}
	select {
	case <-mine.token:
		return func() { mine.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (c *Cache) pathOf(sha string) string { return filepath.Join(c.dir, sha) }

// pinContent brings a content where it is not here, and locks the copy against eviction until the file is closed. The
// caller has the turn.
func (c *Cache) pinContent(ctx context.Context, store blob.Store, key, sha string) (*os.File, error) {
	for brought := false; ; brought = true {
		pin, err := c.pinCopy(sha)
		if err == nil && pin != nil {
			pin, err = c.verifyPin(ctx, pin, sha)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, localFault("open cache", c.pathOf(sha), err)
		}
		if pin != nil {
			markUsed(pin)
			if brought {
				c.evictCopies()
			}
			return pin, nil
		}
		if err := c.downloadContent(ctx, store, key, sha); err != nil {
			return nil, err
		}
	}
}

// verifyPin gives a locked copy back that holds what its name says; another is removed, and nil.
func (c *Cache) verifyPin(ctx context.Context, pin *os.File, sha string) (*os.File, error) {
	whole, err := hasContent(ctx, pin, sha)
	if err == nil && whole {
		return pin, nil
	}
	if err = errors.Join(err, pin.Close()); err == nil {
		c.Drop(sha)
	}
	return nil, err
}

// pinCopy locks a copy that is here; nil when there is none.
func (c *Cache) pinCopy(sha string) (*os.File, error) {
	for {
		file, err := os.Open(c.pathOf(sha))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // there is none, and that is no error
		}
		if err != nil {
			return nil, err
		}
		if err := lockFile(file, unix.LOCK_SH); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		same, err := isAt(file, c.pathOf(sha))
		if err == nil && same {
			return file, nil
		}
		if err = errors.Join(err, file.Close()); err != nil { // else it was removed before it was locked
			return nil, err
		}
	}
}

// lockFile repeats what a signal interrupted. A file system without locks has none to wait for.
func lockFile(file *os.File, how int) error {
	for {
		switch err := unix.Flock(int(file.Fd()), how); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK):
			return nil
		default:
			return err
		}
	}
}

// isAt reports whether an open file is still the one at path.
func isAt(file *os.File, path string) (bool, error) {
	open, err := file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, there), err
}

// downloadContent brings a content, checks it, and gives it its name. A large one comes in ranges, side by side, and
// what came of it before something broke off is not asked for again (ranges.go).
func (c *Cache) downloadContent(ctx context.Context, store blob.Store, key, sha string) error {
	if begun := c.findDownload(sha); begun != nil {
		if err := c.inRanges(ctx, store, key, begun); !errors.Is(err, errStale) {
			return err
		}
	}
	body, info, err := store.Get(ctx, key, blob.All)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if info.Size >= rangedFrom {
		if begun := c.beginDownload(sha, info.Size); begun != nil {
			_ = body.Close()
			return c.inRanges(ctx, store, key, begun)
		}
	}
	return c.atOnce(ctx, store, key, sha, body)
}

// atOnce brings a content by one request.
func (c *Cache) atOnce(ctx context.Context, store blob.Store, key, sha string, body io.Reader) error {
	file, err := c.create()
	if err != nil {
		return localFault("write cache", c.dir, err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // it is gone already where it was renamed
	defer func() { _ = file.Close() }()
	if err := lockFile(file, unix.LOCK_EX); err != nil {
		return localFault("lock cache", file.Name(), err)
	}
	hash := sha256.New()
	source := &remote{reader: body}
	if _, err = io.Copy(io.MultiWriter(file, hash), source); err != nil {
		if source.err == nil {
			return localFault("write cache", c.dir, err)
		}
		return downloadFault(ctx, store, key, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sha {
		return damageFault(store, key, got)
	}
	return c.keepDownload(file, sha)
}

// downloadFault returns the fault of an answer that broke off.
func downloadFault(ctx context.Context, store blob.Store, key string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fault.As(err) != nil {
		return err
	}
	return fault.StoreDown.At("download", store.Location(key)).Because(err)
}

func damageFault(store blob.Store, key, got string) error {
	return fault.SegmentDamage.At("download", store.Location(key)).
		Because(fmt.Sprintf("its content hashes to %s", got)).
		Advise("the stored segment is damaged: run: unweaver restore --all")
}

// keepDownload gives a whole download the name of its content.
func (c *Cache) keepDownload(file *os.File, sha string) error {
	if err := file.Sync(); err != nil { // a name stands for its content, also after a loss of power
		return localFault("write cache", file.Name(), err)
	}
	if err := os.Rename(file.Name(), c.pathOf(sha)); err != nil {
		return localFault("write cache", c.pathOf(sha), err)
	}
	if id, err := idOf(file, sha); err == nil {
		rememberCopy(id) // it was hashed on its way
	}
	return nil
}

// remote remembers a failure of what is read, to tell it from one of what is written.
type remote struct {
	reader io.Reader
	err    error
}

func (r *remote) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// removeUnused removes a file that is not locked; it reports whether it is gone.
func (c *Cache) removeUnused(name string) bool {
	path := filepath.Join(c.dir, name)
	file, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = file.Close() }()
	if lockFile(file, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	if same, err := isAt(file, path); err != nil || !same {
		return false // another copy took its place
	}
	return os.Remove(path) == nil
}

// Drop removes the copy of a content, used or not, so that it is brought again: for one that is damaged.
func (c *Cache) Drop(sha string) {
	_ = os.Remove(c.pathOf(sha)) // there may be none
}

// Forget says that a content will not be asked for again: its copy goes now, or when the last who maps it releases it.
func (c *Cache) Forget(sha string) {
	if c.removeUnused(sha) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mapped[sha]) > 0 {
		c.stale[sha] = true
	}
}

// evictCopies removes the copies used longest ago, but none in use, until the cache fits.
func (c *Cache) evictCopies() {
	if c.limit <= 0 {
		return
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	var total int64
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
			files = append(files, info)
		}
	}
	sort.Slice(files, func(i, j int) bool { return lastUse(files[i]).Before(lastUse(files[j])) })
	for _, file := range files {
		if total <= c.limit {
			return
		}
		if (isIncoming(file) || isPartial(file)) && time.Since(file.ModTime()) <= abandoned {
			continue
		}
		if c.removeUnused(file.Name()) {
			total -= file.Size()
		}
	}
}
