// Package boltfile is what the embedded adapters share: how a bbolt file is opened, and what its failures mean.
package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	bbolt "go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Open opens or makes a file with the buckets in it: a transaction that has returned is durable, and so is the file's
// name. A damaged file is fault.SegmentDamage, no panic; one that only running builds need is set aside under the name
// that Aside gives, which is logged, and begun again.
func Open(path string, replaceable bool, buckets ...[]byte) (*bbolt.DB, error) {
	db, err := openFile(path, buckets)
	if !replaceable || !fault.Is(err, fault.SegmentDamage) {
		return db, err
	}
	if renamed := os.Rename(path, DamagedPath(path)); renamed != nil {
		return nil, errors.Join(err, Wrap("set aside", path, renamed))
	}
	slog.Warn("a file that only running builds need is damaged: it is moved away and created again",
		"path", path, "aside", DamagedPath(path), "error", err.Error())
	return openFile(path, buckets)
}

// DamagedPath returns the name that a damaged file is set aside under.
func DamagedPath(path string) string { return path + ".damaged" }

func openFile(path string, buckets [][]byte) (*bbolt.DB, error) {
	db, err := openChecked(path)
	if errors.Is(err, bberrors.ErrTimeout) {
		return nil, fault.DataDirInUse.At("open", path).
			Because("another process uses it").
			Advise("stop that process, or use another --data-dir")
	}
	var outside *fs.PathError
	var number syscall.Errno
	if errors.As(err, &outside) || errors.As(err, &number) { // the file may be whole: it cannot be reached
		return nil, Wrap("open", path, err)
	}
	if err != nil {
		return nil, newDamageFault("open", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, bucket := range buckets {
			if _, err := tx.CreateBucketIfNotExists(bucket); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(Wrap("prepare", path, err), db.Close())
	}
	return db, nil
}

// openChecked opens a file whose pages hang together. What Check does not see, bbolt may still stumble over.
func openChecked(path string) (db *bbolt.DB, err error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			db, err = nil, fmt.Errorf("damaged: %v", panicked)
		}
	}()
	options := *bbolt.DefaultOptions
	options.Timeout = time.Second
	options.FreelistType = bbolt.FreelistMapType
	options.NoFreelistSync = true
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createFile(path, &options); err != nil {
			return nil, err
		}
	}
	return bbolt.Open(path, 0o600, &options)
}

// createFile makes an empty file beside and renames it, so that a crash leaves none half made.
func createFile(path string, options *bbolt.Options) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(fresh, 0o600, options) // which syncs it
	if err != nil {
		return err
	}
	if err := errors.Join(db.Close(), os.Rename(fresh, path)); err != nil {
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}

func newDamageFault(op, path string, cause error) error {
	return fault.SegmentDamage.At(op, path).
		Because(cause).
		Advise("move the file away, restart, then run: unweaver restore --all")
}

// stumbled holds the files, by *bbolt.DB, of which a transaction panicked. bbolt may hold their locks for ever after.
var stumbled sync.Map

// guardTransaction runs a transaction and makes a fault of what fails in it. It is the second line behind Check: what
// bbolt stumbles over all the same is fault.SegmentDamage and no end of the process. The file is not used any more
// then. Transactions of callers only copy bytes: what they would stumble over by themselves counts as damage, too.
func guardTransaction(db *bbolt.DB, op, object string, transaction func() error) (err error) {
	if cause, known := stumbled.Load(db); known {
		return newDamageFault(op, object, cause.(error))
	}
	defer func() {
		panicked := recover()
		if panicked == nil {
			return
		}
		cause := fmt.Errorf("%v", panicked)
		stumbled.Store(db, cause)
		err = newDamageFault(op, object, cause)
	}()
	return Wrap(op, object, transaction())
}

// View runs a transaction that reads. What bbolt panics of is fault.SegmentDamage, also for all that come after.
func View(db *bbolt.DB, op, object string, read func(*bbolt.Tx) error) error {
	return guardTransaction(db, op, object, func() error { return db.View(read) })
}

// Update runs a transaction that writes; else it is as View.
func Update(db *bbolt.DB, op, object string, write func(*bbolt.Tx) error) error {
	return guardTransaction(db, op, object, func() error { return db.Update(write) })
}

// Close closes a file. One that bbolt stumbled over stays open until the process ends: closing it may wait for ever.
func Close(db *bbolt.DB) error {
	if _, known := stumbled.Load(db); known {
		return nil
	}
	return db.Close()
}

// Wrap makes a fault of a failure on the file.
func Wrap(op, object string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fault.StoreFull.At(op, object).
			Because(err).
			Advise("free disk space before you stop this process: it holds paid results in memory")
	}
	return fault.StoreDown.At(op, object).Because(err)
}
