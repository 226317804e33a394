package powerloss_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
)

// builtinSpec is a configuration with the built-in models.
func builtinSpec(t *testing.T, docs string) core.Spec {
	t.Helper()
	cfg, err := config.Load(config.Source{})
	require.NoError(t, err)
	spec, err := cfg.Spec(index, docs)
	require.NoError(t, err)
	return spec
}

// damages are what a disk, or a hand, may do to a file: each gives the new bytes, nil for none.
var damages = map[string]func(raw []byte) []byte{
	"empty":   func([]byte) []byte { return []byte{} },
	"zeroed":  func(raw []byte) []byte { return make([]byte, len(raw)) },
	"cut":     func(raw []byte) []byte { return raw[:len(raw)/2] },
	"rubbish": func(raw []byte) []byte { return []byte(strings.Repeat("rubbish ", len(raw)/8+1)) },
	"removed": func([]byte) []byte { return nil },
}

// The stack starts on a damaged data directory, or says which file it is and the one step that mends it; after that
// step it starts. It answers from what was published, and builds.
// Promises: 55.
func TestADamagedFileOfTheDataDirectoryIsMendedOrNamed(t *testing.T) {
	longtest.Nightly(t)
	data, docs := filepath.Join(t.TempDir(), "data"), &recording{docs: t.TempDir()}
	docs.documents(t, 10)
	spec := builtinSpec(t, docs.docs)
	p := start(t, data)
	_, err := p.build(spec, "g1")
	require.NoError(t, err)
	p.kill()
	docs.documents(t, 12)
	for _, c := range []struct {
		file, damage string
		away         []string // what it says is to be moved away before it starts
	}{
		{"dev.json", "zeroed", nil},
		{"engine.version", "zeroed", nil},
		{"engine.version", "cut", nil},
		{"engine.version", "rubbish", nil},
		{"roots.json", "cut", nil},
		{"roots.json", "rubbish", nil},
		{"codec.key", "cut", nil},
		{"codec.key", "removed", nil},
		{"codec.key.copy", "zeroed", nil},
		{"artifacts/store.json", "cut", nil},
		{"artifacts/store.json", "removed", nil},
		{"artifacts/store.json.copy", "rubbish", nil},
		{"engine.db", "empty", []string{"engine.db"}},
		{"engine.db", "zeroed", []string{"engine.db"}},
		{"engine.db", "cut", []string{"engine.db"}},
		{"engine.db", "rubbish", []string{"engine.db"}},
		{"engine.db", "removed", nil},
		{"classes.bolt.runs", "zeroed", nil},
		{"classes.bolt.runs", "cut", nil},
	} {
		t.Run(c.file+" "+c.damage, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			if out, err := exec.Command("cp", "-r", data, folder).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			require.NoError(t, harm(filepath.Join(folder, c.file), damages[c.damage]))
			p, said := try(t, folder)
			require.Equal(t, c.away != nil, p == nil, "it said %q", said)
			if p == nil {
				if step := "move " + strings.Join(c.away, " and ") + " away"; !strings.Contains(said, step) ||
					!strings.Contains(said, filepath.Join(folder, "engine.db")) {
					t.Errorf("it does not say %q: %s", step, said)
				}
				for _, file := range c.away {
					require.NoError(t, os.Remove(filepath.Join(folder, file)))
				}
				p = start(t, folder)
			}
			assert.NoError(t, p.answers())
			if c.file == "engine.db" && c.damage == "removed" {
				// The engine that ran what was last is gone: whoever knows that it will not come back says so.
				assert.NoError(t, p.control().Lost(t.Context(), "p"))
				_, err := p.build(spec, "g2")
				assert.NoError(t, err)
			}
			p.kill()
		})
	}
}

func harm(path string, damage func([]byte) []byte) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if raw = damage(raw); raw == nil {
		return os.Remove(path)
	}
	return os.WriteFile(path, raw, 0o600)
}
