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

func TestAWholeFileIsWhole(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(whole, filledFile(t), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{whole, empty, filepath.Join(t.TempDir(), "absent")} {
		assert.NoError(t, boltfile.Check(path))
	}
}

// torn returns the ways in which a machine that lost power leaves a file that was not synced.
func torn(raw []byte) map[string][]byte {
	zero := func(every, from int) []byte {
		out := append([]byte(nil), raw...)
		for at := from * page; at < len(out); at += every * page {
			clear(out[at:min(len(out), at+page)])
		}
		return out
	}
	return map[string][]byte{
		"all data pages zeroed": zero(1, 2), "every second page zeroed": zero(2, 2), "every other page zeroed": zero(2, 3),
		"cut in half": raw[:len(raw)/2], "cut to its meta pages": raw[:2*page], "no page at all": raw[:100],
		"meta pages zeroed": append(make([]byte, 2*page), raw[2*page:]...),
	}
}

func TestATornVolatileFileIsSetAsideAndBegunAnew(t *testing.T) {
	for name, damaged := range torn(filledFile(t)) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			db, err := boltfile.Open(path, true, []byte("a"))
			require.NoError(t, err)
			defer func() { _ = db.Close() }()
			aside, err := os.ReadFile(boltfile.DamagedPath(path))
			assert.True(t, err == nil && len(aside) == len(damaged), "%d bytes are aside, %v", len(aside), err)
			err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("a")).Put([]byte("k"), []byte("v")) })
			assert.NoError(t, err)
		})
	}
}

func TestAFileThatAnotherHoldsIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	db, err := boltfile.Open(path, true, []byte("a"))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = boltfile.Open(path, true, []byte("a"))
	assert.True(t, fault.Is(err, fault.DataDirInUse), "got %v", err)
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
		"a panic": func(*bbolt.Tx) error { panic("ours") },
		"an index that is none": func(*bbolt.Tx) error {
			none[len(path)]++
			return nil
		},
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
