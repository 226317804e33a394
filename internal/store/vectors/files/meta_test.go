package files

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

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
		if err := store.Create(t.Context(), "full", vectorstest.Dim); err != nil {
			t.Fatal(err)
		}
		if err := store.Upsert(t.Context(), "full", rows); err != nil {
			t.Fatal(err)
		}
		if err := store.Create(t.Context(), "bare", vectorstest.Dim); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		for _, collection := range []string{"full", "bare"} {
			if err := os.WriteFile(filepath.Join(dir, collection, "meta.json"), []byte(torn), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // once mended, it stays
			store = open(t, dir)
			if n, err := store.Count(t.Context(), "full"); err != nil || n != 30 {
				t.Errorf("%s: %d rows, %v", name, n, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		store = open(t, dir)
		if _, err := store.Count(t.Context(), "bare"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: a collection that tells no dimension: %v", name, err)
		}
		if err := store.Create(t.Context(), "bare", vectorstest.Dim); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := store.Upsert(t.Context(), "bare", rows); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lose removes the first of two parts of a collection that is closed.
func lose(t *testing.T, dir string) (rows []vectors.Row, gone string) {
	t.Helper()
	store, rows := filled(t, dir, 40)
	if err := store.Upsert(t.Context(), "c", vectorstest.Rows(60, vectorstest.Dim, 9)[40:]); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	parts := matching(t, dir, "*"+partEnd)
	if len(parts) != 2 {
		t.Fatal(parts)
	}
	return rows, parts[0]
}

// A part that is gone makes no other answers: the collection counts as lost, and is filled anew.
// Promises: 85.
func TestACollectionThatLacksAPartIsSetAside(t *testing.T) {
	for name, damage := range map[string]func(dir, part string) error{
		"first": func(_, part string) error { return os.Remove(part) },
		"last":  func(dir, _ string) error { return os.Remove(filepath.Join(dir, "c", "00000001"+partEnd)) },
	} {
		dir := t.TempDir()
		rows, part := lose(t, dir)
		if err := damage(dir, part); err != nil {
			t.Fatal(err)
		}
		store := open(t, dir)
		if err := store.Load(t.Context(), "c"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: load gave %v", name, err)
		}
		if _, err := store.Identity(t.Context(), "c"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: no build sees it: %v", name, err)
		}
		if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
			t.Fatal(err)
		}
		if err := store.Upsert(t.Context(), "c", rows); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Remove(part); err != nil {
		t.Fatal(err)
	}
	if after := identity(t, store); after != before {
		t.Error("nothing was lost, and it has another identity")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err := os.RemoveAll(filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if after := identity(t, store); after == before {
		t.Error("it has the identity that was lost with it")
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
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
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		whole := meta{Dim: vectorstest.Dim, Parts: []int{0, 1}}
		change.Sum = whole.sum()
		raw, err := json.Marshal(change)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "c", metaName), raw)
		store = open(t, dir)
		if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
			t.Errorf("%+v: %v", change, err)
		}
		counts(t, store, 60)
		if identity(t, store) == before {
			t.Errorf("%+v: no build looks for what may be missing", change)
		}
	}
	dir := t.TempDir() // a description that is whole, and of other rows
	_, _ = lose(t, dir)
	if err := writeMeta(filepath.Join(dir, "c"), meta{Dim: vectorstest.Dim + 1, Parts: []int{0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Create(t.Context(), "c", vectorstest.Dim); err != nil {
		t.Error(err)
	}
}
