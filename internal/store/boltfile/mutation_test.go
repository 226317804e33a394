package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/boltfile"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
)

// mutations returns how many mutations of a real file are used.
func mutations() int { return longtest.Count(60, 2000) }

// mutate changes a few bytes, numbers or pages; half of the time within the headers that bbolt goes by.
func mutate(whole []byte, random *rand.Rand) []byte {
	raw := bytes.Clone(whole)
	for range 1 + random.IntN(3) {
		at := random.IntN(len(raw) - 8)
		if random.IntN(2) == 0 {
			at = at/page*page + random.IntN(16+16*8)
		}
		at = min(at, len(raw)-8)
		switch random.IntN(6) {
		case 0:
			raw[at] ^= 1 << random.IntN(8)
		case 1:
			raw[at] = byte(random.Uint32())
		case 2:
			binary.LittleEndian.PutUint16(raw[at:], uint16(random.Uint32()))
		case 3:
			binary.LittleEndian.PutUint32(raw[at:], uint32(random.IntN(2*len(raw)/page)))
		case 4:
			binary.LittleEndian.PutUint64(raw[at:], random.Uint64())
		default:
			copy(raw[at/page*page:], whole[random.IntN(len(whole)/page)*page:][:page])
		}
	}
	return raw
}

// use reads everything in a file, writes into it, deletes, and reads again.
func use(path string) (err error) {
	db, err := boltfile.Open(path, false, bucket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, boltfile.Close(db)) }()
	read := func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, all *bbolt.Bucket) error {
			return all.ForEach(func(key, value []byte) error {
				_, _ = len(bytes.Clone(key)), len(bytes.Clone(value))
				return nil
			})
		})
	}
	write := func(tx *bbolt.Tx) error {
		all := tx.Bucket(bucket)
		for i := range 60 {
			if err := all.Put(fmt.Appendf(nil, "key-%05d", i*9), bytes.Repeat([]byte("x"), 90+i*40)); err != nil {
				return err
			}
			if err := all.Delete(fmt.Appendf(nil, "key-%05d", 100+i*3)); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.Join(boltfile.View(db, "read", path, read), boltfile.Update(db, "write", path, write),
		boltfile.Update(db, "write", path, write), boltfile.View(db, "read", path, read))
}

// Whatever a disk made of a file: it is used, or refused with its name; the process goes on.
func TestAMutatedFileIsUsedOrNamed(t *testing.T) {
	whole := filledFile(t)
	path := filepath.Join(t.TempDir(), "mutated")
	random := rand.New(rand.NewPCG(3, 14))
	used, refused, stumbled := 0, 0, 0
	for i := range mutations() {
		_ = os.Remove(path)
		require.NoError(t, os.WriteFile(path, mutate(whole, random), 0o600))
		err := use(path)
		switch {
		case err == nil:
			used++
		case fault.Is(err, fault.SegmentDamage) && fault.As(err).Object == path:
			refused++
			if fault.As(err).Op != "open" {
				stumbled++
				t.Logf("mutation %d: found in use: %v", i, err)
			}
		default:
			t.Errorf("mutation %d: %v", i, err)
		}
	}
	t.Logf("%d used, %d refused, %d of them while in use", used, refused, stumbled)
	assert.True(t, used != 0 && refused != 0, "the mutations change nothing, or everything")
}

// What bbolt stumbles over in a transaction is damage, for those that come after too: none waits for its locks.
func TestAPanicWithinATransactionIsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	db, err := boltfile.Open(path, false, bucket)
	require.NoError(t, err)
	stumble := func(tx *bbolt.Tx) error { return tx.Bucket([]byte("none")).Put([]byte("k"), []byte("v")) }
	for range 2 {
		err = boltfile.Update(db, "write", path, stumble) // bbolt panics of a bucket that is none
		assert.True(t, fault.Is(err, fault.SegmentDamage) && fault.As(err).Object == path && fault.As(err).Hint != "",
			"a write: %v", err)
		err = boltfile.View(db, "read", path, func(*bbolt.Tx) error { return nil })
		assert.True(t, fault.Is(err, fault.SegmentDamage), "a read after it: %v", err)
	}
	assert.NoError(t, boltfile.Close(db))
}
