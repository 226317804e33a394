package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
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
