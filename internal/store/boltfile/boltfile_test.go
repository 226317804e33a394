package boltfile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/boltfile"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestAFileIsMadeWithItsBucketsAndOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, buckets := range [][][]byte{{[]byte("a")}, {[]byte("a"), []byte("b")}} { // a later version has one more
		db := musttest.Get(boltfile.Open(path, false, buckets...))(t)
		assert.True(t, !db.NoSync && !db.NoGrowSync, "a transaction that has returned is not durable")
		err := boltfile.Update(db, "write", path, func(tx *bbolt.Tx) (err error) {
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
	db := musttest.Get(boltfile.Open(path, true, []byte("a")))(t)
	defer func() { _ = db.Close() }()
	musttest.Refuse(boltfile.Open(path, true, []byte("a")))(t, fault.DataDirInUse)
	assert.Error(t, musttest.Err(os.Stat(boltfile.DamagedPath(path))), "a file in use was set aside")
}

// A file that cannot be reached may be whole: it is neither called damaged nor set aside.
func TestAFileThatCannotBeReachedIsNotCalledDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	require.NoError(t, os.Mkdir(path, 0o700))
	for _, replaceable := range []bool{false, true} {
		_, err := boltfile.Open(path, replaceable, []byte("a"))
		assert.True(t, err != nil && !fault.Is(err, fault.SegmentDamage), "replaceable %v: %v", replaceable, err)
		assert.NoError(t, musttest.Err(os.Stat(path)), "replaceable %v: it was set aside", replaceable)
	}
}

const page = 4096

var bucket = []byte("b")

// filledFile returns a file with leaves, branches, values that are longer than a page and a bucket within a bucket.
func filledFile(t *testing.T) []byte {
	path := filepath.Join(t.TempDir(), "f")
	db, err := boltfile.Open(path, false, bucket, []byte("outer"))
	require.NoError(t, err)
	for round := range 3 {
		err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error {
			for i := range 400 {
				value := bytes.Repeat([]byte{byte(round)}, 100+i%7*40)
				if i == 200 {
					value = make([]byte, 3*page)
				}
				if err := tx.Bucket(bucket).Put(fmt.Appendf(nil, "key-%05d", i), value); err != nil {
					return err
				}
			}
			inner, err := tx.Bucket([]byte("outer")).CreateBucketIfNotExists([]byte("inner"))
			return errors.Join(err, inner.Put([]byte("large"), make([]byte, 5*page)))
		}))
	}
	require.NoError(t, errors.Join(err, db.Close()))
	raw, err := os.ReadFile(path)
	require.True(t, err == nil && len(raw) >= 20*page, "%d bytes, %v", len(raw), err)
	return raw
}

// opens reports whether a file with these bytes opens and gives its values; it must never panic.
func opens(t *testing.T, path string, raw []byte) (int, error) {
	_ = os.Remove(path) // one that bbolt stumbled over stays locked
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	db, err := boltfile.Open(path, false, bucket)
	if err != nil {
		return 0, err
	}
	n := 0
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, _ []byte) error { n++; return nil })
	})
	return n, errors.Join(err, db.Close())
}

// A disk that lost pages, or swapped them, must not end the process: bbolt alone panics on these in a goroutine of its
// own, or reads outside of the file.
func TestATornFileIsAnErrorThatNamesItNotAPanic(t *testing.T) {
	whole := filledFile(t)
	path := filepath.Join(t.TempDir(), "torn")
	n, err := opens(t, path, whole)
	require.True(t, n == 400 && err == nil, "the whole file has %d values, %v", n, err)
	pages := len(whole) / page
	zeros := make([]byte, len(whole))
	damages := map[string][]byte{
		"data pages zeroed": slices.Concat(whole[:2*page], zeros[2*page:]), "all zeroed": zeros,
		"meta pages zeroed": slices.Concat(zeros[:2*page], whole[2*page:]), "cut": whole[:len(whole)/2],
		"cut to its meta pages": whole[:2*page], "cut in a page": whole[:5*page+77], "cut in the first": whole[:100],
	}
	random := rand.New(rand.NewPCG(5, 22))
	for i := range pages {
		rubbish := make([]byte, 48)
		for j := range rubbish {
			rubbish[j] = byte(random.Uint32())
		}
		for how, piece := range map[string][]byte{
			"zeroed": zeros[:page], "of another place": whole[random.IntN(pages)*page:][:page], "with a rubbish header": rubbish,
		} {
			raw := bytes.Clone(whole)
			copy(raw[i*page:], piece)
			damages[fmt.Sprintf("page %d %s", i, how)] = raw
		}
	}
	refused := 0
	for what, raw := range damages {
		_, err := opens(t, path, raw)
		if err == nil {
			continue // a page that nothing refers to
		}
		refused++
		left, _ := os.ReadFile(path)
		assert.True(t, fault.Is(err, fault.SegmentDamage) && fault.As(err).Object == path && bytes.Equal(left, raw) &&
			strings.Contains(err.Error(), "unweaver restore "), "%s: got %v", what, err)
		if strings.HasPrefix(what, "page") {
			continue
		}
		db, err := boltfile.Open(path, true, bucket) // a volatile one is set aside and begun anew
		require.NoError(t, err, what)
		aside, err := os.ReadFile(boltfile.DamagedPath(path))
		assert.True(t, err == nil && bytes.Equal(aside, raw), "%s: %d bytes are aside, %v", what, len(aside), err)
		write := func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte("k"), []byte("v")) }
		assert.NoError(t, errors.Join(db.Update(write), db.Close()), what)
	}
	assert.True(t, refused >= pages/2, "of %d damages %d were seen", len(damages), refused)
}

func TestAFileThatWasNotFinishedIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path+".new", []byte("half of a page"), 0o600))
	assert.NoError(t, musttest.Get(boltfile.Open(path, false, bucket))(t).Close())
	_, err := os.Lstat(path + ".new")
	assert.True(t, errors.Is(err, os.ErrNotExist), "it is still there: %v", err)
}

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
