package bolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/classes"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/classes/bolt"
	"github.com/unweaver/unweaver/internal/store/classes/classestest"
)

func open(t *testing.T, path string) *bolt.Store {
	t.Helper()
	store, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestConformance(t *testing.T) {
	classestest.Run(t, func(t *testing.T) classes.Store {
		s := open(t, filepath.Join(t.TempDir(), "c.bolt"))
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func TestRecordsSurviveReopening(t *testing.T) {
	p := filepath.Join(t.TempDir(), "c.bolt")
	store := open(t, p)
	if err := store.PutRecords(t.Context(), []records.Record{{Key: "k", Value: []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = open(t, p)
	defer func() { _ = store.Close() }()
	if v, err := store.GetRecords(t.Context(), []string{"k"}); err != nil || string(v[0]) != "v" {
		t.Errorf("got %q, %v", v, err)
	}
}

func TestADamagedStateOfRunsIsMadeAnew(t *testing.T) {
	p := filepath.Join(t.TempDir(), "c.bolt")
	if err := os.WriteFile(p+".runs", []byte("this is no database at all, but long enough to be looked at"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, p)
	defer func() { _ = s.Close() }()
	if err := s.SetState(t.Context(), "r", []byte("x")); err != nil {
		t.Error(err)
	}
}

func TestAStoreInUseIsNamed(t *testing.T) {
	p := filepath.Join(t.TempDir(), "c.bolt")
	s := open(t, p)
	defer func() { _ = s.Close() }()
	if _, err := bolt.Open(p); !fault.Is(err, fault.DataDirInUse) {
		t.Errorf("got %v", err)
	}
}
