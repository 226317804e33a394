package durable_test

import (
	"errors"
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

func TestAFolderOfOthersIsNotThisUsersOwn(t *testing.T) {
	root := t.TempDir()
	own, open, link := filepath.Join(root, "own"), filepath.Join(root, "open"), filepath.Join(root, "link")
	for folder, mode := range map[string]fs.FileMode{own: 0o755, open: 0o777} {
		if err := errors.Join(os.Mkdir(folder, mode), os.Chmod(folder, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	another := func(info fs.FileInfo) (int, bool) { return os.Geteuid() + 1, true }
	ofLink := func(info fs.FileInfo) (int, bool) {
		if info.Mode()&fs.ModeSymlink != 0 {
			return another(info)
		}
		return durable.Owner(info)
	}
	for what, c := range map[string]struct {
		folder string
		owner  func(fs.FileInfo) (int, bool)
		own    bool
	}{
		"of this user":             {own, durable.Owner, true},
		"a link of this user":      {link, durable.Owner, true},
		"open to others":           {open, durable.Owner, false},
		"of another user":          {own, another, false},
		"behind a link of another": {link, ofLink, false},
		"one that is not there":    {filepath.Join(root, "none"), durable.Owner, false},
	} {
		if err := durable.CheckOwn(c.folder, c.owner); (err == nil) != c.own {
			t.Errorf("%s: %v", what, err)
		}
	}
}
