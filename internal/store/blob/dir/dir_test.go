package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/blobtest"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
)

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		store, err := dir.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return store
	})
}

func TestOpenSweepsWhatACrashLeft(t *testing.T) {
	root := t.TempDir()
	if _, err := dir.Open(root); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(root, ".tmp", "1-1")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Open(root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Error("the file is still there")
	}
}

func TestACorpusThatIsNoFolderIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		_, err := dir.OpenCorpus(p)
		if !fault.Is(err, fault.CorpusMissing) || fault.As(err).Object != p {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestALinkThatLeadsBackEndsTheWalkWithAnError(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(root, "loop")); err != nil {
		t.Skip("no links here:", err)
	}
	store, err := dir.OpenCorpus(root)
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	n := 0
	for _, err := range store.List(t.Context(), "", "") {
		if n++; err != nil {
			failed = err
			break
		}
		if n > 10_000 {
			t.Fatal("the walk does not end")
		}
	}
	if failed == nil {
		t.Error("no error")
	}
}
