// Package boltfile is what the embedded adapters share: how a bbolt file is opened, and what its failures mean.
package boltfile

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	bbolt "go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"github.com/unweaver/unweaver/internal/fault"
)

// Open opens or makes a file with the buckets in it. A volatile one is not synced: what it holds survives the death of
// the process, not of the machine. Where it is damaged it is set aside under the name that Aside gives, which is told,
// and begun anew. Any other one that is damaged is fault.SegmentDamage.
func Open(path string, volatile bool, buckets ...[]byte) (*bbolt.DB, error) {
	db, err := open(path, volatile, buckets)
	if !volatile || !fault.Is(err, fault.SegmentDamage) {
		return db, err
	}
	if renamed := os.Rename(path, Aside(path)); renamed != nil {
		return nil, errors.Join(err, Wrap("set aside", path, renamed))
	}
	slog.Warn("a file that only running builds need is damaged: it is set aside and begun anew",
		"path", path, "aside", Aside(path), "error", err.Error())
	return open(path, volatile, buckets)
}

// Aside is the name that a damaged file is set aside under.
func Aside(path string) string { return path + ".damaged" }

func open(path string, volatile bool, buckets [][]byte) (*bbolt.DB, error) {
	if err := Check(path); err != nil {
		return nil, damaged(path, err)
	}
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
		return nil, damaged(path, err)
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

func damaged(path string, cause error) error {
	return fault.SegmentDamage.At("open", path).
		Because(cause).
		Advise("move the file away, start again, and run for every index: unweaver restore --index NAME")
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
