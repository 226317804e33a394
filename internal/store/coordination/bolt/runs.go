package bolt

import (
	"bytes"
	"context"
	"errors"
	"strings"

	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/store/boltfile"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

func (s *Store) updateStore(f func(tx *bbolt.Tx) error) error {
	return boltfile.Update(s.db, "write", s.path, f)
}

func (s *Store) viewStore(f func(tx *bbolt.Tx) error) error {
	return boltfile.View(s.db, "read", s.path, f)
}

func (s *Store) put(bucket []byte, key string, value []byte) error {
	return s.updateStore(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte(key), value) })
}

func (s *Store) get(bucket []byte, key string) ([]byte, error) {
	var out []byte
	err := s.viewStore(func(tx *bbolt.Tx) error {
		out = bytes.Clone(tx.Bucket(bucket).Get([]byte(key)))
		return nil
	})
	return out, err
}

// prefixOf returns what the keys of the fields of a run begin with.
func prefixOf(run string) []byte { return []byte(run + "\x00") }

// fieldsOf reads the fields of a run.
func fieldsOf(tx *bbolt.Tx, bucket []byte, run string) map[string][]byte {
	out, prefix := map[string][]byte{}, prefixOf(run)
	cursor := tx.Bucket(bucket).Cursor()
	for key, value := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, value = cursor.Next() {
		out[string(key[len(prefix):])] = bytes.Clone(value)
	}
	return out
}

func (s *Store) readFields(bucket []byte, run string) (map[string][]byte, error) {
	var out map[string][]byte
	err := s.viewStore(func(tx *bbolt.Tx) error {
		out = fieldsOf(tx, bucket, run)
		return nil
	})
	return out, err
}

// SetProgress implements coordination.Runs.
func (s *Store) SetProgress(_ context.Context, run, field string, value []byte) error {
	return s.put(progressBucket, run+"\x00"+field, value)
}

// ReadProgress implements coordination.Runs.
func (s *Store) ReadProgress(_ context.Context, run string) (map[string][]byte, error) {
	return s.readFields(progressBucket, run)
}

// SetProblem implements coordination.Runs.
func (s *Store) SetProblem(_ context.Context, run, key string, value []byte) error {
	if value != nil {
		return s.put(problemBucket, run+"\x00"+key, value)
	}
	return s.updateStore(func(tx *bbolt.Tx) error { return tx.Bucket(problemBucket).Delete([]byte(run + "\x00" + key)) })
}

// ReadProblems implements coordination.Runs.
func (s *Store) ReadProblems(_ context.Context, run string) (map[string][]byte, error) {
	return s.readFields(problemBucket, run)
}

// ReadAccounts implements coordination.Runs.
func (s *Store) ReadAccounts(_ context.Context, run string) (map[string][]byte, error) {
	return s.readFields(accountBucket, run)
}

// ExchangeAccount implements coordination.Runs.
func (s *Store) ExchangeAccount(
	_ context.Context, run, worker string, value []byte,
) (control []byte, all map[string][]byte, err error) {
	err = s.updateStore(func(tx *bbolt.Tx) error {
		if err := tx.Bucket(accountBucket).Put([]byte(run+"\x00"+worker), value); err != nil {
			return err
		}
		control = bytes.Clone(tx.Bucket(controlBucket).Get([]byte(run)))
		all = fieldsOf(tx, accountBucket, run)
		return nil
	})
	return control, all, err
}

// SetState implements coordination.Runs.
func (s *Store) SetState(_ context.Context, run string, value []byte) error {
	return s.put(stateBucket, run, value)
}

// ReadState implements coordination.Runs.
func (s *Store) ReadState(_ context.Context, run string) ([]byte, error) {
	return s.get(stateBucket, run)
}

// SetControl implements coordination.Runs.
func (s *Store) SetControl(_ context.Context, run string, value []byte) error {
	return s.put(controlBucket, run, value)
}

// ReadControl implements coordination.Runs.
func (s *Store) ReadControl(_ context.Context, run string) ([]byte, error) {
	return s.get(controlBucket, run)
}

// ForgetIndex implements coordination.Runs.
func (s *Store) ForgetIndex(_ context.Context, index string) error {
	return s.updateStore(func(tx *bbolt.Tx) error {
		for _, bucket := range buckets {
			var gone [][]byte
			err := tx.Bucket(bucket).ForEach(func(key, _ []byte) error {
				name, _, _ := strings.Cut(string(key), "\x00")
				if name == index || coordination.RunOf(name, index) {
					gone = append(gone, bytes.Clone(key))
				}
				return nil
			})
			for _, key := range gone {
				err = errors.Join(err, tx.Bucket(bucket).Delete(key))
			}
			if err != nil {
				return err
			}
		}
		_, err := tx.Bucket(mirrorBucket).NextSequence()
		return err
	})
}

// ForgetRun implements coordination.Runs.
func (s *Store) ForgetRun(_ context.Context, run string) error {
	prefix := prefixOf(run)
	return s.updateStore(func(tx *bbolt.Tx) error {
		for _, bucket := range [][]byte{progressBucket, problemBucket, accountBucket} {
			cursor := tx.Bucket(bucket).Cursor()
			for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Seek(prefix) {
				if err := cursor.Delete(); err != nil {
					return err
				}
			}
		}
		return tx.Bucket(controlBucket).Delete([]byte(run))
	})
}
