package boltfile_test

import (
	"bytes"
	"errors"
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

const page = 4096

var bucket = []byte("b")

// filledFile returns a file with leaves, branches, values that are longer than a page and a bucket within a bucket.
func filledFile(t *testing.T) []byte {
	t.Helper()
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
	err = errors.Join(err, db.Close())
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.True(t, err == nil && len(raw) >= 20*page, "%d bytes, %v", len(raw), err)
	return raw
}

// opens reports whether a file with these bytes opens and gives its values; it must never panic.
func opens(t *testing.T, path string, raw []byte) (int, error) {
	t.Helper()
	_ = os.Remove(path) // one that bbolt stumbled over stays locked
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	db, err := boltfile.Open(path, false, bucket)
	if err != nil {
		return 0, err
	}
	n := 0
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, _ []byte) error {
			n++
			return nil
		})
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
	damages := map[string]func() []byte{
		"data pages zeroed": func() []byte { return append(bytes.Clone(whole[:2*page]), make([]byte, len(whole)-2*page)...) },
		"all zeroed":        func() []byte { return make([]byte, len(whole)) },
		"cut":               func() []byte { return whole[:len(whole)/2] },
		"cut in a page":     func() []byte { return whole[:5*page+77] },
		"cut in the first":  func() []byte { return whole[:100] },
	}
	random := rand.New(rand.NewPCG(5, 22))
	for i := range pages {
		damages[fmt.Sprintf("page %d zeroed", i)] = func() []byte {
			raw := bytes.Clone(whole)
			clear(raw[i*page : (i+1)*page])
			return raw
		}
		damages[fmt.Sprintf("page %d of another place", i)] = func() []byte {
			raw := bytes.Clone(whole)
			copy(raw[i*page:(i+1)*page], whole[random.IntN(pages)*page:][:page])
			return raw
		}
		damages[fmt.Sprintf("page %d with a rubbish header", i)] = func() []byte {
			raw := bytes.Clone(whole)
			for j := range 48 {
				raw[i*page+j] = byte(random.Uint32())
			}
			return raw
		}
	}
	refused := 0
	for what, damaged := range damages {
		raw := damaged()
		_, err := opens(t, path, raw)
		if err == nil {
			continue // a page that nothing refers to
		}
		refused++
		left, _ := os.ReadFile(path)
		assert.True(t, fault.Is(err, fault.SegmentDamage) && fault.As(err).Object == path && bytes.Equal(left, raw) &&
			strings.Contains(err.Error(), "unweaver restore "), "%s: got %v", what, err)
	}
	assert.True(t, refused >= pages/2, "of %d damages %d were seen", len(damages), refused)
}

func TestAFileThatWasNotFinishedIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path+".new", []byte("half of a page"), 0o600))
	db, err := boltfile.Open(path, false, bucket)
	require.NoError(t, err)
	assert.NoError(t, db.Close())
	_, err = os.Lstat(path + ".new")
	assert.True(t, errors.Is(err, os.ErrNotExist), "it is still there: %v", err)
}
