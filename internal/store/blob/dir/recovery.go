package dir

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

const (
	journalSuffix = ".log"
	journalLock   = "lock"
)

// recordID begins each record of one file and is in its name: what lies between two records is told from one by it,
// whatever objects hold.
type recordID [8]byte

const (
	recordPut     = 1
	recordDeleted = 2

	// recordHead is the length of what comes before the key: id, kind, length of the key, length of the object, CRC-32C
	// of all of it but itself.
	recordHead = 8 + 1 + 2 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(to []byte, id recordID, kind byte, key string, raw []byte) []byte {
	begin := len(to)
	to = append(append(to, id[:]...), kind)
	to = binary.LittleEndian.AppendUint16(to, uint16(len(key)))
	to = binary.LittleEndian.AppendUint32(to, uint32(len(raw)))
	to = append(to, 0, 0, 0, 0)
	to = append(append(to, key...), raw...)
	binary.LittleEndian.PutUint32(to[begin+recordHead-4:], recordSum(to[begin:]))
	return to
}

func recordSum(record []byte) uint32 {
	sum := crc32.Checksum(record[:recordHead-4], castagnoli)
	return crc32.Update(sum, castagnoli, record[recordHead:])
}

// record is one of a journal.
type record struct {
	kind byte
	key  string
	raw  []byte
}

// parseRecords gives the whole records of a file. What is torn or damaged is passed over: others may follow, as a disk
// writes in no order what no sync told it to.
func parseRecords(raw []byte, id recordID) []record {
	var out []record
	for {
		at := bytes.Index(raw, id[:])
		if at < 0 {
			return out
		}
		raw = raw[at:]
		length := recordLength(raw)
		if length == 0 {
			raw = raw[1:]
			continue
		}
		key := recordHead + int(binary.LittleEndian.Uint16(raw[9:]))
		out = append(out, record{kind: raw[8], key: string(raw[recordHead:key]), raw: raw[key:length]})
		raw = raw[length:]
	}
}

// recordLength is the length of the whole record that raw begins with; 0: it is none.
func recordLength(raw []byte) int {
	if len(raw) < recordHead {
		return 0
	}
	length := uint64(recordHead) + uint64(binary.LittleEndian.Uint16(raw[9:])) +
		uint64(binary.LittleEndian.Uint32(raw[11:]))
	if length > uint64(len(raw)) || binary.LittleEndian.Uint32(raw[recordHead-4:]) != recordSum(raw[:length]) {
		return 0
	}
	return int(length)
}

// open makes a file of records that is locked for as long as this process lives. Files of others are looked at below
// the lock of the folder alone, so that none is taken for a dead one's before it is locked.
func (j *journal) open() (log *logFile, err error) {
	if err := j.store.mkdir(j.folder); err != nil { // somebody may have removed it
		return nil, err
	}
	lock, err := lockJournals(j.folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	log = &logFile{objects: map[string]object{}, emptied: map[string]bool{}}
	_, _ = rand.Read(log.id[:])                       // never fails
	j.opened = max(j.opened+1, time.Now().UnixNano()) // a clock that is set back changes no order
	name := fmt.Sprintf("%020d-%s%s", j.opened, hex.EncodeToString(log.id[:]), journalSuffix)
	log.path = filepath.Join(j.folder, name)
	log.file, err = os.OpenFile(log.path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, durable.PrivateFile)
	if err != nil {
		return nil, err
	}
	if err = flock(log.file, unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = syncFolder(j.folder)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(log.path), log.file.Close())
	}
	log.aged = time.AfterFunc(journalAge, func() {
		j.mu.Lock()
		j.retire(log)
		j.mu.Unlock()
		_ = j.settle() // what fails stays, and is tried again with the next, at Close or at a start
	})
	return log, nil
}

// lockJournals waits until the journals of a folder are this process's to look at; closing the file ends that.
func lockJournals(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, journalLock), os.O_CREATE|os.O_RDWR, durable.PrivateFile)
	if err != nil {
		return nil, err
	}
	if err := flock(lock, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// flock repeats what a signal interrupted.
func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func noLocks(err error) bool {
	return errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOLCK)
}

// recover puts in place what is in the journals of processes that ended, before anything is read.
func (s *Store) recover() error {
	folder := filepath.Join(s.root, journalDir)
	if s.journal != nil {
		if err := s.mkdir(folder); err != nil {
			return wrap("make", folder, err)
		}
	} else if names, err := journals(folder); err != nil || len(names) == 0 {
		return wrapped("read", folder, err)
	}
	lock, err := lockJournals(folder)
	if noLocks(err) {
		names, err := journals(folder)
		if err == nil && len(names) > 0 {
			return fault.StoreDenied.At("recover", folder).
				Because("its file system has no locks, and a journal lies there").
				Advise("open the folder once where it was written, or on a file system with locks")
		}
		s.journal = nil
		return wrapped("read", folder, err)
	}
	if err != nil {
		return wrap("lock", folder, err)
	}
	return errors.Join(s.recoverLocked(folder), lock.Close())
}

// journals lists files of records, the older before the newer.
func journals(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), journalSuffix) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (s *Store) recoverLocked(folder string) error {
	names, err := journals(folder)
	if err != nil {
		return wrap("read", folder, err)
	}
	var records []record
	var dead []string
	for _, name := range names {
		path := filepath.Join(folder, name)
		found, ended, err := readEnded(path)
		if err != nil {
			return wrap("read", path, err)
		}
		if ended {
			records, dead = append(records, found...), append(dead, path)
		}
	}
	if err := s.replay(records); err != nil || len(dead) == 0 {
		return err
	}
	for _, path := range dead {
		if err := os.Remove(path); err != nil {
			return wrap("remove", path, err)
		}
	}
	return wrapped("sync", folder, syncFolder(folder))
}

// readEnded reads the records of a process that has ended; what is of one that lives is that one's.
func readEnded(path string) (found []record, ended bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0) // some file systems lock for writers alone
	if errors.Is(err, fs.ErrNotExist) {          // its owner is done with it
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = file.Close() }()
	if err := flock(file, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var id recordID
	_, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), journalSuffix), "-")
	if n, err := hex.Decode(id[:], []byte(name)[:min(len(name), 2*len(id))]); err != nil || n != len(id) {
		return nil, false, nil // it is none of ours
	}
	return parseRecords(raw, id), true, nil
}

// told is what records tell of a key.
type told struct {
	standing []byte   // the object that must be there
	stands   bool     // there is one
	former   [][]byte // those before it, which were deleted
	others   [][]byte // of writers that came second
}

// replay does again what records tell. An object that exists is left as it is, unless it is a torn copy of a record,
// or one that a later record replaced: then no other writer made it. One that equals its record is written anew: what
// is read may be what the kernel failed to write, and would not tell of again.
func (s *Store) replay(records []record) error {
	byKey, keys := tell(records)
	folders := map[string]bool{}
	for _, key := range keys {
		folders[filepath.Dir(s.path(key))] = true
	}
	if _, err := sideBySide(keys, func(key string) error {
		return wrapped("recover", s.path(key), s.restore(key, byKey[key]))
	}); err != nil {
		return err
	}
	if _, err := sideBySide(keys, s.syncKey); err != nil {
		return err
	}
	return s.syncFolders(folders)
}

// tell gives what records tell of each key, and the keys in their order.
func tell(records []record) (byKey map[string]*told, keys []string) {
	byKey = map[string]*told{}
	for _, r := range records {
		if blob.CheckKey(r.key) != nil {
			continue
		}
		of := byKey[r.key]
		if of == nil {
			of = &told{}
			byKey[r.key] = of
			keys = append(keys, r.key)
		}
		switch {
		case r.kind == recordPut && of.stands:
			of.others = append(of.others, r.raw)
		case r.kind == recordPut:
			of.standing, of.stands = r.raw, true
		case r.kind == recordDeleted && of.stands:
			of.former = append(of.former, of.standing)
			of.standing, of.stands = nil, false
		}
	}
	return byKey, keys
}

// restore makes what lies under a key what records tell, synced but for its name.
func (s *Store) restore(key string, of *told) error {
	path := s.path(key)
	found, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.restoreMissing(key, of)
	case of.stands && errors.Is(err, unix.EIO): // its pages are lost
		return s.takeOver(path, of.standing)
	case err != nil:
		return err
	case of.stands && of.holds(found):
		return s.takeOver(path, found)
	case !of.replaces(found):
		return nil
	case of.stands:
		return s.takeOver(path, of.standing)
	}
	return os.Remove(path)
}

// takeOver gives a name to a new file in one step, with a content that is synced: this may be ended at any point.
func (s *Store) takeOver(path string, content []byte) error {
	tmp := s.temporary()
	defer func() { _ = os.Remove(tmp) }()
	if _, err := written(tmp, content, true); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func (s *Store) restoreMissing(key string, of *told) error {
	if !of.stands {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path(key)), durable.PrivateFolder); err != nil {
		return err
	}
	_, err := s.place(key, of.standing, true)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// holds tells whether what lies under a key is the whole object of one of its records.
func (t *told) holds(found []byte) bool {
	equal := func(raw []byte) bool { return bytes.Equal(found, raw) }
	return equal(t.standing) || slices.ContainsFunc(t.others, equal)
}

// replaces tells whether what lies under a key is what a journal's own write left, and is not to stay. Where nothing
// stands only torn copies go: a whole one may be what somebody wrote again.
func (t *told) replaces(found []byte) bool {
	for _, former := range t.former {
		if torn(found, former) || t.stands && bytes.Equal(found, former) {
			return true
		}
	}
	for _, other := range t.others {
		if bytes.Equal(found, other) {
			return false // it came second in the journal and first in the folder
		}
		if torn(found, other) {
			return true
		}
	}
	return t.stands && torn(found, t.standing)
}

// torn tells whether found is what a file system may have kept of a new file that was never synced: its parts, with
// nothing or zeros in the place of others.
func torn(found, whole []byte) bool {
	if len(found) > len(whole) || bytes.Equal(found, whole) {
		return false
	}
	for i, b := range found {
		if b != whole[i] && b != 0 {
			return false
		}
	}
	return true
}
