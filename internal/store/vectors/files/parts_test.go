package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func TestDamageAnywhereButInTheExactRowsIsSeenAtOpen(t *testing.T) {
	dir := t.TempDir()
	store, _ := filled(t, dir, 50)
	require.NoError(t, store.Close())
	part := matching(t, dir, "*.part")[0]
	whole, err := os.ReadFile(part)
	require.NoError(t, err)
	flipped := func(at int) []byte {
		raw := append([]byte(nil), whole...)
		raw[at] ^= 0x40
		return raw
	}
	rows := 4*50*vectorstest.Dim + 4 // the exact rows and the checksum, at the end
	for name, raw := range map[string][]byte{
		"magic":                 flipped(0),
		"dimension":             flipped(8),
		"number of rows":        flipped(12),
		"ends of keys":          flipped(20),
		"keys":                  flipped(16 + 4*50 + 7),
		"quantised rows":        flipped(len(whole) - rows - 100),
		"checksum":              flipped(len(whole) - 1),
		"cut by a byte":         whole[:len(whole)-1],
		"cut in its header":     whole[:10],
		"nothing but a header":  whole[:20],
		"bytes after its end":   append(append([]byte(nil), whole...), 0),
		"a file of zeros alone": make([]byte, len(whole)),
	} {
		require.NoError(t, os.WriteFile(part, raw, 0o600))
		folder := filepath.Dir(part)
		_, err := open(t, dir).Count(t.Context(), "c")
		require.True(t, fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), part), "%s: %v", name, err)
		require.NoError(t, os.Rename(folder+".damaged", folder), "%s", name)
	}
}

// What a crash left half written has another name, and is no part.
func TestWhatACrashLeftIsNoPart(t *testing.T) {
	dir := t.TempDir()
	store, _ := filled(t, dir, 20)
	require.NoError(t, store.Close())
	for _, name := range []string{"00000001.part.tmp", "00000001.dead.tmp", "meta.json.tmp", "notes.txt", "x.part"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "c", name), []byte("half"), 0o600))
	}
	store = open(t, dir)
	counts(t, store, 20)
	require.NoError(t, store.Upsert(t.Context(), "c", vectorstest.Rows(5, vectorstest.Dim, 77)))
	counts(t, store, 25)
}

// A merge that a crash cut off leaves rows twice: a search gives each once.
func TestRowsThatAreThereTwiceAreFoundOnce(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 40)
	require.NoError(t, store.Close())
	twice(t, dir, rs)
	store = open(t, dir)
	require.NoError(t, store.Load(t.Context(), "c"))
	found, err := store.Search(t.Context(), "c", rs[0].Vector, 10)
	require.True(t, err == nil && len(found) == 10, "%d hits, %v", len(found), err)
	seen := map[string]bool{}
	for _, hit := range found {
		assert.False(t, seen[hit.Key], "%s is there twice", hit.Key)
		seen[hit.Key] = true
	}
	remove(t, store, rs[:1]) // from both
	has, err := store.Has(t.Context(), "c", []string{rs[0].Key})
	assert.True(t, err == nil && !has[0], "a deleted row is there: %v, %v", has, err)
}

func TestAReleasedCollectionAnswersNoSearches(t *testing.T) {
	store, rs := filled(t, t.TempDir(), 10)
	for _, loaded := range []bool{false, true, false, true} {
		set := store.Release
		if loaded {
			set = store.Load
		}
		require.NoError(t, set(t.Context(), "c"))
		_, err := store.Search(t.Context(), "c", rs[0].Vector, 1)
		assert.True(t, (err == nil) == loaded, "loaded %v: %v", loaded, err)
	}
}

func TestRowsAreWrittenMergedDeletedAndSearchedAtOnce(t *testing.T) {
	store, rs := filled(t, t.TempDir(), 200)
	require.NoError(t, store.Load(t.Context(), "c"))
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			more := vectorstest.Rows(15*5, vectorstest.Dim, uint64(100+w))
			for at := 0; at < len(more); at += 5 {
				assert.NoError(t, store.Upsert(t.Context(), "c", more[at:at+5]))
				assert.NoError(t, store.Delete(t.Context(), "c", []string{more[at].Key}))
				if at%25 == 0 {
					assert.NoError(t, store.Load(t.Context(), "c"))
				}
			}
		})
		wg.Go(func() {
			for i := range 30 {
				hits, err := store.Search(t.Context(), "c", rs[i].Vector, 1)
				if err != nil || len(hits) != 1 || hits[0].Key != rs[i].Key {
					t.Error(fmt.Sprint("row ", i, ": "), hits, err)
				}
			}
		})
	}
	wg.Wait()
	counts(t, store, 200+3*15*4)
}
