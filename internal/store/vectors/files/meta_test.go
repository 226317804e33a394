package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// A machine that lost power may leave the file empty, cut, or full of zeros.
func TestADamagedMetaIsWrittenAgain(t *testing.T) {
	for name, torn := range map[string]string{
		"empty": "", "cut": `{"di`, "zeroed": "\x00\x00\x00", "no dimension": "{}", "below zero": `{"dim":-4}`,
	} {
		dir := t.TempDir()
		store := open(t, dir)
		rows := vectorstest.Rows(30, vectorstest.Dim, 4)
		require.NoError(t, store.Create(t.Context(), "full", vectorstest.Dim))
		require.NoError(t, store.Upsert(t.Context(), "full", rows))
		require.NoError(t, store.Create(t.Context(), "bare", vectorstest.Dim))
		require.NoError(t, store.Close())
		for _, collection := range []string{"full", "bare"} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, collection, "meta.json"), []byte(torn), 0o600))
		}
		for range 2 { // once mended, it stays
			store = open(t, dir)
			n, err := store.Count(t.Context(), "full")
			assert.True(t, err == nil && n == 30, "%s: %d rows, %v", name, n, err)
			require.NoError(t, store.Close())
		}
		store = open(t, dir)
		_, err := store.Count(t.Context(), "bare")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: a collection without a dimension: %v", name, err)
		assert.NoError(t, store.Create(t.Context(), "bare", vectorstest.Dim), "%s", name)
		assert.NoError(t, store.Upsert(t.Context(), "bare", rows), "%s", name)
	}
}

// lose removes the first of two parts of a collection that is closed.
func lose(t *testing.T, dir string) (rows []vectors.Row, gone string) {
	t.Helper()
	store, rows := filled(t, dir, 40)
	require.NoError(t, store.Upsert(t.Context(), "c", vectorstest.Rows(60, vectorstest.Dim, 9)[40:]))
	require.NoError(t, store.Close())
	parts := matching(t, dir, "*"+partEnd)
	require.True(t, len(parts) == 2, "%v", parts)
	return rows, parts[0]
}

// A part that is gone makes no other answers: the collection counts as lost, and is filled again.
// Promises: 85.
func TestACollectionThatLacksAPartIsSetAside(t *testing.T) {
	for name, damage := range map[string]func(dir, part string) error{
		"first": func(_, part string) error { return os.Remove(part) },
		"last":  func(dir, _ string) error { return os.Remove(filepath.Join(dir, "c", "00000001"+partEnd)) },
	} {
		dir := t.TempDir()
		rows, part := lose(t, dir)
		require.NoError(t, damage(dir, part))
		store := open(t, dir)
		err := store.Load(t.Context(), "c")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: load gave %v", name, err)
		_, err = store.Identity(t.Context(), "c")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: no build sees it: %v", name, err)
		require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
		require.NoError(t, store.Upsert(t.Context(), "c", rows))
		counts(t, store, 40)
	}
}

// The bytes of a part that is gone while it is mapped are there: it is written again when a build asks for the
// identity.
func TestAPartThatIsGoneWhileItIsMappedIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	rows, part := lose(t, dir)
	store := open(t, dir)
	remove(t, store, rows[:1])
	before := identity(t, store)
	require.NoError(t, os.Remove(part))
	assert.Equal(t, before, identity(t, store), "nothing was lost, and it has another identity")
	require.NoError(t, store.Close())
	store = loaded(t, dir)
	counts(t, store, 59)
	finds(t, store, rows[7])
}

// With the folder its identity goes, too, so that a build looks for every row; it finds them.
func TestAFolderThatIsGoneWhileItsPartsAreMappedIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	rows, _ := lose(t, dir)
	store := open(t, dir)
	before := identity(t, store)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "c")))
	after := identity(t, store)
	assert.True(t, after != before, "it has the identity that was lost with it")
	require.NoError(t, store.Close())
	store = loaded(t, dir)
	counts(t, store, 60)
	finds(t, store, rows[7])
}

// One bit of the dimension: the description is made again from the parts, and the next build looks for every row.
// Promises: 85.
func TestADescriptionWithAnotherDimensionIsDamage(t *testing.T) {
	for _, change := range []meta{
		{Dim: vectorstest.Dim ^ 1, Parts: []int{0, 1}}, {Dim: vectorstest.Dim, Parts: []int{0}},
		{Dim: vectorstest.Dim, Parts: []int{0, 1, 2}},
	} {
		dir := t.TempDir()
		_, _ = lose(t, dir)
		store := open(t, dir)
		before := identity(t, store)
		require.NoError(t, store.Close())
		whole := meta{Dim: vectorstest.Dim, Parts: []int{0, 1}}
		change.Sum = whole.computeSum()
		raw := must(json.Marshal(change))
		write(t, filepath.Join(dir, "c", metaName), raw)
		store = open(t, dir)
		assert.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim), "%+v", change)
		counts(t, store, 60)
		assert.True(t, identity(t, store) != before, "%+v: no build looks for what may be missing", change)
	}
	dir := t.TempDir() // a description that is whole, and of other rows
	_, _ = lose(t, dir)
	require.NoError(t, writeMeta(filepath.Join(dir, "c"), meta{Dim: vectorstest.Dim + 1, Parts: []int{0, 1}}))
	assert.NoError(t, open(t, dir).Create(t.Context(), "c", vectorstest.Dim))
}
