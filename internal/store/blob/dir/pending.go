package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Objects that have a record and no file yet are read from the record, and given a file when they need one.

// pending finds an object that has no file yet.
func (j *journal) pending(key string) (*logFile, object, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, log := range j.unsettled() {
		if found, ok := log.objects[key]; ok && !found.placed {
			return log, found, true
		}
	}
	return nil, object{}, false
}

// info is what a store tells of an object without a file. Its ETag is another once it has one: who writes with the
// former is refused, and reads again.
func (log *logFile) info(key string, of object) blob.Info {
	return blob.Info{
		Key: key, Size: int64(of.size), Modified: of.put, ETag: fmt.Sprintf("%x-%x", log.id, of.at),
	}
}

// read gives the bytes of an object; false where its file of records is closed: the object has a file then.
func (log *logFile) read(of object) ([]byte, bool, error) {
	log.reading.RLock()
	defer log.reading.RUnlock()
	if log.gone {
		return nil, false, nil
	}
	raw := make([]byte, of.size)
	_, err := log.file.ReadAt(raw, of.at)
	return raw, true, err
}

// get is Store.Get of an object without a file; false where there is none such.
func (j *journal) get(key string, r blob.Range) (body io.ReadCloser, found blob.Info, ok bool, err error) {
	if j == nil {
		return nil, blob.Info{}, false, nil
	}
	log, of, pending := j.pending(key)
	if !pending {
		return nil, blob.Info{}, false, nil
	}
	raw, open, err := log.read(of)
	if err != nil {
		return nil, blob.Info{}, true, wrap("read", log.path, err)
	}
	if !open {
		return nil, blob.Info{}, false, nil
	}
	found = log.info(key, of)
	if r.Match != "" && r.Match != found.ETag {
		return nil, found, true, precondition(j.store.path(key), "it has changed")
	}
	length := r.Length
	if length < 0 {
		length = found.Size - r.Offset
	}
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(raw), r.Offset, length)), found, true, nil
}

// stat is Store.Stat of an object without a file; false where there is none such.
func (j *journal) stat(key string) (blob.Info, bool) {
	if j == nil {
		return blob.Info{}, false
	}
	log, of, pending := j.pending(key)
	if !pending {
		return blob.Info{}, false
	}
	return log.info(key, of), true
}

// makeWay is called before a key is written to without the journal: what it holds gets a file, and the condition is
// told in that file's terms. Nobody else writes to the key until what is
// returned is called.
func (j *journal) makeWay(ctx context.Context, key string, cond *blob.Cond) (_ func(), err error) {
	if j == nil || !j.covers(key) {
		return func() {}, nil
	}
	left, err := j.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			left()
		}
	}()
	log, of, pending := j.pending(key)
	if !pending {
		return left, nil
	}
	path := j.store.path(key)
	if cond.Absent {
		return nil, precondition(path, "it exists")
	}
	if cond.Match != "" && cond.Match != log.info(key, of).ETag {
		return nil, precondition(path, "it has changed")
	}
	if err := j.placeEntered(log, key); err != nil {
		return nil, err
	}
	if cond.Match != "" {
		placed, err := os.Stat(path)
		if err != nil {
			return nil, wrap("stat", path, err)
		}
		cond.Match = info(key, placed).ETag
	}
	return left, nil
}

// place gives an object of a file of records a file of its own, synced but for its name.
func (j *journal) place(log *logFile, key string) error {
	leave, err := j.enter(context.Background(), key)
	if err != nil {
		return err
	}
	defer leave()
	return j.placeEntered(log, key)
}

// placeEntered is place for who has entered the key. What was deleted meanwhile gets none; a file that another process
// gave the name stays.
func (j *journal) placeEntered(log *logFile, key string) error {
	j.mu.Lock()
	of, ok := log.objects[key]
	j.mu.Unlock()
	if !ok || of.placed {
		return nil
	}
	path := j.store.path(key)
	raw, open, err := log.read(of)
	if err == nil && !open {
		err = os.ErrClosed
	}
	if err != nil {
		return wrap("read", log.path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), durable.PrivateFolder); err != nil { // settle makes its name durable
		return wrap("make folder of", path, err)
	}
	if _, err := j.store.place(key, raw, true); err != nil && !errors.Is(err, fs.ErrExist) {
		return wrap("write", path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	of.placed = true
	log.objects[key] = of
	return nil
}

// pendingBelow gives the keys of objects without a file that begin with a prefix, in their order: those after a key, up
// to another, as Store.ListRange has them.
func (j *journal) pendingBelow(prefix, after, until string) (keys []string) {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	for _, log := range j.unsettled() {
		for key, of := range log.objects {
			if !of.placed && key > after && (until == "" || key <= until) && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
	}
	j.mu.Unlock()
	slices.Sort(keys)
	return keys
}

// merging adds objects without a file to a listing of files, in the order of keys. What got a file since the listing
// began is told once, what was deleted is not. rest yields those behind the last file.
func (s *Store) merging(
	keys []string, yield func(blob.Info, error) bool,
) (merged func(blob.Info, error) bool, rest func()) {
	stopped := false
	until := func(end func(key string) bool) bool {
		for len(keys) > 0 && end(keys[0]) {
			key := keys[0]
			keys = keys[1:]
			found, ok := s.journal.stat(key)
			if !ok {
				if !s.yieldFile(key, yield) {
					return false
				}
			} else if !yield(found, nil) {
				return false
			}
		}
		return true
	}
	merged = func(file blob.Info, err error) bool {
		if err == nil {
			stopped = !until(func(key string) bool { return key < file.Key })
			if len(keys) > 0 && keys[0] == file.Key {
				keys = keys[1:]
			}
		}
		if !stopped {
			stopped = !yield(file, err)
		}
		return !stopped
	}
	rest = func() {
		if !stopped {
			until(func(string) bool { return true })
		}
	}
	return merged, rest
}
