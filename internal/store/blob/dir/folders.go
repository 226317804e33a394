package dir

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/unweaver/unweaver/internal/stream/durable"
)

// folders makes what happened in folders durable. A name is durable when its folder was synced after it; goroutines
// that wait for the same folder share one sync, so that many small objects cost few.
type folders struct {
	mu      sync.Mutex
	waiting map[string]*round
	running [64]sync.Mutex // by folder
}

// round is a sync that has not begun: it covers everything that happened before it begins.
type round struct {
	done chan struct{}
	err  error
}

func (f *folders) joinSync(folder string) error {
	f.mu.Lock()
	if joined := f.waiting[folder]; joined != nil {
		f.mu.Unlock()
		<-joined.done
		return joined.err
	}
	mine := &round{done: make(chan struct{})}
	if f.waiting == nil {
		f.waiting = map[string]*round{}
	}
	f.waiting[folder] = mine
	f.mu.Unlock()

	running := &f.running[hashString(folder)%uint32(len(f.running))]
	running.Lock()
	defer running.Unlock()
	f.mu.Lock()
	delete(f.waiting, folder) // who comes from now on is not covered
	f.mu.Unlock()
	mine.err = syncFolder(folder)
	close(mine.done)
	return mine.err
}

// syncFolder and syncFile are variables so that a test can count and fail.
var (
	syncFolder = durable.SyncFolder
	syncFile   = (*os.File).Sync
)

// makeFolder makes a folder and those above it, each durable in the one above.
func (s *Store) makeFolder(folder string) error {
	if _, ok := s.made.Load(folder); ok {
		if _, err := os.Lstat(folder); err == nil {
			return nil
		}
	}
	if folder == s.root {
		return s.checkRoot()
	}
	above := filepath.Dir(folder)
	if err := s.makeFolder(above); err != nil {
		return err
	}
	if err := os.Mkdir(folder, durable.PrivateFolder); err != nil {
		if st, serr := os.Stat(folder); !errors.Is(err, os.ErrExist) || serr != nil || !st.IsDir() {
			return err
		}
	}
	if err := s.folders.joinSync(above); err != nil { // also where another made it: it may not be durable yet
		return err
	}
	s.made.Store(folder, true)
	return nil
}
