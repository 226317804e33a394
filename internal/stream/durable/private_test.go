package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/stream/durable"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestAPrivateFolderIsItsOwnersAloneWhateverItWas(t *testing.T) {
	root := t.TempDir()
	fresh := filepath.Join(root, "new", "below")
	old := filepath.Join(root, "old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{fresh, old} {
		if err := durable.Private(folder); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, folder); got != durable.PrivateFolder {
			t.Errorf("%s is %o", folder, got)
		}
	}
	if got := mode(t, filepath.Dir(fresh)); got != durable.PrivateFolder {
		t.Errorf("the folder above is %o", got)
	}
}

func TestAFolderForAllUsersStaysOne(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "tmp")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := durable.Private(shared); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, shared); got != 0o777 {
		t.Errorf("it is %o: other users' programs break", got)
	}
}

func TestAFileIsTightenedAndAMissingOneIsNoError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := durable.Tighten(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	if err := durable.Tighten(path); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, path); got != durable.PrivateFile {
		t.Errorf("it is %o", got)
	}
}
