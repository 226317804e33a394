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
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestAFileIsMadeWithItsBucketsAndOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, buckets := range [][][]byte{{[]byte("a")}, {[]byte("a"), []byte("b")}} { // a later version has one more
		db, err := boltfile.Open(path, false, buckets...)
		require.NoError(t, err)
		assert.True(t, !db.NoSync && !db.NoGrowSync, "a transaction that has returned is not durable")
		err = boltfile.Update(db, "write", path, func(tx *bbolt.Tx) (err error) {
			for _, name := range buckets {
				err = errors.Join(err, tx.Bucket(name).Put([]byte("k"), []byte("v")))
			}
			return err
		})
		assert.NoError(t, errors.Join(err, db.Close()))
	}
	st, err := os.Stat(path)
	assert.True(t, err == nil && st.Mode().Perm() == 0o600, "others may read it: %v, %v", st.Mode(), err)
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

func TestAWholeFileIsWhole(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(whole, filledFile(t), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{whole, empty, filepath.Join(t.TempDir(), "absent")} {
		assert.NoError(t, boltfile.Check(path))
	}
}

func TestAFileThatAnotherHoldsIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	db, err := boltfile.Open(path, true, []byte("a"))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	musttest.Refuse(boltfile.Open(path, true, []byte("a")))(t, fault.DataDirInUse)
	_, err = os.Stat(boltfile.DamagedPath(path))
	assert.Error(t, err, "a file in use was set aside")
}

// A file that cannot be reached may be whole: it is neither called damaged nor set aside.
func TestAFileThatCannotBeReachedIsNotCalledDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	require.NoError(t, os.Mkdir(path, 0o700))
	for _, replaceable := range []bool{false, true} {
		_, err := boltfile.Open(path, replaceable, []byte("a"))
		assert.True(t, err != nil && !fault.Is(err, fault.SegmentDamage), "replaceable %v: %v", replaceable, err)
		_, err = os.Stat(path)
		assert.NoError(t, err, "replaceable %v: it was set aside", replaceable)
	}
}

// panics says what f panicked of; nil: it did not.
func panics(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

func TestAMistakeOfACallerIsNoDamageOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	db, err := boltfile.Open(path, false, bucket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = boltfile.Close(db) })
	write := func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte("k"), []byte("v")) }
	require.NoError(t, boltfile.Update(db, "write", path, write))
	var none []int
	for name, mistake := range map[string]func(tx *bbolt.Tx) error{
		"a panic":               func(*bbolt.Tx) error { panic("ours") },
		"an index that is none": func(*bbolt.Tx) error { none[len(path)]++; return nil },
		"in a loop of bbolt": func(tx *bbolt.Tx) error {
			return tx.Bucket(bucket).ForEach(func(_, _ []byte) error { panic("ours") })
		},
	} {
		for kind, do := range map[string]func(*bbolt.DB, string, string, func(*bbolt.Tx) error) error{
			"view": boltfile.View, "update": boltfile.Update,
		} {
			assert.True(t, panics(func() { err = do(db, "try", path, mistake) }) != nil,
				"%s in a %s came to %v", name, kind, err)
			require.NoError(t, boltfile.Update(db, "write", path, write), "after %s in a %s", name, kind)
		}
	}
}
