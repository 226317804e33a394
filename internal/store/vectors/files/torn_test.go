package files

import (
	"os"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// A file that is cut while it is mapped must not end the process: the collection counts as missing, and may be filled
// again.
// Promises: 85.
func TestAPartThatIsCutWhileItIsOpenIsDamage(t *testing.T) {
	for name, use := range map[string]func(store *Store, row vectors.Row) error{
		"search": func(store *Store, row vectors.Row) error {
			_, err := store.Search(t.Context(), "c", row.Vector, 5)
			return err
		},
		"fetch": func(store *Store, row vectors.Row) error {
			_, err := store.Fetch(t.Context(), "c", []string{row.Key})
			return err
		},
		"has": func(store *Store, row vectors.Row) error {
			_, err := store.Has(t.Context(), "c", []string{row.Key})
			return err
		},
		"upsert": func(store *Store, row vectors.Row) error { return store.Upsert(t.Context(), "c", []vectors.Row{row}) },
		"delete": func(store *Store, row vectors.Row) error { return store.Delete(t.Context(), "c", []string{row.Key}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, rows := filled(t, dir, 3000)
			if err := store.Load(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(matching(t, dir, "*"+partEnd)[0], 0); err != nil {
				t.Fatal(err)
			}
			if err := use(store, rows[0]); !fault.Is(err, fault.NotFound) {
				t.Fatalf("got %v", err)
			}
			if err := store.Create(t.Context(), "c", len(rows[0].Vector)); err != nil {
				t.Fatal(err)
			}
			if err := store.Load(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			if err := use(store, rows[0]); err != nil {
				t.Error(err)
			}
		})
	}
}
