// Package bolt is the embedded coordination adapter: one bbolt file for the state of runs, synced at every transaction,
// as what a run has spent and that it was paused must outlast a loss of power. It is set aside and begun again where it
// is damaged. Claims, limits and the fleet live in memory, as the process is their only owner.
// Quotas do too; answers, tokens and money are written to the file as well.
package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/store/boltfile"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

var (
	progressBucket = []byte("progress")
	problemBucket  = []byte("problem")
	accountBucket  = []byte("account")
	stateBucket    = []byte("state")
	controlBucket  = []byte("control")
	leaseBucket    = []byte("lease")
	mirrorBucket   = []byte("mirror")
	quotaBucket    = []byte("quota")
)

var buckets = [][]byte{
	progressBucket, problemBucket, accountBucket, stateBucket, controlBucket, leaseBucket, mirrorBucket,
	quotaBucket,
}

// Store implements coordination.Store.
type Store struct {
	*memory.Claims
	*memory.Fleet
	*memory.Quotas
	db   *bbolt.DB
	path string
}

var _ coordination.Store = (*Store)(nil)

// Open opens or makes the file at path.
func Open(path string) (*Store, error) {
	// A damaged file costs what running builds know of themselves, nothing else.
	db, err := boltfile.Open(path, true, buckets...)
	if err != nil {
		return nil, err
	}
	store := &Store{Claims: memory.NewClaims(), Fleet: memory.NewFleet(), db: db, path: path}
	store.Quotas = memory.NewQuotas(store.saveQuota)
	if err := store.loadQuotas(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// Close closes the file.
func (s *Store) Close() error { return boltfile.Close(s.db) }

// Scrub overwrites bytes of what was deleted that the file keeps until it needs their place.
func (s *Store) Scrub(ctx context.Context) error { return boltfile.Scrub(ctx, s.db, s.path) }

// Lease implements coordination.Readers, in one transaction.
func (s *Store) Lease(_ context.Context, held []coordination.Held, reader string, ttl time.Duration) error {
	until := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(ttl).UnixMilli()))
	return s.updateStore(func(tx *bbolt.Tx) error {
		for _, one := range held {
			key := one.Index + "\x00" + one.Generation + "\x00" + reader
			if err := tx.Bucket(leaseBucket).Put([]byte(key), until); err != nil {
				return err
			}
		}
		return nil
	})
}

// ListLeased implements coordination.Readers.
func (s *Store) ListLeased(_ context.Context, index string) (map[string]bool, error) {
	out := map[string]bool{}
	now := uint64(time.Now().UnixMilli())
	prefix := []byte(index + "\x00")
	err := s.viewStore(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(leaseBucket).Cursor()
		for key, until := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, until = cursor.Next() {
			generation, _, _ := bytes.Cut(key[len(prefix):], []byte{0})
			if len(until) == 8 && binary.BigEndian.Uint64(until) > now {
				out[string(generation)] = true
			}
		}
		return nil
	})
	return out, err
}

// Mirror implements coordination.Readers.
func (s *Store) Mirror(_ context.Context, index string, pointer []byte) error {
	return s.updateStore(func(tx *bbolt.Tx) error {
		if _, err := tx.Bucket(mirrorBucket).NextSequence(); err != nil {
			return err
		}
		return tx.Bucket(mirrorBucket).Put([]byte(index), pointer)
	})
}

// ReadMirrors implements coordination.Readers.
func (s *Store) ReadMirrors(_ context.Context, known string) (version string, pointers map[string][]byte, err error) {
	err = s.viewStore(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(mirrorBucket)
		if version = strconv.FormatUint(bucket.Sequence(), 10); version == known {
			return nil
		}
		pointers = map[string][]byte{}
		return bucket.ForEach(func(index, pointer []byte) error {
			pointers[string(index)] = bytes.Clone(pointer)
			return nil
		})
	})
	return version, pointers, err
}

// ReadMirror implements coordination.Readers.
func (s *Store) ReadMirror(_ context.Context, index string) ([]byte, error) {
	return s.get(mirrorBucket, index)
}
