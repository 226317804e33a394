package localfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	// rangeBytes is what one request of a large download asks for.
	rangeBytes = 8 << 20
	// rangedFrom is the size from which a file comes in ranges.
	rangedFrom = 2 * rangeBytes
	// rangeWidth is how many ranges of a file come at once.
	rangeWidth = 8
	// rangeFailures is how many ranges may break off before no more are asked for.
	rangeFailures = 3
	// partialKept is how long what came of a download is kept for the next try.
	partialKept = 24 * time.Hour

	// partial begins the names of such files, and haves those of the notes of what is in them: a byte for each range,
	// 1 where it is there. The notes may be wrong after a loss of power; the content's hash decides.
	partial = ".part-"
	haves   = ".have-"
)

func isPartial(info fs.FileInfo) bool {
	return strings.HasPrefix(info.Name(), partial) || strings.HasPrefix(info.Name(), haves)
}

// begun is a download in ranges under way: its file, locked, and its notes.
type begun struct {
	sha    string
	file   *os.File
	notes  *os.File
	size   int64
	resume bool // something of it was brought before
}

func (b *begun) close() {
	_ = b.notes.Close()
	_ = b.file.Close()
}

// findDownload gives the download of a content that broke off; nil where there is none, or where another process goes
// on with it.
func (c *Cache) findDownload(sha string) *begun { return c.openPartial(sha, os.O_RDWR, 0) }

// beginDownload makes the file of a download in ranges; nil where that is another process's, or cannot be: the content
// then comes at once.
func (c *Cache) beginDownload(sha string, size int64) *begun {
	return c.openPartial(sha, os.O_RDWR|os.O_CREATE, size)
}

// openPartial opens and locks a download in ranges, of size where it is new.
func (c *Cache) openPartial(sha string, flags int, size int64) *begun {
	file, err := os.OpenFile(filepath.Join(c.dir, partial+sha), flags, 0o600)
	if err != nil {
		return nil
	}
	locked := lockFile(file, unix.LOCK_EX|unix.LOCK_NB) == nil
	if same, err := isAt(file, file.Name()); err != nil || !same || !locked {
		_ = file.Close()
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil
	}
	resume := info.Size() > 0 && (size == 0 || info.Size() == size)
	if !resume && size == 0 {
		_ = file.Close()
		return nil
	}
	if resume {
		size, flags = info.Size(), os.O_RDWR|os.O_CREATE
	} else {
		flags = os.O_RDWR | os.O_CREATE | os.O_TRUNC
		err = file.Truncate(size)
	}
	notes, noteErr := os.OpenFile(filepath.Join(c.dir, haves+sha), flags, 0o600)
	if err = errors.Join(err, noteErr); err != nil {
		_ = file.Close()
		return nil
	}
	return &begun{sha: sha, file: file, notes: notes, size: size, resume: resume}
}

// listMissing returns the ranges that did not come yet.
func (b *begun) listMissing() ([]blob.Range, error) {
	count := (b.size + rangeBytes - 1) / rangeBytes
	noted := make([]byte, count)
	if _, err := b.notes.ReadAt(noted, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var out []blob.Range
	for i, have := range noted {
		if have != 1 {
			offset := int64(i) * rangeBytes
			out = append(out, blob.Range{Offset: offset, Length: min(rangeBytes, b.size-offset)})
		}
	}
	return out, nil
}

// errStale is of a download that went on with something else than the content: nothing is left of it, and it is to
// begin again.
var errStale = errors.New("what came before is not of this content")

// inRanges brings what is missing of a content, checks the whole, and gives it its name. What came stays for the next
// try where something breaks off.
func (c *Cache) inRanges(ctx context.Context, store blob.Store, key string, download *begun) error {
	defer download.close()
	missing, err := download.listMissing()
	if err != nil {
		return localFault("read cache", download.notes.Name(), err)
	}
	if err := download.bringAll(ctx, store, key, missing); err != nil {
		return err
	}
	hash := sha256.New()
	whole := io.NewSectionReader(download.file, 0, download.size)
	if _, err := io.CopyBuffer(hash, untilDone{ctx, whole}, make([]byte, 1<<20)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return localFault("read cache", download.file.Name(), err)
	}
	_ = os.Remove(download.notes.Name())
	if got := hex.EncodeToString(hash.Sum(nil)); got != download.sha {
		_ = os.Remove(download.file.Name())
		if download.resume {
			return errStale
		}
		return damageFault(store, key, got)
	}
	return c.keepDownload(download.file, download.sha)
}

// bringAll asks for ranges side by side. One that breaks off takes none of the others along, which are kept; where
// several do, no more are asked for.
func (b *begun) bringAll(ctx context.Context, store blob.Store, key string, missing []blob.Range) error {
	var mu sync.Mutex
	var failures []error
	err := parallel.Each(ctx, len(missing), rangeWidth, func(ctx context.Context, i int) error {
		mu.Lock()
		enough := len(failures) >= rangeFailures
		mu.Unlock()
		if enough {
			return nil
		}
		if err := b.fetchRange(ctx, store, key, missing[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		}
		return ctx.Err()
	})
	if len(failures) > 0 {
		return failures[0]
	}
	return err
}

// fetchRange asks for one range and notes that it is there.
func (b *begun) fetchRange(ctx context.Context, store blob.Store, key string, part blob.Range) error {
	body, _, err := store.Get(ctx, key, part)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	source := &remote{reader: body}
	n, err := io.Copy(io.NewOffsetWriter(b.file, part.Offset), io.LimitReader(source, part.Length))
	switch {
	case err != nil && source.err == nil:
		return localFault("write cache", b.file.Name(), err)
	case err == nil && n < part.Length:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return downloadFault(ctx, store, key, err)
	}
	if _, err := b.notes.WriteAt([]byte{1}, part.Offset/rangeBytes); err != nil {
		return localFault("write cache", b.notes.Name(), err)
	}
	return nil
}
