package codec_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
)

// made creates a key file in a folder of the test, and returns the name of an engine's database beside it.
func made(t *testing.T) (path, database string, key *codec.Key) {
	t.Helper()
	folder := t.TempDir()
	path, database = filepath.Join(folder, "codec.key"), filepath.Join(folder, "temporal.db")
	key, err := codec.Create(path, database)
	require.NoError(t, err)
	return path, database, key
}

func writeLine(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestAKeyIsMadeOnceForItsOwnerAlone(t *testing.T) {
	path, database, key := made(t)
	info, err := os.Stat(path)
	require.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	writeLine(t, database, "")
	again, err := codec.Create(path, database)
	assert.True(t, err == nil && again.ID == key.ID, "%v, %v", again, err)
	if loaded, err := codec.Load(path); err != nil || loaded.ID != key.ID {
		t.Errorf("%v, %v", loaded, err)
	}
}

func TestTwoThatMakeAKeyAtOnceHaveTheSame(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "codec.key")
		var all sync.WaitGroup
		ids := make([]string, 4)
		for i := range ids {
			all.Go(func() {
				key, err := codec.Create(path, path+".none")
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = key.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			require.Equal(t, ids[0], id, "keys %v", ids)
		}
		left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp"))
		require.True(t, err == nil && len(left) == 0, "left over: %v, %v", left, err)
	}
}

func TestAKeyFileThatCannotBeTrustedIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, path, database string)
		says  string
	}{
		"others can read it": {func(t *testing.T, path, _ string) {
			require.NoError(t, os.Chmod(path, 0o644))
		}, "its mode is 0644"},
		"it belongs to another": {func(t *testing.T, path, _ string) {
			if err := os.Chown(path, 4711, -1); err != nil {
				t.Skip("only root can give a file away: ", err)
			}
		}, "it belongs to user 4711"},
		"it is a folder": {func(t *testing.T, path, _ string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		}, "it is no plain file"},
		"both are damaged": {func(t *testing.T, path, _ string) {
			writeLine(t, path, "")
			writeLine(t, path+".copy", "what?")
		}, "it is damaged"},
		"both are lost": {func(t *testing.T, path, database string) {
			for _, one := range []string{path, path + ".copy"} {
				require.NoError(t, os.Remove(one))
			}
			writeLine(t, database, "histories")
		}, "it is lost, and runs were recorded with it"},
		"another one is in its place": {func(t *testing.T, path, _ string) {
			other, _, _ := made(t)
			require.NoError(t, os.Rename(other, path))
		}, "but runs were recorded with key"},
	} {
		t.Run(name, func(t *testing.T) {
			path, database, _ := made(t)
			test.spoil(t, path, database)
			_, err := codec.Create(path, database)
			if !fault.Is(err, fault.BadConfig) || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := codec.Load(filepath.Join(t.TempDir(), "none")); !fault.Is(err, fault.BadConfig) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAKeyThatIsLostOrDamagedIsReadFromItsCopy(t *testing.T) {
	for _, which := range []string{"", ".copy"} {
		for name, spoil := range map[string]func(raw []byte) []byte{
			"lost":              func([]byte) []byte { return nil },
			"empty":             func([]byte) []byte { return []byte{} },
			"without a key":     func([]byte) []byte { return []byte("what?\n") },
			"cut":               func(raw []byte) []byte { return raw[:len(raw)/2] },
			"of another letter": func(raw []byte) []byte { raw[len(raw)-10] ^= 1; return raw },
		} {
			t.Run(name+which, func(t *testing.T) {
				path, database, key := made(t)
				writeLine(t, database, "histories")
				raw, err := os.ReadFile(path + which)
				require.NoError(t, err)
				require.NoError(t, os.Remove(path+which))
				if raw = spoil(raw); raw != nil {
					writeLine(t, path+which, string(raw))
				}
				if again, err := codec.Create(path, database); err != nil || again.ID != key.ID {
					t.Fatalf("%v, %v", again, err)
				}
				if mended, err := codec.Load(path + which); err != nil || mended.ID != key.ID {
					t.Errorf("the file is still %v, %v", mended, err)
				}
			})
		}
	}
}
