package dir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Systems without a call for it walk: neither way follows a link, wherever in the name it stands.
func TestNoWayToOpenAnObjectFollowsALink(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(folder, "sub/deep/a.txt"), filepath.Join(outside, "key.txt")} {
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("text"), 0o600)))
	}
	for name, target := range map[string]string{"out": outside, "in": "sub", "sub/deep/b.txt": "a.txt"} {
		require.NoError(t, os.Symlink(target, filepath.Join(folder, name)))
	}
	root, err := os.Open(folder)
	require.NoError(t, err)
	defer func() { _ = root.Close() }()
	for way, open := range map[string]func(*os.File, string) (int, error){"call": openBeneath, "steps": stepsBeneath} {
		for key, want := range map[string]error{
			"sub/deep/a.txt": nil, "sub/none.txt": unix.ENOENT, "sub/deep/a.txt/b": unix.ENOTDIR,
			"out/key.txt": unix.ELOOP, "in/deep/a.txt": unix.ELOOP, "sub/deep/b.txt": unix.ELOOP,
			"../key.txt": unix.EXDEV,
		} {
			descriptor, err := open(root, key)
			assert.ErrorIs(t, err, want, "%s: %s", way, key)
			if err != nil {
				continue
			}
			file := os.NewFile(uintptr(descriptor), key)
			raw, err := io.ReadAll(file)
			assert.True(t, err == nil && string(raw) == "text", "%s: %q, %v", way, raw, err)
			_ = file.Close()
		}
	}
}
