package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// filled opens a store whose collection c holds rows in one part.
func filled(t *testing.T, dir string, n int) (*Store, []vectors.Row) {
	t.Helper()
	store := open(t, dir)
	rs := vectorstest.Rows(n, vectorstest.Dim, 11)
	require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
	require.NoError(t, store.Upsert(t.Context(), "c", rs))
	return store, rs
}

func remove(t *testing.T, store *Store, rs []vectors.Row) {
	t.Helper()
	keys := make([]string, len(rs))
	for i, row := range rs {
		keys[i] = row.Key
	}
	require.NoError(t, store.Delete(t.Context(), "c", keys))
}

func counts(t *testing.T, store *Store, want int) {
	t.Helper()
	n, err := store.Count(t.Context(), "c")
	assert.True(t, err == nil && n == int64(want), "%d rows, %v; want %d", n, err, want)
}

func matching(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found := must(filepath.Glob(filepath.Join(dir, "c", pattern)))
	return found
}

func TestDeletedRowsStayDeletedAfterReopening(t *testing.T) {
	for _, gone := range []int{1, 249, 250, 999, 1000} { // below the share that rewrites, at it, and all
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			dir := t.TempDir()
			store, rs := filled(t, dir, 1000)
			remove(t, store, rs[:gone])
			counts(t, store, 1000-gone)
			require.NoError(t, store.Close())
			store = open(t, dir)
			counts(t, store, 1000-gone)
			has, err := store.Has(t.Context(), "c", []string{rs[0].Key, rs[gone-1].Key})
			assert.True(t, err == nil && !has[0] && !has[1], "deleted rows are there: %v, %v", has, err)
			require.NoError(t, store.Load(t.Context(), "c"))
			hits, err := store.Search(t.Context(), "c", rs[0].Vector, 1000)
			assert.True(t, err == nil && len(hits) == 1000-gone, "%d hits, %v", len(hits), err)
		})
	}
}

// A sweep deletes in many batches; writing all rows again at each would cost the square of the collection.
func TestAFewDeletionsDoNotWriteThePartAnew(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 1000)
	before := matching(t, dir, "*.part")
	for i := range 24 {
		remove(t, store, rs[10*i:10*i+10])
	}
	if after := matching(t, dir, "*.part"); len(after) != 1 || after[0] != before[0] {
		t.Errorf("parts %v became %v", before, after)
	}
	remove(t, store, rs[240:260])
	after := matching(t, dir, "*.part")
	assert.True(t, len(after) == 1 && after[0] != before[0] && len(matching(t, dir, "*.dead")) == 0,
		"a quarter is dead, and the parts are %v", after)
	counts(t, store, 740)
}

func TestOnlyPartsThatAreMostlyDeadAreWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 400)
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
	dir := t.TempDir()
	store, rs := filled(t, dir, 100)
	remove(t, store, rs[:5])
	lists := matching(t, dir, "*.dead")
	require.True(t, len(lists) == 1, "%v", lists)
	kept := must(os.ReadFile(lists[0]))
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
			dir := t.TempDir()
			store, rs := filled(t, dir, 100)
			remove(t, store, rs[:5])
			require.NoError(t, store.Close())
			list := matching(t, dir, "*.dead")[0]
			raw := must(os.ReadFile(list))
			require.NoError(t, os.WriteFile(list, damage(raw), 0o600))
			_, err := open(t, dir).Count(t.Context(), "c")
			assert.True(t, fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), list), "got %v", err)
		})
	}
}

// A deletion that could not be written must not be taken for one that was when it is repeated.
func TestADeletionThatFailedIsWrittenWhenItIsRepeated(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 100)
	obstacle := filepath.Join(dir, "c", "00000000.dead.tmp")
	require.NoError(t, os.Mkdir(obstacle, 0o755))
	err := store.Delete(t.Context(), "c", []string{rs[0].Key})
	require.Error(t, err, "nothing could be written, and there was no error")
	require.NoError(t, os.Remove(obstacle))
	require.NoError(t, store.Delete(t.Context(), "c", []string{rs[0].Key}))
	require.NoError(t, store.Close())
	counts(t, open(t, dir), 99)
}

func TestIdentitySurvivesReopeningAndIsLostWithTheFolder(t *testing.T) {
	dir := t.TempDir()
	identity := func() string {
		store, _ := filled(t, dir, 5)
		defer func() { _ = store.Close() }()
		id, err := store.Identity(t.Context(), "c")
		require.True(t, err == nil && id != "", "%v %v", id, err)
		return id
	}
	before := identity()
	assert.Equal(t, before, identity(), "it was")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "c")))
	after := identity()
	assert.True(t, after != before, "a collection that was lost says that it was not")
}
