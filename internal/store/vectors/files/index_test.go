package files

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

var past = time.Unix(1_000_000_000, 0)

const (
	indexedDim  = 256
	indexedRows = 12_000 // of which so few have to be looked at for 100 that the index is used
	fewRows     = 2_000  // the same for 10
)

// indexed opens a store of which every part is worth an index.
func indexed(t *testing.T, dir string) *Store {
	store := open(t, dir)
	store.indexBytes = indexedDim * 1000
	return store
}

// made fills collection c with one part of rows and makes its index.
func made(t *testing.T, dir string, n int) (*Store, []vectors.Row) {
	store, rows := indexed(t, dir), vectorstest.Rows(n, indexedDim, 41)
	fill(t, store, rows)
	reload(t, store)
	return store, rows
}

func reload(t *testing.T, store *Store) {
	require.NoError(t, store.Load(t.Context(), "c"))
}

// withIndex counts the parts that a search for n rows looks at by an index.
func withIndex(store *Store, n int) (parts int) {
	for _, p := range store.open["c"].parts {
		if p.index.Load().countKept(n) > 0 {
			parts++
		}
	}
	return parts
}

// recall returns the share of the n best rows that searches find; what they find must have its exact score.
func recall(t *testing.T, store *Store, rows []vectors.Row, n int) float64 {
	found, wanted := 0, 0
	for i := range 12 {
		asked := slices.Clone(rows[i*len(rows)/12].Vector)
		for j, x := range rows[i*len(rows)/15].Vector {
			asked[j] += x / 2
		}
		got, err := store.Search(t.Context(), "c", asked, n)
		require.True(t, err == nil && len(got) == min(n, len(rows)), "%d rows, %v", len(got), err)
		want := exact(rows, asked, n)
		wanted += len(want)
		for _, hit := range got {
			if slices.Contains(want, hit) {
				found++
			}
		}
	}
	return float64(found) / float64(wanted)
}

// Rows that are deleted after an index was made are not given, and do not take the places of others.
func TestDeletedRowsAreNotFoundByAnIndex(t *testing.T) {
	store, rows := made(t, t.TempDir(), indexedRows)
	near := exact(rows, rows[0].Vector, indexedRows/5) // most of what lies near one row
	gone := map[string]bool{}
	var keys []string
	for _, hit := range near {
		gone[hit.Key] = true
		keys = append(keys, hit.Key)
	}
	require.NoError(t, store.Delete(t.Context(), "c", keys))
	require.Equal(t, 1, withIndex(store, 100), "no index is used")
	left := slices.DeleteFunc(slices.Clone(rows), func(row vectors.Row) bool { return gone[row.Key] })
	if share := recall(t, store, left, 100); share < 0.98 {
		t.Errorf("recall@100 is %.4f", share)
	}
	remove(t, store, left[:indexedRows/4]) // the part is written again
	left = left[indexedRows/4:]
	if share := recall(t, store, left, 100); share != 1 || withIndex(store, 100) != 0 {
		t.Errorf("without an index recall@100 is %.4f", share)
	}
	reload(t, store)
	share := recall(t, store, left, 10)
	assert.True(t, share >= 0.99 && withIndex(store, 10) == 1, "with another index recall@10 is %.4f", share)
}

// However many rows near the question are dead, those that live are found.
func TestAnIndexGivesAsManyRowsAsLive(t *testing.T) {
	store, rows := made(t, t.TempDir(), fewRows)
	last := exact(rows, rows[0].Vector, fewRows)[fewRows-5:]
	p := store.open["c"].parts[0]
	for row := range p.n {
		if key := p.keyAt(row); !slices.ContainsFunc(last, func(hit vectors.Hit) bool { return hit.Key == key }) {
			p.killRow(row)
		}
	}
	hits, err := store.Search(t.Context(), "c", rows[0].Vector, 10)
	assert.True(t, err == nil && slices.Equal(hits, last), "found %v, %v; want %v", hits, err, last)
}

// Rows that came after an index are found at once, and get one of their own when they are many.
func TestRowsBesideAnIndexAreFound(t *testing.T) {
	store, rows := made(t, t.TempDir(), fewRows)
	more := vectorstest.Rows(2000, indexedDim, 42)
	for at := 0; at < len(more); at += 250 {
		require.NoError(t, store.Upsert(t.Context(), "c", more[at:at+250]))
		for _, row := range more[at : at+3] {
			hits, err := store.Search(t.Context(), "c", row.Vector, 1)
			require.True(t, err == nil && hits[0].Key == row.Key, "a new row was not found: %v, %v", hits, err)
		}
	}
	n := len(store.open["c"].parts)
	require.True(t, n == 9, "%v %v", n, "parts")
	reload(t, store)
	n = len(store.open["c"].parts)
	assert.True(t, n == 2 && withIndex(store, 10) == 2, "%d parts, %d with an index", n, withIndex(store, 10))
	share := recall(t, store, append(slices.Clone(rows), more...), 10)
	assert.True(t, share >= 0.99, "recall@10 is %.4f", share)
}

// An index whose part is gone belongs to no part, and must not become that of a new part of the number.
func TestAnIndexGoesWithItsPart(t *testing.T) {
	dir := t.TempDir()
	store, rows := made(t, dir, fewRows)
	path := matching(t, dir, "*"+indexEnd)[0]
	kept := musttest.Get(os.ReadFile(path))(t)
	remove(t, store, rows)
	if left := matching(t, dir, "*"+indexEnd); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	require.NoError(t, store.Close())
	write(t, path, kept)
	counts(t, open(t, dir), 0)
	left := matching(t, dir, "*"+indexEnd)
	assert.True(t, len(left) == 0, "left: %v", left)
}

// A merge while an index is made leaves neither the index nor the mapping of the part behind.
func TestAPartThatIsMergedWhileItIsIndexedIsLetGo(t *testing.T) {
	dir := t.TempDir()
	store := indexed(t, dir)
	put(t, store, indexedDim, vectorstest.Rows(300, indexedDim, 43))
	c := store.open["c"]
	parts, err := c.loadParts(1)
	require.True(t, err == nil && len(parts) != 0, "%v %v", parts, err)
	c.mu.Lock()
	err = c.mergeParts(c.parts)
	c.mu.Unlock()
	require.NoError(t, err)
	for _, p := range parts {
		if err := c.makeIndex(t.Context(), p); err != nil { // reads the part: it would crash were it unmapped
			t.Fatal(err)
		}
	}
	require.NoError(t, releaseParts(parts))
	left := matching(t, dir, "*"+indexEnd)
	assert.True(t, len(left) == 0, "left: %v", left)
	for _, p := range parts {
		assert.True(t, p.users.Load() < 0, "a part is still held")
	}
}

func TestAnIndexThatIsOfNoUseIsNotMadeAgain(t *testing.T) {
	dir := t.TempDir()
	store := indexed(t, dir)
	store.indexBytes = 1
	put(t, store, indexedDim, vectorstest.Rows(90, indexedDim, 44)) // so few that all are looked at
	for _, path := range matching(t, dir, "*"+indexEnd) {
		require.NoError(t, os.Chtimes(path, past, past))
	}
	reload(t, store)
	files := matching(t, dir, "*"+indexEnd)
	for _, path := range files {
		st, err := os.Stat(path)
		assert.True(t, err == nil && st.ModTime().Equal(past), "%s was made again: %v", filepath.Base(path), err)
	}
	assert.True(t, len(files) != 0 && withIndex(store, 1) == 0, "%d files, %d of use", len(files), withIndex(store, 1))
}

func TestAnIndexOverRowsThatAreAllEqual(t *testing.T) {
	store := indexed(t, t.TempDir())
	rows := vectorstest.Rows(6000, indexedDim, 45)
	for i := range rows {
		rows[i].Vector = rows[0].Vector
	}
	put(t, store, indexedDim, rows)
	got, err := store.Search(t.Context(), "c", rows[0].Vector, 20)
	require.True(t, err == nil && len(got) == 20, "%v %v", got, err)
	for i, hit := range got { // which of them is for the signs to say
		assert.True(t, hit.Score == got[0].Score && (i <= 0 || hit.Key > got[i-1].Key), "hit %d is %v", i, hit)
	}
}

func TestIndexesAreMadeWhileRowsAreSearchedAndWritten(t *testing.T) {
	store, rows := made(t, t.TempDir(), fewRows)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 4 {
			assert.NoError(t, store.Upsert(t.Context(), "c", vectorstest.Rows(1100, indexedDim, uint64(100+i))))
			assert.NoError(t, store.Load(t.Context(), "c"))
		}
	})
	wg.Go(func() { assert.NoError(t, store.Load(t.Context(), "c")) })
	for i := range 100 {
		hits := musttest.Get(store.Search(t.Context(), "c", rows[i].Vector, 5))(t)
		assert.True(t, len(hits) == 5 && hits[0].Key == rows[i].Key, "%v %v", fmt.Sprint("row ", i, ": "), hits)
	}
	wg.Wait()
	counts(t, store, fewRows+4400)
}

// allocated returns how many bytes the heap gives out meanwhile, those that are given back at once included: no more
// can be held at any time.
func allocated(t *testing.T, do func() error) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := do()
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Four times as many rows take no more memory: an index of ten million would else take a gigabyte to be made.
func TestAnIndexIsMadeInMemoryThatDoesNotGrowWithItsRows(t *testing.T) {
	const rows, dim = 8192, fewestSigns
	made := func(rows int) int {
		path := filepath.Join(t.TempDir(), "00000000"+partEnd)
		require.NoError(t, writePart(path, dim, sourceOf(sortRows(vectorstest.Rows(rows, dim, 7)), dim)))
		p := musttest.Get(openPart(path))(t)
		defer func() { _ = p.close() }()
		return allocated(t, func() error {
			_, err := writeIndex(t.Context(), p)
			return err
		})
	}
	few, many := made(rows), made(4*rows)
	if more := many - few; more > 2*3*rows { // factors alone are four bytes a row
		t.Errorf("of %d rows %d bytes, of %d %d: %d more", rows, few, 4*rows, many, more)
	}
}

// The places of rows while parts are merged lie in a file.
func TestPartsAreMergedInMemoryThatDoesNotGrowWithTheirRows(t *testing.T) {
	const rows, dim, parts = 1 << 16, 2, 6 // eight times as many have places of 4 MiB, which would be copied as they grow
	merged := func(rows int) int {
		store := open(t, t.TempDir())
		require.NoError(t, store.Create(t.Context(), "c", dim))
		all := vectorstest.Rows(rows, dim, 7)
		for i := range parts {
			var some []vectors.Row
			for at := i; at < rows; at += parts {
				some = append(some, all[at])
			}
			require.NoError(t, store.Upsert(t.Context(), "c", some))
		}
		c := store.open["c"]
		c.mu.Lock()
		defer c.mu.Unlock()
		return allocated(t, func() error { return c.mergeParts(c.parts) })
	}
	few, many := merged(rows), merged(8*rows)
	const column = 4 << 20 // what a column holds before it is written out, and what it was before it grew to that
	more := many - few
	assert.True(t, more <= column, "of %d rows %d bytes, of %d %d: %d more", rows, few, 8*rows, many, more)
}
