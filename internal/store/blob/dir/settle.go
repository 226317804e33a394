package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
)

// settle makes the objects of files that take no more records durable in place, and removes these.
func (j *journal) settle() error {
	j.settling.Lock()
	defer j.settling.Unlock()
	j.mu.Lock()
	j.soon = false
	logs := append([]*logFile(nil), j.retired...)
	j.mu.Unlock()
	for _, log := range logs { // in the order of their records
		log.users.Wait()
		if err := j.settleOne(log); err != nil {
			return err
		}
		if err := os.Remove(log.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return wrap("remove", log.path, err)
		}
		if err := log.file.Close(); err != nil { // its lock goes after its name
			return wrap("close", log.path, err)
		}
		j.mu.Lock()
		j.retired = j.retired[1:]
		j.mu.Unlock()
	}
	if len(logs) == 0 {
		return nil
	}
	if err := syncFolder(j.folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrap("sync", j.folder, err)
	}
	return nil
}

func (j *journal) settleOne(log *logFile) error {
	j.mu.Lock()
	keys := make([]string, 0, len(log.objects))
	folders := maps.Clone(log.emptied)
	lacking := map[string][]byte{}
	for key, raw := range log.objects {
		keys = append(keys, key)
		folders[filepath.Dir(j.store.path(key))] = true
		if raw != nil {
			lacking[key] = raw
		}
	}
	j.mu.Unlock()
	for key, raw := range lacking { // its writer was told of an error
		if _, err := j.store.place(key, raw, false); err != nil && !errors.Is(err, fs.ErrExist) {
			return wrap("write", j.store.path(key), err)
		}
	}
	failed, _ := sideBySide(keys, j.store.syncKey) // what failed is written anew
	j.doubt(failed)
	if err := j.writeAnew(log); err != nil {
		return err
	}
	return j.store.syncFolders(folders)
}

// doubt remembers keys whose sync failed in each file that has a record of what lies there: a key may have been deleted
// and written again meanwhile, and the file that was to be synced be that of the later record.
func (j *journal) doubt(keys []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, log := range j.unsettled() {
		for _, key := range keys {
			if _, ok := log.objects[key]; ok {
				log.doubted[key] = true
			}
		}
	}
}

// unsettled gives all files of records, the older before the newer.
func (j *journal) unsettled() []*logFile {
	if j.log == nil {
		return j.retired
	}
	return append(j.retired[:len(j.retired):len(j.retired)], j.log)
}

// writeAnew writes objects whose sync failed from their records: another sync of the same file would succeed, over
// what the one before lost.
func (j *journal) writeAnew(log *logFile) error {
	if len(log.doubted) == 0 {
		return nil
	}
	raw, err := io.ReadAll(io.NewSectionReader(log.file, 0, math.MaxInt64))
	if err != nil {
		return wrap("read", log.path, err)
	}
	byKey, _ := tell(parseRecords(raw, log.id))
	for key := range log.doubted {
		if err := j.writeOneAnew(log, key, byKey[key]); err != nil {
			return wrap("write anew", j.store.path(key), err)
		}
		delete(log.doubted, key)
	}
	return nil
}

func (j *journal) writeOneAnew(log *logFile, key string, of *told) error {
	leave, err := j.enter(context.Background(), key)
	if err != nil {
		return err
	}
	defer leave()
	j.mu.Lock()
	_, kept := log.objects[key]
	j.mu.Unlock()
	if !kept { // it was deleted meanwhile
		return nil
	}
	if of == nil {
		return fmt.Errorf("its record cannot be read from %s", log.path)
	}
	return j.store.restore(key, of)
}

// sideBySide does something for many keys, and gives those of which it failed, with one of the errors.
func sideBySide(keys []string, do func(key string) error) (failed []string, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range settlers {
		all.Go(func() {
			for i := n; i < len(keys); i += settlers {
				if one := do(keys[i]); one != nil {
					mu.Lock()
					failed, err = append(failed, keys[i]), one
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return failed, err
}

func (s *Store) syncKey(key string) error {
	return wrapped("sync", s.path(key), syncObject(s.path(key)))
}

// syncFolders makes the names in folders durable, with the folders above them.
func (s *Store) syncFolders(folders map[string]bool) error {
	for folder := range folders {
		if err := s.mkdir(folder); err != nil {
			return wrap("make", folder, err)
		}
		if err := s.folders.sync(folder); err != nil {
			return wrap("sync", folder, err)
		}
	}
	return nil
}

// syncFile and syncObject are variables so that a test can fail. What is gone is passed over by syncObject.
var (
	syncFile   = (*os.File).Sync
	syncObject = func(path string) error {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	}
)
