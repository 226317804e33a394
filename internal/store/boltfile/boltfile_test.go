package boltfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/boltfile"
)

func TestAFileIsMadeWithItsBucketsAndOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, buckets := range [][]string{{"a"}, {"a", "b"}} { // a later version has one more
		raw := make([][]byte, len(buckets))
		for i, name := range buckets {
			raw[i] = []byte(name)
		}
		db, err := boltfile.Open(path, false, raw...)
		require.NoError(t, err)
		assert.True(t, !db.NoSync && !db.NoGrowSync, "a transaction that has returned is not durable")
		err = db.Update(func(tx *bbolt.Tx) error {
			for _, name := range raw {
				bucket := tx.Bucket(name)
				if bucket == nil {
					return fmt.Errorf("there is no bucket %s", name)
				}
				if err := bucket.Put([]byte("k"), []byte("v")); err != nil {
					return err
				}
			}
			return nil
		})
		err = errors.Join(err, db.Close())
		assert.NoError(t, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", st.Mode(), err)
	}
}

func TestFailuresNameTheFileAndTheWayOut(t *testing.T) {
	for failure, want := range map[error]fault.Code{
		syscall.ENOSPC:                               fault.StoreFull,
		fmt.Errorf("write: %w", syscall.ENOSPC):      fault.StoreFull,
		syscall.EIO:                                  fault.StoreDown,
		errors.New("something that is not an errno"): fault.StoreDown,
	} {
		err := boltfile.Wrap("write", "the/file", failure)
		assert.True(t, fault.Is(err, want) && fault.As(err).Object == "the/file" && errors.Is(err, failure),
			"%v: got %v", failure, err)
	}
	assert.NoError(t, boltfile.Wrap("write", "the/file", nil), "no failure gave")
}
