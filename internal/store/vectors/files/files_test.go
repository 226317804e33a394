package files

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func open(t *testing.T, dir string) *Store {
	store := musttest.Get(Open(dir))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	vectorstest.Run(t, func(t *testing.T) vectors.Store { return open(t, t.TempDir()) })
}

func TestProductsEqualThoseOfPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, dim := range []int{1, 3, 7, 31, 32, 33, 64, 100, 512, 1024, 1027, 4096} {
		most := int16(min(math.MaxInt16, math.MaxInt32/(128*dim)))
		for _, rows := range []int{1, 2, 5} {
			question, codes := make([]int16, dim), make([]int8, dim*rows)
			fill := func(number func() (int16, int8)) {
				for i := range codes {
					question[i%dim], codes[i] = number()
				}
			}
			for _, number := range []func() (int16, int8){
				func() (int16, int8) { return int16(r.IntN(2*int(most)+1)) - most, int8(r.IntN(255) - 127) },
				func() (int16, int8) { return -most, -127 }, // the largest sum
			} {
				fill(number)
				got, want := make([]int32, rows), make([]int32, rows)
				dotRows(question, codes, got)
				dotsGo(question, codes, want)
				require.True(t, slices.Equal(got, want), "dimension %d: %v, want %v", dim, got, want)
			}
			want := int32(dim) * int32(most) * 127
			require.True(t, dots1(question, codes) == want, "dimension %d: %d, want %d", dim, dots1(question, codes), want)
		}
		a, b := make([]float32, dim), make([]float32, dim)
		for range 20 {
			for i := range a {
				a[i], b[i] = float32(r.NormFloat64()), float32(r.NormFloat64()*math.Exp(20*r.NormFloat64()))
			}
			got, want := dot32(a, b), vectors.Dot(a, b)
			require.True(t, got == want, "dimension %d: %g, want the same bits as %g", dim, got, want)
		}
	}
}

func dots1(question []int16, codes []int8) int32 {
	var out [1]int32
	dotRows(question, codes, out[:])
	return out[0]
}

func TestRowsSurviveReopeningAndMerging(t *testing.T) {
	dir := t.TempDir()
	store, rs := open(t, dir), vectorstest.Rows(60*20, vectorstest.Dim, 9)
	require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
	for at := 0; at < len(rs); at += 20 { // more parts than a loaded collection keeps
		require.NoError(t, store.Upsert(t.Context(), "c", rs[at:at+20]))
	}
	require.NoError(t, store.Load(t.Context(), "c"))
	n := len(store.open["c"].parts)
	assert.True(t, n <= maxParts, "%d parts after load", n)
	require.NoError(t, store.Close())
	store = open(t, dir)
	assert.Equal(t, int64(len(rs)), musttest.Get(store.Count(t.Context(), "c"))(t))
}

// What a crash left half written has another name, and is no part.
func TestWhatACrashLeftIsNoPart(t *testing.T) {
	dir, store, _ := filledFolder(t, 20)
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
	dir, store, rs := filledFolder(t, 40)
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

func TestACollectionAnswersNoSearchesBeforeItIsLoaded(t *testing.T) {
	store, rs := filled(t, t.TempDir(), 10)
	musttest.Refuse(store.Search(t.Context(), "c", rs[0].Vector, 1))(t, fault.StoreDown)
	require.NoError(t, store.Load(t.Context(), "c"))
	musttest.Get(store.Search(t.Context(), "c", rs[0].Vector, 1))(t)
}

// filled opens a store whose collection c holds rows in one part.
func filled(t *testing.T, dir string, n int) (*Store, []vectors.Row) {
	store, rs := open(t, dir), vectorstest.Rows(n, vectorstest.Dim, 11)
	fill(t, store, rs)
	return store, rs
}

// filledFolder is filled, in a folder of its own.
func filledFolder(t *testing.T, n int) (dir string, store *Store, rows []vectors.Row) {
	dir = t.TempDir()
	store, rows = filled(t, dir, n)
	return dir, store, rows
}

func fill(t *testing.T, store *Store, rows []vectors.Row) {
	require.NoError(t, store.Create(t.Context(), "c", len(rows[0].Vector)))
	require.NoError(t, store.Upsert(t.Context(), "c", rows))
}

func remove(t *testing.T, store *Store, rs []vectors.Row) {
	keys := make([]string, len(rs))
	for i, row := range rs {
		keys[i] = row.Key
	}
	require.NoError(t, store.Delete(t.Context(), "c", keys))
}

func counts(t *testing.T, store *Store, want int) {
	n, err := store.Count(t.Context(), "c")
	assert.True(t, err == nil && n == int64(want), "%d rows, %v; want %d", n, err, want)
}

func matching(t *testing.T, dir, pattern string) []string {
	return musttest.Get(filepath.Glob(filepath.Join(dir, "c", pattern)))(t)
}

func TestDeletedRowsStayDeletedAfterReopening(t *testing.T) {
	for _, gone := range []int{1, 249, 250, 999, 1000} { // below the share that rewrites, at it, and all
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			dir, store, rs := filledFolder(t, 1000)
			remove(t, store, rs[:gone])
			counts(t, store, 1000-gone)
			require.NoError(t, store.Close())
			store = open(t, dir)
			counts(t, store, 1000-gone)
			has, err := store.Has(t.Context(), "c", []string{rs[0].Key, rs[gone-1].Key})
			assert.True(t, err == nil && !has[0] && !has[1], "deleted rows are there: %v, %v", has, err)
			require.NoError(t, store.Load(t.Context(), "c"))
			assert.Len(t, musttest.Get(store.Search(t.Context(), "c", rs[0].Vector, 1000))(t), 1000-gone)
		})
	}
}

// A sweep deletes in many batches; writing all rows again at each would cost the square of the collection.
func TestAFewDeletionsDoNotWriteThePartAnew(t *testing.T) {
	dir, store, rs := filledFolder(t, 1000)
	before := matching(t, dir, "*.part")
	for i := range 24 {
		remove(t, store, rs[10*i:10*i+10])
	}
	after := matching(t, dir, "*.part")
	assert.True(t, len(after) == 1 && after[0] == before[0], "parts %v became %v", before, after)
	remove(t, store, rs[240:260])
	after = matching(t, dir, "*.part")
	assert.True(t, len(after) == 1 && after[0] != before[0] && len(matching(t, dir, "*.dead")) == 0,
		"a quarter is dead, and the parts are %v", after)
	counts(t, store, 740)
}

func TestOnlyPartsThatAreMostlyDeadAreWrittenAnew(t *testing.T) {
	dir, store, rs := filledFolder(t, 400)
	more := vectorstest.Rows(400, vectorstest.Dim, 12)
	require.NoError(t, store.Upsert(t.Context(), "c", more))
	before := matching(t, dir, "*.part")
	remove(t, store, append(append([]vectors.Row{}, rs[:300]...), more[:3]...))
	after := matching(t, dir, "*.part")
	assert.True(t, len(before) == 2 && len(after) == 2 && after[0] == before[1] && len(matching(t, dir, "*.dead")) == 1,
		"parts %v became %v", before, after)
	counts(t, store, 497)
}

// A crash between the removal of a part and of its list leaves a list: a new part of that number must not get it.
func TestAListWithoutItsPartTouchesNoOther(t *testing.T) {
	dir, store, rs := filledFolder(t, 100)
	remove(t, store, rs[:5])
	lists := matching(t, dir, "*.dead")
	require.True(t, len(lists) == 1, "%v", lists)
	kept := musttest.Get(os.ReadFile(lists[0]))(t)
	remove(t, store, rs) // the part goes
	require.NoError(t, store.Close())
	require.NoError(t, os.WriteFile(lists[0], kept, 0o600))
	store = open(t, dir)
	counts(t, store, 0)
	assert.Empty(t, matching(t, dir, "*.dead"), "the list is still there")
	require.NoError(t, store.Upsert(t.Context(), "c", rs))
	require.NoError(t, store.Close())
	counts(t, open(t, dir), 100)
}

func TestADamagedListOfDeletedRowsIsNamed(t *testing.T) {
	for name, damage := range map[string]func(raw []byte) []byte{
		"a flipped bit": func(raw []byte) []byte { raw[len(deadMagic)] ^= 1; return raw },
		"cut short":     func(raw []byte) []byte { return raw[:len(raw)-3] },
		"empty":         func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir, store, rs := filledFolder(t, 100)
			remove(t, store, rs[:5])
			require.NoError(t, store.Close())
			list := matching(t, dir, "*.dead")[0]
			require.NoError(t, os.WriteFile(list, damage(musttest.Get(os.ReadFile(list))(t)), 0o600))
			musttest.Refuse(open(t, dir).Count(t.Context(), "c"))(t, fault.NotFound, list)
		})
	}
}

// A deletion that could not be written must not be taken for one that was when it is repeated.
func TestADeletionThatFailedIsWrittenWhenItIsRepeated(t *testing.T) {
	dir, store, rs := filledFolder(t, 100)
	obstacle := filepath.Join(dir, "c", "00000000.dead.tmp")
	require.NoError(t, os.Mkdir(obstacle, 0o755))
	err := store.Delete(t.Context(), "c", []string{rs[0].Key})
	require.Error(t, err, "nothing could be written, and there was no error")
	require.NoError(t, os.Remove(obstacle))
	require.NoError(t, store.Delete(t.Context(), "c", []string{rs[0].Key}))
	require.NoError(t, store.Close())
	counts(t, open(t, dir), 99)
}

// A crash between the two steps of a drop leaves a folder of another name: it is no collection, nothing of it comes
// back in a new one, and the next start removes it.
func TestWhatACrashLeftOfADroppedCollectionIsRemoved(t *testing.T) {
	root := t.TempDir()
	store := musttest.Get(Open(root))(t)
	ctx, row := t.Context(), vectors.Row{Key: "k", Vector: []float32{1, 0}}
	require.NoError(t, store.Create(ctx, "c", 2))
	require.NoError(t, store.Upsert(ctx, "c", []vectors.Row{row}))
	require.NoError(t, store.Close())
	require.NoError(t, os.Rename(filepath.Join(root, "c"), filepath.Join(root, ".dropped-1")))
	store = musttest.Get(Open(root))(t)
	defer func() { _ = store.Close() }()
	assert.Empty(t, musttest.Get(store.List(ctx, ""))(t))
	require.NoError(t, store.Create(ctx, "c", 2))
	n, err := store.Count(ctx, "c")
	assert.True(t, err == nil && n == 0, "%d rows, %v", n, err)
	for range 2 { // what is not there is dropped already
		require.NoError(t, store.Drop(ctx, "c"))
	}
	assert.Empty(t, musttest.Get(os.ReadDir(root))(t))
}

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

func reload(t *testing.T, store *Store) { require.NoError(t, store.Load(t.Context(), "c")) }

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
	assert.GreaterOrEqual(t, recall(t, store, left, 100), 0.98, "recall@100 is")
	remove(t, store, left[:indexedRows/4]) // the part is written again
	left = left[indexedRows/4:]
	share := recall(t, store, left, 100)
	assert.True(t, share == 1 && withIndex(store, 100) == 0, "without an index recall@100 is %.4f", share)
	reload(t, store)
	share = recall(t, store, left, 10)
	assert.True(t, share >= 0.99 && withIndex(store, 10) == 1, "with another index recall@10 is %.4f", share)
}

// However many rows near the question are dead, those that live are found.
func TestAnIndexGivesAsManyRowsAsLive(t *testing.T) {
	store, rows := made(t, t.TempDir(), fewRows)
	last, p := exact(rows, rows[0].Vector, fewRows)[fewRows-5:], store.open["c"].parts[0]
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
	assert.GreaterOrEqual(t, recall(t, store, append(slices.Clone(rows), more...), 10), 0.99, "recall@10 is")
}

// An index whose part is gone belongs to no part, and must not become that of a new part of the number.
func TestAnIndexGoesWithItsPart(t *testing.T) {
	dir := t.TempDir()
	store, rows := made(t, dir, fewRows)
	path := matching(t, dir, "*"+indexEnd)[0]
	kept := musttest.Get(os.ReadFile(path))(t)
	remove(t, store, rows)
	assert.Empty(t, matching(t, dir, "*"+indexEnd), "left")
	require.NoError(t, store.Close())
	write(t, path, kept)
	counts(t, open(t, dir), 0)
	assert.Empty(t, matching(t, dir, "*"+indexEnd))
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
	assert.Empty(t, matching(t, dir, "*"+indexEnd))
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
	store, rows := indexed(t, t.TempDir()), vectorstest.Rows(6000, indexedDim, 45)
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

func TestIndexesAreMadeWhileRowsAreSearchedWrittenAndDeleted(t *testing.T) {
	store, rows := made(t, t.TempDir(), fewRows)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 4 {
			more := vectorstest.Rows(1100, indexedDim, uint64(100+i))
			assert.NoError(t, store.Upsert(t.Context(), "c", more))
			assert.NoError(t, store.Delete(t.Context(), "c", []string{more[i].Key}))
			assert.NoError(t, store.Load(t.Context(), "c"))
		}
	})
	wg.Go(func() { assert.NoError(t, store.Load(t.Context(), "c")) })
	for i := range 100 {
		hits := musttest.Get(store.Search(t.Context(), "c", rows[i].Vector, 5))(t)
		assert.True(t, len(hits) == 5 && hits[0].Key == rows[i].Key, "%v %v", fmt.Sprint("row ", i, ": "), hits)
	}
	wg.Wait()
	counts(t, store, fewRows+4400-4)
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
		return allocated(t, func() error { return musttest.Err(writeIndex(t.Context(), p)) })
	}
	few, many := made(rows), made(4*rows)
	if more := many - few; more > 2*3*rows { // factors alone are four bytes a row
		t.Errorf("of %d rows %d bytes, of %d %d: %d more", rows, few, 4*rows, many, more)
	}
}
