package localfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// copyID identifies one file with one content: written to, it has another time.
type copyID struct {
	device, inode uint64
	size          int64
	modified      time.Time
	sha           string
}

// checked holds the copies that this process has read and found to be what their names say, also for several caches
// over one folder.
var checked = struct {
	sync.Mutex
	copies map[copyID]bool
}{copies: map[copyID]bool{}}

// maxChecked bounds the memory of a process that lives for years; what is forgotten is read once more.
const maxChecked = 100_000

func idOf(file *os.File, sha string) (copyID, error) {
	info, err := file.Stat()
	if err != nil {
		return copyID{}, err
	}
	if !info.Mode().IsRegular() {
		return copyID{}, &fs.PathError{Op: "read", Path: file.Name(), Err: errors.New("it is no file")}
	}
	id := copyID{size: info.Size(), modified: info.ModTime(), sha: sha}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		id.device, id.inode = uint64(sys.Dev), sys.Ino
	}
	return id, nil
}

func rememberCopy(id copyID) {
	checked.Lock()
	defer checked.Unlock()
	if len(checked.copies) >= maxChecked {
		clear(checked.copies)
	}
	checked.copies[id] = true
}

// hasContent reports whether an open copy is the content that its name says. It reads it once in this process: another
// program, or a disk, may have changed it since it was brought.
func hasContent(ctx context.Context, file *os.File, sha string) (bool, error) {
	id, err := idOf(file, sha)
	if err != nil {
		return false, err
	}
	checked.Lock()
	known := checked.copies[id]
	checked.Unlock()
	if known {
		return true, nil
	}
	hash := sha256.New()
	if _, err := io.CopyBuffer(hash, untilDone{ctx, file}, make([]byte, 1<<20)); err != nil {
		return false, err
	}
	if hex.EncodeToString(hash.Sum(nil)) != sha {
		return false, nil
	}
	rememberCopy(id)
	return true, nil
}

// untilDone reads until no caller waits for it any more.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (r untilDone) Read(out []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(out)
}

// lastUse returns when a copy was used last: its time of access. The time of change stays that of its content.
func lastUse(info fs.FileInfo) time.Time {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		at := accessTimeOf(sys)
		return time.Unix(at.Unix())
	}
	return info.ModTime()
}

// markUsed sets it.
func markUsed(file *os.File) {
	if info, err := file.Stat(); err == nil {
		_ = os.Chtimes(file.Name(), time.Now(), info.ModTime()) // a failure only evicts earlier
	}
}
