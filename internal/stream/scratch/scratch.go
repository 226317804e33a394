// Package scratch is where a process puts what does not fit into memory: files without a name, which go with the
// process however it ends, and folders below a separate one, which the next process sweeps.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// name of the folder of all processes, below the one that Use gets.
const name = "scratch"

// settled is the age from which a folder without a lock belongs to no process: between its making and its lock lies a
// moment.
const settled = time.Minute

// place is this process's; the zero value is the system's folder for temporary files.
var place struct {
	sync.Mutex
	folder string
	lock   *os.File // an advisory lock on the folder, for as long as the process lives
}

// Use puts the scratch of this process below a folder, usually the data directory or the cache, and removes what
// processes left there that are gone. Mains call it once, at start: what was made before stays where it is.
func Use(below string) error {
	all := filepath.Join(below, name)
	if err := durable.MkdirPrivate(all); err != nil {
		return deniedFault("make", all, err)
	}
	if err := sweepFolders(all); err != nil {
		return deniedFault("sweep", all, err)
	}
	own, err := os.MkdirTemp(all, fmt.Sprintf("%d-*", os.Getpid()))
	if err != nil {
		return deniedFault("make a folder in", all, err)
	}
	lock, err := os.Open(own)
	if err != nil {
		return deniedFault("open", own, err)
	}
	// Where the file system has no locks, nothing is swept either.
	_ = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	place.Lock()
	defer place.Unlock()
	if place.lock != nil {
		_ = place.lock.Close()
	}
	place.folder, place.lock = own, lock
	return nil
}

func deniedFault(op, folder string, err error) error {
	return fault.StoreDenied.At(op, folder).
		Because(err).
		Advise("temporary files lie there: check the owner and mode of the folder")
}

// sweepFolders removes the folders of processes that are gone: their locks are free.
func sweepFolders(all string) error {
	entries, err := os.ReadDir(all)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process sweeps too
		}
		if err != nil {
			return err
		}
		if !info.IsDir() || time.Since(info.ModTime()) < settled {
			continue
		}
		if err := removeDead(filepath.Join(all, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func removeDead(folder string) error {
	file, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // its process lives, or that is unknown
	}
	return os.RemoveAll(folder)
}

// Place returns the folder of this process's scratch.
func Place() string {
	place.Lock()
	defer place.Unlock()
	if place.folder == "" {
		return os.TempDir()
	}
	return place.folder
}

// CreateFile makes a temporary file, open for reading and writing, that has no name any more: no other user can open
// it, and it is gone when it is closed or the process ends.
func CreateFile() (*os.File, error) {
	file, err := os.CreateTemp(Place(), "unweaver-*")
	if err != nil {
		return nil, FullError("make a temporary file", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(FullError("make a temporary file", err), file.Close())
	}
	return file, nil
}

// CreateFolder makes a temporary folder; the caller removes it with all that is in it.
func CreateFolder() (string, error) {
	folder, err := os.MkdirTemp(Place(), "unweaver-*")
	if err != nil {
		return "", FullError("make a temporary folder", err)
	}
	return folder, nil
}

// FullError returns the fault of scratch that cannot be made or written.
func FullError(op string, err error) error {
	return fault.StoreFull.At(op+" in", Place()).
		Because(err).
		Advise("free space there, or choose another place: --data-dir of unweaver dev, worker.cache_dir or " +
			"UNWEAVER_CACHE_DIR of the other programs")
}
