// Package boltfile is what the embedded adapters share: how a bbolt file is opened, and what its failures mean.
package boltfile

import (
	"errors"
	"syscall"
	"time"

	bbolt "go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"github.com/unweaver/unweaver/internal/fault"
)

// Open opens or makes a file with the buckets in it. A volatile one is not synced: what it holds survives the death of
// the process, not of the machine.
func Open(path string, volatile bool, buckets ...[]byte) (*bbolt.DB, error) {
	options := *bbolt.DefaultOptions
	options.Timeout = time.Second
	options.FreelistType = bbolt.FreelistMapType
	options.NoSync = volatile
	options.NoFreelistSync = true
	db, err := bbolt.Open(path, 0o600, &options)
	if errors.Is(err, bberrors.ErrTimeout) {
		return nil, fault.DataDirInUse.At("open", path).
			Because("another process holds it").
			Advise("stop that process, or use another --data-dir")
	}
	if err != nil {
		return nil, fault.SegmentDamage.At("open", path).
			Because(err).
			Advise("restore the file, or remove it and run: unweaver restore")
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

// Wrap makes a fault of a failure on the file.
func Wrap(op, object string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fault.StoreFull.At(op, object).
			Because(err).
			Advise("free disk space, then resume: nothing paid is lost")
	}
	return fault.StoreDown.At(op, object).Because(err)
}
