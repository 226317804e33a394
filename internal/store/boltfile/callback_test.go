package boltfile_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"
	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/store/boltfile"
)

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
