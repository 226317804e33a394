package boltfile

import (
	"context"
	"encoding/binary"
	"errors"

	bbolt "go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"
)

// scrubBucket holds what overwrites free pages while Scrub works.
var scrubBucket = []byte("scrub")

// scrubPages bounds a transaction.
const scrubPages = 4096

// Scrub overwrites the pages of a file that are free: they hold bytes of what was deleted until something takes their
// place. It fills them with zeros, and gives them back. The file grows by some pages. It may be repeated, and ended at
// any point.
func Scrub(ctx context.Context, db *bbolt.DB, path string) error {
	err := Update(db, "scrub", path, func(tx *bbolt.Tx) error { // frees what the last transactions gave up
		err := tx.DeleteBucket(scrubBucket) // of one that ended early
		if errors.Is(err, bberrors.ErrBucketNotFound) {
			err = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	size := db.Info().PageSize
	zeros := make([]byte, size*2/5) // two of them fill a page
	stats := db.Stats()
	left := stats.FreePageN + stats.PendingPageN + 2
	for number := uint64(0); left > 0; left -= scrubPages {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := Update(db, "scrub", path, func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists(scrubBucket)
			if err != nil {
				return err
			}
			bucket.FillPercent = 1
			for range 2 * min(left, scrubPages) {
				number++
				if err := bucket.Put(binary.BigEndian.AppendUint64(nil, number), zeros); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return Update(db, "scrub", path, func(tx *bbolt.Tx) error { return tx.DeleteBucket(scrubBucket) })
}
