package localfile

import (
	"context"
	"io/fs"
	"os"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// Get gives the path of the local copy of a content.
func (c *Cache) Get(ctx context.Context, store blob.Store, key, sha string) (string, error) {
	return Open(ctx, c, store, key, sha, func(path string) (string, error) { return path, nil })
}

// WriteTo makes the cache write its downloads to a file that make gives.
func (c *Cache) WriteTo(makeFile func() (*os.File, error)) { c.create = makeFile }

// Remembered returns how many contents the cache keeps anything about in memory.
func (c *Cache) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.busy) + len(c.mapped) + len(c.stale)
}

// AsOwner lets every file belong to a user until the function that it gives is called.
func AsOwner(uid int) (undo func()) {
	before := ownerOf
	ownerOf = func(fs.FileInfo) (int, bool) { return uid, true }
	return func() { ownerOf = before }
}

// ForgetChecked makes this process as new: it has checked no copy.
func ForgetChecked() {
	checked.Lock()
	defer checked.Unlock()
	clear(checked.copies)
}

// Checked returns how many copies this process has checked.
func Checked() int {
	checked.Lock()
	defer checked.Unlock()
	return len(checked.copies)
}
