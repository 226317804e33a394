// Package bolt is the embedded adapter of the classes port: one bbolt file for records, a second one without fsync for
// the state of runs (it survives the death of the process, not of the machine, and is rebuilt where it is damaged).
// Claims and limits live in memory, as the process is the only owner.
package bolt

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"syscall"
	"time"

	bbolt "go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/classes"
	"github.com/unweaver/unweaver/internal/store/records"
)

var (
	bRecords  = []byte("records")
	bMeta     = []byte("meta")
	bProgress = []byte("progress")
	bState    = []byte("state")
	bControl  = []byte("control")
	bLease    = []byte("lease")
	bMirror   = []byte("mirror")
)

// Store implements classes.Store.
type Store struct {
	memory
	db   *bbolt.DB // records
	run  *bbolt.DB // state of runs, no fsync
	path string
}

var _ classes.Store = (*Store)(nil)

// Open opens or makes the store at path; the state of runs lies beside it in path+".runs".
func Open(path string) (*Store, error) {
	db, err := open(path, false, bRecords, bMeta)
	if err != nil {
		return nil, err
	}
	run, err := open(path+".runs", true, bProgress, bState, bControl, bLease, bMirror)
	if err != nil && !fault.Is(err, fault.DataDirInUse) {
		// Volatile by contract: a damaged file costs the display of progress, nothing else.
		if rerr := os.Remove(path + ".runs"); rerr == nil {
			run, err = open(path+".runs", true, bProgress, bState, bControl, bLease, bMirror)
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &Store{db: db, run: run, path: path}
	s.init()
	return s, nil
}

func open(path string, volatile bool, buckets ...[]byte) (*bbolt.DB, error) {
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
		for _, b := range buckets {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(wrap("prepare", path, err), db.Close())
	}
	return db, nil
}

func wrap(op, object string, err error) error {
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

// Close closes both files.
func (s *Store) Close() error { return errors.Join(s.db.Close(), s.run.Close()) }

// Ping reads a page.
func (s *Store) Ping(context.Context) error {
	return wrap("read", s.path, s.db.View(func(*bbolt.Tx) error { return nil }))
}

// Identity is a random value kept with the records.
func (s *Store) Identity(context.Context) (string, error) {
	var id string
	err := s.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bMeta)
		if v := bucket.Get([]byte("identity")); v != nil {
			id = string(v)
			return nil
		}
		raw := make([]byte, 16)
		_, _ = rand.Read(raw) // never fails
		id = hex.EncodeToString(raw)
		return bucket.Put([]byte("identity"), []byte(id))
	})
	return id, wrap("identify", s.path, err)
}

// Own records the owner.
func (s *Store) Own(_ context.Context, storeID string) error {
	err := s.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bMeta)
		if v := bucket.Get([]byte("owner")); v != nil {
			if string(v) != storeID {
				return fault.StoreOwned.At("open", s.path).
					Because("it belongs to another artifact store").
					Advise("use a file of its own for each artifact store (stores.classes)")
			}
			return nil
		}
		return bucket.Put([]byte("owner"), []byte(storeID))
	})
	if fault.As(err) != nil {
		return err
	}
	return wrap("own", s.path, err)
}

// recordsPerTx bounds a transaction.
const recordsPerTx = 2000

// PutRecords implements records.Store.
func (s *Store) PutRecords(ctx context.Context, rs []records.Record) error {
	for len(rs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(recordsPerTx, len(rs))
		err := s.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bRecords)
			for _, r := range rs[:n] {
				if err := b.Put([]byte(r.Key), r.Value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return wrap("write records to", s.path, err)
		}
		rs = rs[n:]
	}
	return nil
}

// GetRecords implements records.Store.
func (s *Store) GetRecords(_ context.Context, keys []string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	err := s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bRecords)
		for i, k := range keys {
			if v := b.Get([]byte(k)); v != nil {
				out[i] = bytes.Clone(v)
			}
		}
		return nil
	})
	return out, wrap("read records of", s.path, err)
}

// DeleteRecords implements records.Store.
func (s *Store) DeleteRecords(_ context.Context, keys []string) error {
	return wrap("delete records of", s.path, s.db.Update(func(tx *bbolt.Tx) error {
		for _, k := range keys {
			if err := tx.Bucket(bRecords).Delete([]byte(k)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// ScanRecords implements records.Store.
func (s *Store) ScanRecords(ctx context.Context, prefix string, f func([]string) error) error {
	after := []byte(prefix)
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		var keys []string
		err := s.db.View(func(tx *bbolt.Tx) error {
			cursor := tx.Bucket(bRecords).Cursor()
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
			return wrap("scan", s.path, err)
		}
		if err := f(keys); err != nil {
			return err
		}
		after = []byte(keys[len(keys)-1])
	}
}

func (s *Store) put(bucket []byte, key string, v []byte) error {
	return wrap(
		"write",
		s.path,
		s.run.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte(key), v) }),
	)
}

func (s *Store) get(bucket []byte, key string) ([]byte, error) {
	var out []byte
	err := s.run.View(func(tx *bbolt.Tx) error {
		out = bytes.Clone(tx.Bucket(bucket).Get([]byte(key)))
		return nil
	})
	return out, wrap("read", s.path, err)
}

// SetProgress implements coordination.Runs.
func (s *Store) SetProgress(_ context.Context, run, field string, value []byte) error {
	return s.put(bProgress, run+"\x00"+field, value)
}

// Progress implements coordination.Runs.
func (s *Store) Progress(_ context.Context, run string) (map[string][]byte, error) {
	out := map[string][]byte{}
	prefix := []byte(run + "\x00")
	err := s.run.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bProgress).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix) && k != nil; k, v = c.Next() {
			out[string(k[len(prefix):])] = bytes.Clone(v)
		}
		return nil
	})
	return out, wrap("read", s.path, err)
}

// SetState implements coordination.Runs.
func (s *Store) SetState(_ context.Context, run string, v []byte) error { return s.put(bState, run, v) }

// State implements coordination.Runs.
func (s *Store) State(_ context.Context, run string) ([]byte, error) { return s.get(bState, run) }

// SetControl implements coordination.Runs.
func (s *Store) SetControl(_ context.Context, run string, v []byte) error {
	return s.put(bControl, run, v)
}

// Control implements coordination.Runs.
func (s *Store) Control(_ context.Context, run string) ([]byte, error) { return s.get(bControl, run) }

// ForgetRun implements coordination.Runs.
func (s *Store) ForgetRun(_ context.Context, run string) error {
	prefix := []byte(run + "\x00")
	return wrap("write", s.path, s.run.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bProgress).Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix) && k != nil; k, _ = c.Seek(prefix) {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return tx.Bucket(bControl).Delete([]byte(run))
	}))
}

// Lease implements coordination.Readers.
func (s *Store) Lease(_ context.Context, index, generation, reader string, ttl time.Duration) error {
	until := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(ttl).UnixMilli()))
	return s.put(bLease, index+"\x00"+generation+"\x00"+reader, until)
}

// Leased implements coordination.Readers.
func (s *Store) Leased(_ context.Context, index string) (map[string]bool, error) {
	out := map[string]bool{}
	now := uint64(time.Now().UnixMilli())
	prefix := []byte(index + "\x00")
	err := s.run.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bLease).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix) && k != nil; k, v = c.Next() {
			gen, _, _ := bytes.Cut(k[len(prefix):], []byte{0})
			if len(v) == 8 && binary.BigEndian.Uint64(v) > now {
				out[string(gen)] = true
			}
		}
		return nil
	})
	return out, wrap("read", s.path, err)
}

// Mirror implements coordination.Readers.
func (s *Store) Mirror(_ context.Context, index string, epoch int64, pointer []byte) error {
	return wrap("write", s.path, s.run.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bMirror)
		if old := bucket.Get([]byte(index)); len(old) >= 8 && int64(binary.BigEndian.Uint64(old)) > epoch {
			return nil
		}
		return bucket.Put([]byte(index), append(binary.BigEndian.AppendUint64(nil, uint64(epoch)), pointer...))
	}))
}

// Mirrored implements coordination.Readers.
func (s *Store) Mirrored(_ context.Context, index string) ([]byte, error) {
	raw, err := s.get(bMirror, index)
	if len(raw) < 8 {
		return nil, err
	}
	return raw[8:], err
}
