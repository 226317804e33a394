package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stream/durable"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestAFileIsReplacedWholeAndNothingIsLeftBeside(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // the second finds it there
		require.NoError(t, durable.MkdirAll(folder, 0o700))
	}
	path := filepath.Join(folder, "f")
	for _, content := range []string{"a longer one", "short"} {
		require.NoError(t, durable.WriteFile(path, []byte(content), 0o600))
		assert.Equal(t, content, string(musttest.Get(os.ReadFile(path))(t)))
	}
	assert.Len(t, musttest.Get(os.ReadDir(folder))(t), 1)
}

func TestAWriteThatCannotBeMadeKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, durable.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Mkdir(path+".tmp", 0o700))
	assert.Error(t, durable.WriteFile(path, []byte("new"), 0o600), "it was written")
	assert.Equal(t, "old", string(musttest.Get(os.ReadFile(path))(t)))
}

func mode(t *testing.T, path string) fs.FileMode {
	info := musttest.Get(os.Stat(path))(t)
	return info.Mode().Perm()
}

func TestAPrivateFolderIsItsOwnersAloneWhateverItWas(t *testing.T) {
	root := t.TempDir()
	fresh := filepath.Join(root, "new", "below")
	old := filepath.Join(root, "old")
	require.NoError(t, os.Mkdir(old, 0o755))
	for _, folder := range []string{fresh, old} {
		require.NoError(t, durable.MkdirPrivate(folder))
		assert.Equal(t, durable.PrivateFolder, mode(t, folder), "%s", folder)
	}
	assert.Equal(t, durable.PrivateFolder, mode(t, filepath.Dir(fresh)), "the folder above")
}

func TestAFolderForAllUsersStaysOne(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "tmp")
	require.NoError(t, os.Mkdir(shared, 0o700))
	require.NoError(t, os.Chmod(shared, 0o777|fs.ModeSticky))
	require.NoError(t, durable.MkdirPrivate(shared))
	assert.Equal(t, fs.FileMode(0o777), mode(t, shared), "other users' programs break")
}

func TestAFileIsTightenedAndAMissingOneIsNoError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	assert.NoError(t, durable.Tighten(path))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	if err := os.Chmod(path, 0o644); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	require.NoError(t, durable.Tighten(path))
	assert.Equal(t, durable.PrivateFile, mode(t, path), "it")
}

func TestAFolderOfOthersIsNotThisUsersOwn(t *testing.T) {
	root := t.TempDir()
	own, open, link := filepath.Join(root, "own"), filepath.Join(root, "open"), filepath.Join(root, "link")
	for folder, mode := range map[string]fs.FileMode{own: 0o755, open: 0o777} {
		require.NoError(t, errors.Join(os.Mkdir(folder, mode), os.Chmod(folder, mode)))
	}
	require.NoError(t, os.Symlink(own, link))
	another := func(info fs.FileInfo) (int, bool) { return os.Geteuid() + 1, true }
	ofLink := func(info fs.FileInfo) (int, bool) {
		if info.Mode()&fs.ModeSymlink != 0 {
			return another(info)
		}
		return durable.Owner(info)
	}
	file := filepath.Join(root, "settings")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.NoError(t, durable.CheckUnplanted(file))
	require.NoError(t, os.Chmod(file, 0o602))
	assert.Error(t, durable.CheckUnplanted(file), "every user may write to it")
	if os.Geteuid() == 0 {
		require.NoError(t, errors.Join(os.Chmod(file, 0o600), os.Chown(file, 54321, -1)))
		assert.Error(t, durable.CheckUnplanted(file), "a file of another user")
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
		err := durable.CheckOwn(c.folder, c.owner)
		assert.True(t, (err == nil) == c.own, "%s: %v", what, err)
	}
}
