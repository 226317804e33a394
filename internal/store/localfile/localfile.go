// Package localfile keeps local copies of segments that must be mapped: named by content, checked on arrival, evicted
// by age of use when the cache is over its size.
package localfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Cache is safe for concurrent use.
type Cache struct {
	dir   string
	limit int64
	mu    sync.Mutex
	busy  map[string]*sync.Mutex
}

// New prepares a cache of at most limit bytes (0 = no limit). Files in use stay readable after eviction, as they are
// mapped.
func New(dir string, limit int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fault.StoreDenied.At("make cache", dir).Because(err)
	}
	return &Cache{dir: dir, limit: limit, busy: map[string]*sync.Mutex{}}, nil
}

func (c *Cache) lock(name string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	mutex := c.busy[name]
	if mutex == nil {
		mutex = new(sync.Mutex)
		c.busy[name] = mutex
	}
	return mutex
}

// Get gives the path of the local copy of an object whose content hashes to sha.
func (c *Cache) Get(ctx context.Context, store blob.Store, key, sha string) (string, error) {
	m := c.lock(sha)
	m.Lock()
	defer m.Unlock()
	path := filepath.Join(c.dir, sha)
	if _, err := os.Stat(path); err == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // the age of use; a failure only evicts earlier
		return path, nil
	}
	body, _, err := store.Get(ctx, key, blob.All)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	file, err := os.CreateTemp(c.dir, ".in-*")
	if err != nil {
		return "", fault.StoreFull.At("write cache", c.dir).Because(err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, hash), body)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", fault.StoreDown.At("download", store.Location(key)).Because(err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sha {
		return "", fault.SegmentDamage.At("download", store.Location(key)).
			Because(fmt.Sprintf("its content hashes to %s", got)).
			Advise("the stored segment is damaged: run unweaver restore, or publish another generation")
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return "", fault.StoreFull.At("write cache", path).Because(err)
	}
	c.evict(sha)
	return path, nil
}

// Drop forgets the copy of a content, so that the next Get brings it again.
func (c *Cache) Drop(sha string) {
	m := c.lock(sha)
	m.Lock()
	defer m.Unlock()
	_ = os.Remove(filepath.Join(c.dir, sha)) // there may be none
}

// Open brings a content and opens it; a copy that turns out damaged is brought once more.
func Open[T any](
	ctx context.Context,
	cache *Cache,
	s blob.Store,
	key, sha string,
	open func(path string) (T, error),
) (T, error) {
	for again := false; ; again = true {
		path, err := cache.Get(ctx, s, key, sha)
		if err != nil {
			var zero T
			return zero, err
		}
		x, err := open(path)
		if again || !fault.Is(err, fault.SegmentDamage) {
			return x, err
		}
		cache.Drop(sha)
	}
}

// evict removes the files used longest ago until the cache fits.
func (c *Cache) evict(keep string) {
	if c.limit <= 0 {
		return
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	type file struct {
		name string
		size int64
		at   time.Time
	}
	var fs []file
	var total int64
	for _, e := range entries {
		if in, err := e.Info(); err == nil && in.Mode().IsRegular() {
			fs = append(fs, file{e.Name(), in.Size(), in.ModTime()})
			total += in.Size()
		}
	}
	sort.Slice(fs, func(i, j int) bool { return fs[i].at.Before(fs[j].at) })
	for _, f := range fs {
		if total <= c.limit {
			return
		}
		if f.name != keep && os.Remove(filepath.Join(c.dir, f.name)) == nil {
			total -= f.size
		}
	}
}
