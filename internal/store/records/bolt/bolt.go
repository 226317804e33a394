// Package bolt is the embedded records adapter: one bbolt file, synced at every transaction.
package bolt

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"

	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/boltfile"
	"github.com/unweaver/unweaver/internal/store/records"
)

var (
	recordsBucket = []byte("records")
	metaBucket    = []byte("meta")
)

// Store implements records.Store.
type Store struct {
	db   *bbolt.DB
	path string
}

var _ records.Store = (*Store)(nil)

// Open opens or makes the store at path.
func Open(path string) (*Store, error) {
	db, err := boltfile.Open(path, false, recordsBucket, metaBucket)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, path: path}, nil
}

// Close closes the file.
func (s *Store) Close() error { return boltfile.Close(s.db) }

// Ping reads a page.
func (s *Store) Ping(context.Context) error {
	return boltfile.View(s.db, "read", s.path, func(*bbolt.Tx) error { return nil })
}

// Identity returns a random value kept with the records.
func (s *Store) Identity(context.Context) (string, error) {
	var id string
	err := boltfile.Update(s.db, "identify", s.path, func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(metaBucket)
		if v := bucket.Get([]byte("identity")); v != nil {
			id = string(v)
			return nil
		}
		id = rand.Text()
		return bucket.Put([]byte("identity"), []byte(id))
	})
	return id, err
}

// RecordOwner records the owner.
func (s *Store) RecordOwner(_ context.Context, storeID string) error {
	return boltfile.Update(s.db, "own", s.path, func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(metaBucket)
		if v := bucket.Get([]byte("owner")); v != nil {
			if string(v) != storeID {
				return fault.StoreOwned.At("open", s.path).
					Because("it belongs to another artifact store").
					Advise("if store.json of this artifact store was lost, write {\"id\":\"" + string(v) + "\"} into it; " +
						"otherwise use a separate file for each artifact store (stores.classes)")
			}
			return nil
		}
		return bucket.Put([]byte("owner"), []byte(storeID))
	})
}

// recordsPerTx bounds a transaction: what it holds in memory, and how long others wait for it.
const recordsPerTx = 2000

// updateEach writes something for each of many items, so many in a transaction.
func updateEach[T any](
	ctx context.Context, s *Store, op string, items []T, write func(bucket *bbolt.Bucket, item T) error,
) error {
	for part := range slices.Chunk(items, recordsPerTx) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := boltfile.Update(s.db, op, s.path, func(tx *bbolt.Tx) error {
			bucket := tx.Bucket(recordsBucket)
			for _, item := range part {
				if err := write(bucket, item); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// PutRecords implements records.Store.
func (s *Store) PutRecords(ctx context.Context, rs []records.Record) error {
	return updateEach(ctx, s, "write records to", rs, func(bucket *bbolt.Bucket, record records.Record) error {
		return bucket.Put([]byte(record.Key), record.Value)
	})
}

// GetRecords implements records.Store.
func (s *Store) GetRecords(_ context.Context, keys []string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	err := boltfile.View(s.db, "read records of", s.path, func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(recordsBucket)
		for i, key := range keys {
			if value := bucket.Get([]byte(key)); value != nil {
				out[i] = bytes.Clone(value)
			}
		}
		return nil
	})
	return out, err
}

// DeleteRecords implements records.Store.
func (s *Store) DeleteRecords(ctx context.Context, keys []string) error {
	return updateEach(ctx, s, "delete records of", keys, func(bucket *bbolt.Bucket, key string) error {
		return bucket.Delete([]byte(key))
	})
}

// ScanRecords implements records.Store.
func (s *Store) ScanRecords(ctx context.Context, prefix string, f func([]string) error) error {
	after := []byte(prefix)
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		var keys []string
		err := boltfile.View(s.db, "scan", s.path, func(tx *bbolt.Tx) error {
			cursor := tx.Bucket(recordsBucket).Cursor()
			raw, _ := cursor.Seek(after)
			if !first && bytes.Equal(raw, after) {
				raw, _ = cursor.Next()
			}
			for ; bytes.HasPrefix(raw, []byte(prefix)) && raw != nil && len(keys) < recordsPerTx; raw, _ = cursor.Next() {
				keys = append(keys, string(raw))
			}
			return nil
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		if err := f(keys); err != nil {
			return err
		}
		after = []byte(keys[len(keys)-1])
	}
}

// Scrub implements records.Scrubber.
func (s *Store) Scrub(ctx context.Context) error { return boltfile.Scrub(ctx, s.db, s.path) }
