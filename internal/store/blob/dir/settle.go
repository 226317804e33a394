package dir

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
)

// settle gives the objects of files that take no more records files of their own, durable, and removes these.
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
		if err := log.close(); err != nil { // its lock goes after its name
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

// close ends a file of records, once nobody reads from it.
func (log *logFile) close() error {
	log.reading.Lock()
	defer log.reading.Unlock()
	log.gone = true
	return log.file.Close()
}

func (j *journal) settleOne(log *logFile) error {
	j.mu.Lock()
	keys := make([]string, 0, len(log.objects))
	folders := maps.Clone(log.emptied)
	for key := range log.objects {
		keys = append(keys, key)
		folders[filepath.Dir(j.store.path(key))] = true
	}
	j.mu.Unlock()
	if _, err := sideBySide(keys, func(key string) error { return j.place(log, key) }); err != nil {
		return err
	}
	return j.store.syncFolders(folders)
}

// unsettled gives all files of records, the older before the newer.
func (j *journal) unsettled() []*logFile {
	if j.log == nil {
		return j.retired
	}
	return append(j.retired[:len(j.retired):len(j.retired)], j.log)
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
