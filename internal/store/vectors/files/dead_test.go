package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// filled opens a store whose collection c holds rows in one part.
func filled(t *testing.T, dir string, n int) (*Store, []vectors.Row) {
	t.Helper()
	store := open(t, dir)
	rs := vectorstest.Rows(n, vectorstest.Dim, 11)
	if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
		t.Fatal(err)
	}
	if err := store.Upsert(t.Context(), "c", rs); err != nil {
		t.Fatal(err)
	}
	return store, rs
}

func remove(t *testing.T, store *Store, rs []vectors.Row) {
	t.Helper()
	keys := make([]string, len(rs))
	for i, row := range rs {
		keys[i] = row.Key
	}
	if err := store.Delete(t.Context(), "c", keys); err != nil {
		t.Fatal(err)
	}
}

func counts(t *testing.T, store *Store, want int) {
	t.Helper()
	if n, err := store.Count(t.Context(), "c"); err != nil || n != int64(want) {
		t.Errorf("%d rows, %v; want %d", n, err, want)
	}
}

func matching(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "c", pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDeletedRowsStayDeletedAfterReopening(t *testing.T) {
	for _, gone := range []int{1, 249, 250, 999, 1000} { // below the share that rewrites, at it, and all
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			dir := t.TempDir()
			store, rs := filled(t, dir, 1000)
			remove(t, store, rs[:gone])
			counts(t, store, 1000-gone)
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			store = open(t, dir)
			counts(t, store, 1000-gone)
			has, err := store.Has(t.Context(), "c", []string{rs[0].Key, rs[gone-1].Key})
			if err != nil || has[0] || has[1] {
				t.Errorf("deleted rows are there: %v, %v", has, err)
			}
			if err := store.Load(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			hits, err := store.Search(t.Context(), "c", rs[0].Vector, 1000)
			if err != nil || len(hits) != 1000-gone {
				t.Errorf("%d hits, %v", len(hits), err)
			}
		})
	}
}

// A sweep deletes in many batches; writing all rows anew at each would cost the square of the collection.
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
	if len(after) != 1 || after[0] == before[0] || len(matching(t, dir, "*.dead")) != 0 {
		t.Errorf("a quarter is dead, and the parts are %v", after)
	}
	counts(t, store, 740)
}

func TestOnlyPartsThatAreMostlyDeadAreWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 400)
	more := vectorstest.Rows(400, vectorstest.Dim, 12)
	if err := store.Upsert(t.Context(), "c", more); err != nil {
		t.Fatal(err)
	}
	before := matching(t, dir, "*.part")
	remove(t, store, append(append([]vectors.Row{}, rs[:300]...), more[:3]...))
	after := matching(t, dir, "*.part")
	if len(before) != 2 || len(after) != 2 || after[0] != before[1] || len(matching(t, dir, "*.dead")) != 1 {
		t.Errorf("parts %v became %v", before, after)
	}
	counts(t, store, 497)
}

// A crash between the removal of a part and of its list leaves a list: a new part of that number must not get it.
func TestAListWithoutItsPartTouchesNoOther(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 100)
	remove(t, store, rs[:5])
	lists := matching(t, dir, "*.dead")
	if len(lists) != 1 {
		t.Fatal(lists)
	}
	kept, err := os.ReadFile(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	remove(t, store, rs) // the part goes
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lists[0], kept, 0o600); err != nil {
		t.Fatal(err)
	}
	store = open(t, dir)
	counts(t, store, 0)
	if len(matching(t, dir, "*.dead")) != 0 {
		t.Error("the list is still there")
	}
	if err := store.Upsert(t.Context(), "c", rs); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
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
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			list := matching(t, dir, "*.dead")[0]
			raw, err := os.ReadFile(list)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(list, damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = open(t, dir).Count(t.Context(), "c")
			if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), list) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A deletion that could not be written must not be taken for one that was when it is repeated.
func TestADeletionThatFailedIsWrittenWhenItIsRepeated(t *testing.T) {
	dir := t.TempDir()
	store, rs := filled(t, dir, 100)
	obstacle := filepath.Join(dir, "c", "00000000.dead.tmp")
	if err := os.Mkdir(obstacle, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "c", []string{rs[0].Key}); err == nil {
		t.Fatal("nothing could be written, and there was no error")
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "c", []string{rs[0].Key}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	counts(t, open(t, dir), 99)
}

func TestIdentitySurvivesReopeningAndIsLostWithTheFolder(t *testing.T) {
	dir := t.TempDir()
	identity := func() string {
		store, _ := filled(t, dir, 5)
		defer func() { _ = store.Close() }()
		id, err := store.Identity(t.Context(), "c")
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		return id
	}
	before := identity()
	if again := identity(); again != before {
		t.Errorf("it was %q and is %q", before, again)
	}
	if err := os.RemoveAll(filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if after := identity(); after == before {
		t.Error("a collection that was lost says that it was not")
	}
}
