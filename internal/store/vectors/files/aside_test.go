package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// A collection whose content cannot be opened counts as missing: whoever fills missing ones fills it.
func TestADamagedCollectionIsSetAsideAndFilledAgain(t *testing.T) {
	for situation, spoil := range map[string]func([]byte) []byte{
		"cut":     func(raw []byte) []byte { return raw[:len(raw)/2] },
		"empty":   func([]byte) []byte { return nil },
		"flipped": func(raw []byte) []byte { raw[30] ^= 0x40; return raw },
	} {
		dir := t.TempDir()
		rows := vectorstest.Rows(30, vectorstest.Dim, 4)
		for range 2 { // the second time what was set aside is replaced
			store := open(t, dir)
			if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
				t.Fatal(err)
			}
			if err := store.Upsert(t.Context(), "c", rows); err != nil {
				t.Fatal(err)
			}
			before, err := store.Identity(t.Context(), "c")
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			parts, err := filepath.Glob(filepath.Join(dir, "c", "*.part"))
			if err != nil || len(parts) != 1 {
				t.Fatal(parts, err)
			}
			raw, err := os.ReadFile(parts[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(parts[0], spoil(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			store = open(t, dir)
			if _, err := store.Count(t.Context(), "c"); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", situation, err)
			}
			if names, err := store.List(t.Context(), ""); err != nil || len(names) != 0 {
				t.Errorf("%s: listed %q, %v", situation, names, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "c.damaged", filepath.Base(parts[0]))); err != nil {
				t.Errorf("%s: %v", situation, err)
			}
			if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
				t.Fatal(err)
			}
			if after, err := store.Identity(t.Context(), "c"); err != nil || after == before {
				t.Errorf("%s: it passes for the one that was proven: %v", situation, err)
			}
			if err := store.Upsert(t.Context(), "c", rows); err != nil {
				t.Fatal(err)
			}
			if n, err := store.Count(t.Context(), "c"); err != nil || n != 30 {
				t.Errorf("%s: %d rows, %v", situation, n, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
		store := open(t, dir)
		if err := store.Drop(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: a drop left %v, %v", situation, left, err)
		}
	}
}

// A part that cannot be read now may be whole: nothing is set aside for an error of the disk.
func TestAnUnreadableCollectionIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("00000001.part", filepath.Join(dir, "c", "00000001.part")); err != nil { // ELOOP when opened
		t.Fatal(err)
	}
	store = open(t, dir)
	if _, err := store.Count(t.Context(), "c"); !fault.Is(err, fault.StoreDown) {
		t.Errorf("%v", err)
	}
	if names, err := store.List(t.Context(), ""); err != nil || len(names) != 1 {
		t.Errorf("listed %q, %v", names, err)
	}
}
