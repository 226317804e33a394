package dir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Systems without a call for it walk: neither way follows a link, wherever in the name it stands.
func TestNoWayToOpenAnObjectFollowsALink(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(folder, "sub/deep/a.txt"), filepath.Join(outside, "key.txt")} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("text"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": outside, "in": "sub", "sub/deep/b.txt": "a.txt"} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for way, open := range map[string]func(*os.File, string) (int, error){"call": openBeneath, "steps": stepsBeneath} {
		for key, want := range map[string]error{
			"sub/deep/a.txt": nil, "sub/none.txt": unix.ENOENT, "sub/deep/a.txt/b": unix.ENOTDIR,
			"out/key.txt": unix.ELOOP, "in/deep/a.txt": unix.ELOOP, "sub/deep/b.txt": unix.ELOOP,
			"../key.txt": unix.EXDEV,
		} {
			descriptor, err := open(root, key)
			if !errors.Is(err, want) {
				t.Errorf("%s: %s gives %v, want %v", way, key, err, want)
			}
			if err != nil {
				continue
			}
			file := os.NewFile(uintptr(descriptor), key)
			if raw, err := io.ReadAll(file); err != nil || string(raw) != "text" {
				t.Errorf("%s: %q, %v", way, raw, err)
			}
			_ = file.Close()
		}
	}
}
