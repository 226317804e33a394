package boltfile_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/boltfile"
)

// filled makes a file with small and large values, several pages deep, and a bucket within a bucket.
func filled(t *testing.T, path string, volatile bool) []byte {
	t.Helper()
	db, err := boltfile.Open(path, volatile, []byte("a"), []byte("b"))
	require.NoError(t, err)
	for round := range 4 {
		err = db.Update(func(tx *bbolt.Tx) error {
			for i := range 400 {
				key := fmt.Appendf(nil, "key-%03d-%d", i, round)
				if err := tx.Bucket([]byte("a")).Put(key, make([]byte, 20+i)); err != nil {
					return err
				}
			}
			inner, err := tx.Bucket([]byte("b")).CreateBucketIfNotExists([]byte("inner"))
			if err != nil {
				return err
			}
			return inner.Put([]byte("large"), make([]byte, 20_000))
		})
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	return raw
}

func TestAWholeFileIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for range 3 {
		filled(t, path, true)
		require.NoError(t, boltfile.Check(path))
	}
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{empty, filepath.Join(t.TempDir(), "absent")} {
		assert.NoError(t, boltfile.Check(path))
	}
}

// torn returns the ways in which a machine that lost power leaves a file that was not synced.
func torn(raw []byte) map[string][]byte {
	page := os.Getpagesize()
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
	raw := filled(t, filepath.Join(t.TempDir(), "f"), true)
	for name, damaged := range torn(raw) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			db, err := boltfile.Open(path, true, []byte("a"))
			require.NoError(t, err)
			defer func() { _ = db.Close() }()
			if aside, err := os.ReadFile(boltfile.DamagedPath(path)); err != nil || len(aside) != len(damaged) {
				t.Errorf("%d bytes are aside, %v", len(aside), err)
			}
			err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("a")).Put([]byte("k"), []byte("v")) })
			assert.NoError(t, err)
		})
	}
}

func TestATornFileThatCountsIsNamedWithItsWayBack(t *testing.T) {
	raw := filled(t, filepath.Join(t.TempDir(), "f"), false)
	for name, damaged := range torn(raw) {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		_, err := boltfile.Open(path, false, []byte("a"))
		if !fault.Is(err, fault.SegmentDamage) || !strings.Contains(err.Error(), "unweaver restore ") ||
			fault.As(err).Object != path {
			t.Errorf("%s: %v", name, err)
		}
		left, _ := os.ReadFile(path)
		assert.True(t, len(left) == len(damaged), "%s: the file was touched", name)
	}
}

// What Check lets through must not make bbolt panic: it does so in goroutines that cannot be guarded.
func TestNoFlippedBitsOfHeadersGetPastTheCheckAndPanic(t *testing.T) {
	raw := filled(t, filepath.Join(t.TempDir(), "f"), true)
	page := os.Getpagesize()
	random := rand.New(rand.NewPCG(3, 9))
	refused := 0
	for range 120 {
		damaged := append([]byte(nil), raw...)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(raw)/page)*page + random.IntN(120) // the header and the first elements
			if random.IntN(3) == 0 {
				at = random.IntN(len(raw) - 8)
			}
			if random.IntN(4) == 0 {
				binary.LittleEndian.PutUint64(damaged[at:], random.Uint64())
			} else {
				damaged[at] ^= 1 << random.IntN(8)
			}
		}
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		if boltfile.Check(path) != nil {
			refused++
			continue
		}
		db, err := boltfile.Open(path, true, []byte("a"), []byte("b"))
		require.NoError(t, err)
		err = db.View(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
				return bucket.ForEach(func(_, _ []byte) error { return nil })
			})
		})
		assert.NoError(t, err)
		assert.NoError(t, db.Close())
	}
	assert.True(t, refused >= 20 && refused <= 110, "%d of 120 were refused", refused)
}

func TestAFileThatAnotherHoldsIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	db, err := boltfile.Open(path, true, []byte("a"))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	if _, err := boltfile.Open(path, true, []byte("a")); !fault.Is(err, fault.DataDirInUse) {
		t.Errorf("got %v", err)
	}
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
