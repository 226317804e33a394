package localfile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/fault"
)

// Who can put a file into the cache must not decide what is served: a copy is not believed by its name.
func TestACopyThatAnotherPutThereIsBroughtAgain(t *testing.T) {
	dir := t.TempDir()
	store := newSource()
	sha := store.put(t, "content")
	require.NoError(t, os.WriteFile(filepath.Join(dir, sha), []byte("EVIL!!!"), 0o600))
	path := must(newCache(t, dir, 0).Get(t.Context(), store, sha, sha))
	raw, err := os.ReadFile(path)
	assert.True(t, err == nil && string(raw) == "content", "%q, %v", raw, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestACopyIsReadThroughOnceInAProcessAndAgainWhenItChanged(t *testing.T) {
	localfile.ForgetChecked()
	dir := t.TempDir()
	store := newSource()
	sha := store.put(t, "content")
	get := func() {
		t.Helper()
		must(newCache(t, dir, 0).Get(t.Context(), store, sha, sha))
	}
	get()
	assert.Equal(t, 1, localfile.Checked())
	for range 3 {
		get() // nor does the age of use make it another file
	}
	assert.Equal(t, 1, localfile.Checked(), "it was read")
	localfile.ForgetChecked()
	get()
	got, brought := localfile.Checked(), store.reads.Load()
	assert.True(t, got == 1 && brought == 1, "another process: %d checked, %d downloads", got, brought)
	file := must(os.OpenFile(filepath.Join(dir, sha), os.O_WRONLY, 0))
	if _, err := file.WriteString("CONTENT"); err != nil { // in place, as long as before
		t.Fatal(err)
	}
	require.NoError(t, file.Close())
	get()
	raw, err := os.ReadFile(filepath.Join(dir, sha))
	assert.True(t, err == nil && string(raw) == "content", "%q, %v", raw, err)
}

func TestCheckingACopyEndsWithItsCaller(t *testing.T) {
	localfile.ForgetChecked()
	dir := t.TempDir()
	store := newSource()
	sha := store.put(t, "content")
	cache := newCache(t, dir, 0)
	must(cache.Get(t.Context(), store, sha, sha))
	localfile.ForgetChecked()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cache.Get(ctx, store, sha, sha); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err := os.Stat(filepath.Join(dir, sha))
	assert.NoError(t, err, "a copy that was not looked at is gone")
}

func TestTheFolderOfAnotherUserIsRefusedWithTheWayOut(t *testing.T) {
	defer localfile.AsOwner(os.Geteuid() + 1)()
	dir := t.TempDir()
	_, err := localfile.New(dir, 0)
	if !fault.Is(err, fault.StoreDenied) || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), "UNWEAVER_CACHE_DIR") {
		t.Error(err)
	}
}

func TestAFolderThatOthersMayWriteToIsTightened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777))
	folder, err := localfile.MakeFolder(dir, "worker")
	require.True(t, err == nil && folder == dir, "%s, %v", folder, err)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// The tmpfs of a container is for all users, though it has one: it must work as it is.
func TestInAFolderForAllUsersTheCacheHasItsOwn(t *testing.T) {
	shared := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(shared, 0o700))
	require.NoError(t, os.Chmod(shared, 0o777|fs.ModeSticky))
	folder, err := localfile.MakeFolder(shared, "worker")
	require.True(t, err == nil && folder == filepath.Join(shared, fmt.Sprintf("unweaver-%d", os.Geteuid())),
		"%s, %v", folder, err)
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(shared); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the shared folder is %v, %v", info.Mode(), err)
	}
}

func TestWithoutConfigurationACacheIsTheUsersOwn(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	folder, err := localfile.MakeFolder("", "worker")
	assert.True(t, err == nil && folder == filepath.Join(base, "unweaver", "worker"), "%s, %v", folder, err)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	_, err = localfile.MakeFolder("", "worker")
	assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), "UNWEAVER_CACHE_DIR"), "%v", err)
}
