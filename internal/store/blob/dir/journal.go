package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

const (
	// journalDir holds the journals of the processes that write; it is never listed.
	journalDir = ".journal"

	// journalObject is the largest object that is worth being written twice.
	journalObject = 64 << 10

	// A journal ends when it is so long or so old: what a start may have to put in place stays little.
	journalBytes = 32 << 20
	journalAge   = 30 * time.Second

	// settlers sync the objects of a journal side by side, which a file system makes into few writes of its own.
	settlers = 16

	// reopenAfter is how long after a failure no other journal is opened: callers try again, and a full disk stays full.
	reopenAfter = time.Second

	// removedMost is how many removed names are remembered before their folders are synced.
	removedMost = 4096
)

// journal makes small objects durable by one sync for all that are written while the sync before is under way. A
// record is appended and synced, and the object is acknowledged: it is read from its record (pending.go) until the file
// of records ends. Then what was not deleted meanwhile gets a file, synced, and the file of records goes. Most paid
// answers are in a pack by then, so that they never have a file of their own. What a crash leaves of a journal is put
// in place when the folder is opened (recovery.go).
//
// Every process has files of its own and locks them while it lives.
type journal struct {
	store  *Store
	covers func(key string) bool
	folder string

	mu      sync.Mutex
	log     *logFile                 // takes records; nil: the next one opens it
	retired []*logFile               // take none any more; their objects are not all synced
	busy    map[string]chan struct{} // keys that are being written or deleted
	deleted []byte                   // records of deletions, which go before the next object
	removed map[string]int64         // keys whose removal may not be durable yet, with the number of it
	removal int64                    // the number of the latest
	closed  bool
	opened  int64 // when the latest file was, in nanoseconds

	failure  error     // of the latest write or opening that failed
	failedAt time.Time // when that was

	settling sync.Mutex
	soon     bool // a settle was started that has not looked yet
}

// logFile is a file of records.
type logFile struct {
	path    string
	file    *os.File
	id      recordID
	size    int64
	written int64             // the length of its groups that are durable
	failed  error             // it takes no more
	objects map[string]object // by key, those that are durable and were not deleted
	emptied map[string]bool   // folders of objects that had a file and were deleted
	waiting *group
	running sync.Mutex     // a group is being written
	users   sync.WaitGroup // objects whose group is not written yet
	reading sync.RWMutex   // of file, which is closed below it
	gone    bool           // file is closed
	aged    *time.Timer
}

// object is where the bytes of an object lie in a file of records.
type object struct {
	at     int64
	size   int
	put    time.Time
	placed bool // it has a file, which is durable
}

// group is what one sync will make durable.
type group struct {
	records []byte
	objects []grouped
	deleted []byte // the keys of its records of deletions
	done    chan struct{}
	err     error
}

// grouped is an object of a group, which lies at a place behind the group's begin.
type grouped struct {
	key string
	object
}

// Option changes how a folder is opened.
type Option func(*Store)

// Journal has small objects that are put with Cond.Absent under keys that covers names made durable together, by a
// journal, instead of by syncs of their own each. It is for objects that are never changed and whose return after they
// were deleted does no harm: a deletion by another process may be taken back by a loss of power, for as long as a
// journal lasts. A file system without locks has no journal. Such a store wants Close.
func Journal(covers func(key string) bool) Option {
	return func(s *Store) {
		s.journal = &journal{
			store: s, covers: covers, folder: filepath.Join(s.root, journalDir), busy: map[string]chan struct{}{},
			removed: map[string]int64{},
		}
	}
}

// Close makes durable in place what is in the journal, and ends it. What is written afterwards is synced at once.
func (s *Store) Close() error {
	if s.journal == nil {
		return nil
	}
	s.journal.mu.Lock()
	s.journal.closed = true
	s.journal.retire(s.journal.log)
	s.journal.mu.Unlock()
	return s.journal.settle()
}

// Settle implements blob.Settler: what is in the journal of this process gets files of its own, and the journal ends.
func (s *Store) Settle() error {
	if s.journal == nil {
		return nil
	}
	s.journal.mu.Lock()
	s.journal.retire(s.journal.log)
	s.journal.mu.Unlock()
	return s.journal.settle()
}

// takes tells whether a write is one for the journal.
func (j *journal) takes(key string, size int64, cond blob.Cond) bool {
	if j == nil || !cond.Absent || size < 0 || size > journalObject || !j.covers(key) {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.closed
}

// enter makes a key this call's alone among writes and deletions by way of the journal, until leave.
func (j *journal) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		j.mu.Lock()
		other := j.busy[key]
		if other == nil {
			mine := make(chan struct{})
			j.busy[key] = mine
			j.mu.Unlock()
			return func() {
				j.mu.Lock()
				delete(j.busy, key)
				j.mu.Unlock()
				close(mine)
			}, nil
		}
		j.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// put is Store.Put with Cond.Absent.
func (j *journal) put(ctx context.Context, key string, body io.Reader, size int64) (blob.Info, error) {
	path := j.store.path(key)
	raw, err := io.ReadAll(io.LimitReader(body, size+1))
	if err == nil && int64(len(raw)) != size {
		err = fmt.Errorf("got %d of %d bytes", len(raw), size)
	}
	if err != nil {
		return blob.Info{}, wrap("write", path, err)
	}
	leave, err := j.enter(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	defer leave()
	if _, _, pending := j.pending(key); pending {
		return blob.Info{}, precondition(path, "it exists")
	}
	if _, err := os.Lstat(path); err == nil {
		return blob.Info{}, precondition(path, "it exists")
	}
	if err := j.syncRemoval(key); err != nil {
		return blob.Info{}, wrap("sync the folder of", path, err)
	}
	log, written, err := j.append(key, raw)
	if err != nil {
		return blob.Info{}, wrap("write", path, err)
	}
	return log.info(key, written), nil
}

// place gives an object its name where none has it; fs.ErrExist where one does.
func (s *Store) place(key string, raw []byte, synced bool) (blob.Info, error) {
	tmp := s.temporary()
	defer func() { _ = os.Remove(tmp) }() // it is gone already where it was renamed
	placed, err := written(tmp, raw, synced)
	if err != nil {
		return blob.Info{}, err
	}
	return info(key, placed), moveNew(tmp, s.path(key))
}

func written(path string, raw []byte, synced bool) (fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, durable.PrivateFile)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(raw)
	if err == nil && synced {
		err = syncFile(file)
	}
	var state fs.FileInfo
	if err == nil {
		state, err = file.Stat()
	}
	return state, errors.Join(err, file.Close())
}

// append makes a record durable.
func (j *journal) append(key string, raw []byte) (*logFile, object, error) {
	j.mu.Lock()
	log, err := j.current()
	if err != nil {
		j.mu.Unlock()
		return nil, object{}, err
	}
	mine, first := log.waiting, false
	if mine == nil {
		mine, first = &group{done: make(chan struct{})}, true
		log.waiting = mine
	}
	before := len(mine.records)
	for deleted := range splitDeleted(j.deleted) {
		mine.records = appendRecord(mine.records, log.id, recordDeleted, deleted, nil)
	}
	mine.deleted, j.deleted = append(mine.deleted, j.deleted...), nil
	mine.records = appendRecord(mine.records, log.id, recordPut, key, raw)
	number := len(mine.objects)
	mine.objects = append(mine.objects, grouped{
		key: key, object: object{at: int64(len(mine.records) - len(raw)), size: len(raw), put: time.Now()},
	})
	log.size += int64(len(mine.records) - before)
	log.users.Add(1)
	if log.size > journalBytes {
		j.retire(log)
		j.settleSoon()
	}
	j.mu.Unlock()

	if first {
		j.write(log)
	}
	<-mine.done
	log.users.Done()
	return log, mine.objects[number].object, mine.err
}

// current gives the file that takes records. After a failure none is opened for a while: the cause is the error.
func (j *journal) current() (*logFile, error) {
	if j.log != nil {
		return j.log, nil
	}
	if time.Since(j.failedAt) < reopenAfter {
		return nil, j.failure
	}
	log, err := j.open()
	if err != nil {
		j.fail(err)
		return nil, err
	}
	j.log = log
	return log, nil
}

// fail remembers a failure. What other files hold is settled: on a full disk that makes room.
func (j *journal) fail(err error) {
	j.failure, j.failedAt = err, time.Now()
	if len(j.retired) > 0 {
		j.settleSoon()
	}
}

// settleSoon settles beside the caller. What fails stays, and is tried again with the next, at Close or at a start.
func (j *journal) settleSoon() {
	if j.soon {
		return
	}
	j.soon = true
	go func() { _ = j.settle() }()
}

// write makes the group that waits durable, with all that joins it until the one before is.
func (j *journal) write(log *logFile) {
	log.running.Lock()
	defer log.running.Unlock()
	j.mu.Lock()
	mine, err := log.waiting, log.failed
	log.waiting = nil // who comes from now on is not covered
	j.mu.Unlock()
	if err == nil {
		_, err = log.file.Write(mine.records)
	}
	if err == nil {
		err = syncData(log.file)
	}
	j.mu.Lock()
	if err != nil { // its end may be torn, and what a failed sync left out is not written by another
		j.deleted = append(mine.deleted, j.deleted...)
		j.abandon(log, err)
	} else { // only now can the objects be seen
		for i := range mine.objects {
			mine.objects[i].at += log.written
			log.objects[mine.objects[i].key] = mine.objects[i].object
		}
		log.written += int64(len(mine.records))
	}
	j.mu.Unlock()
	mine.records, mine.err = nil, err
	close(mine.done)
}

// abandon ends a file that could not be written. It goes at once where nothing in it was acknowledged.
func (j *journal) abandon(log *logFile, err error) {
	if log.failed != nil {
		return
	}
	log.failed = err
	if j.log == log && log.written == 0 && os.Remove(log.path) == nil {
		log.aged.Stop()
		j.log = nil
		_ = log.file.Close() // its lock goes after its name
	}
	j.retire(log)
	j.fail(err)
}

// retire has a file take no more records.
func (j *journal) retire(log *logFile) {
	if log == nil || j.log != log {
		return
	}
	log.aged.Stop()
	j.log = nil
	j.retired = append(j.retired, log)
}

// delete removes an object. That it is gone is in the journal before an object of its key can be put again.
func (j *journal) delete(ctx context.Context, key string) error {
	leave, err := j.enter(ctx, key)
	if err != nil {
		return err
	}
	defer leave()
	if _, _, pending := j.pending(key); pending { // it has no file
		j.forget(key)
		return nil
	}
	gone := os.Remove(j.store.path(key))
	if gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return gone
	}
	j.forget(key)
	j.mu.Lock()
	j.removal++
	j.removed[key] = j.removal
	j.mu.Unlock()
	if err := j.syncRemovals(); err != nil {
		return err
	}
	return gone
}

// forget takes a deleted object out of the files of records that wait to be settled.
func (j *journal) forget(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known := false
	for _, log := range j.unsettled() {
		if deleted, ok := log.objects[key]; ok {
			known = true
			delete(log.objects, key)
			if deleted.placed {
				log.emptied[filepath.Dir(j.store.path(key))] = true
			}
		}
	}
	if known {
		j.deleted = append(append(j.deleted, key...), 0)
	}
}

// syncRemoval makes it durable that an object was removed, before another takes its name: of a whole old one that
// power brings back a start could not tell that it is not to stay.
func (j *journal) syncRemoval(key string) error {
	j.mu.Lock()
	_, removed := j.removed[key]
	j.mu.Unlock()
	if !removed {
		return nil
	}
	if err := j.store.folders.sync(filepath.Dir(j.store.path(key))); err != nil {
		return err
	}
	j.mu.Lock()
	delete(j.removed, key)
	j.mu.Unlock()
	return nil
}

// syncRemovals does the same for all removed names, where they have become many.
func (j *journal) syncRemovals() error {
	j.mu.Lock()
	if len(j.removed) < removedMost {
		j.mu.Unlock()
		return nil
	}
	removed := maps.Clone(j.removed)
	folders := map[string]bool{}
	for key := range removed {
		folders[filepath.Dir(j.store.path(key))] = true
	}
	j.mu.Unlock()
	for folder := range folders {
		if err := j.store.folders.sync(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	j.mu.Lock()
	for key, number := range removed {
		if j.removed[key] == number { // it was not written and removed again meanwhile
			delete(j.removed, key)
		}
	}
	j.mu.Unlock()
	return nil
}

// splitDeleted gives keys that end with a NUL, which no key holds.
func splitDeleted(keys []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(keys) > 0 {
			key, rest, _ := bytes.Cut(keys, []byte{0})
			if !yield(string(key)) {
				return
			}
			keys = rest
		}
	}
}
