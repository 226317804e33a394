package config_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

func parsed(t *testing.T, env []string, args ...string) (*config.Process, string, error) {
	t.Helper()
	var out bytes.Buffer
	process, err := config.ParseProcess("unweaver-worker", "Host workflows.", "ask it", args, env, &out)
	return process, out.String(), err
}

func TestAServerProcessFindsItsConfigurationAsTheCommandLineDoes(t *testing.T) {
	t.Chdir(t.TempDir())
	load := func(env []string, args ...string) *config.Config {
		t.Helper()
		process, _, err := parsed(t, env, args...)
		require.NoError(t, err)
		cfg := must(config.Load(process.Source))(t)
		return cfg
	}
	assert.Equal(t, 64, load(nil).Worker.Slots, "without a file")
	other := filepath.Join(t.TempDir(), "other.yaml")
	for path, slots := range map[string]string{"unweaver.yaml": "7", other: "8"} {
		require.NoError(t, os.WriteFile(path, []byte("worker: {slots: "+slots+"}\n"), 0o600))
	}
	for name, got := range map[string]struct{ slots, want int }{
		"unweaver.yaml of the folder":        {load(nil).Worker.Slots, 7},
		"UNWEAVER_CONFIG":                    {load([]string{"UNWEAVER_CONFIG=" + other}).Worker.Slots, 8},
		"--config":                           {load(nil, "--config", other).Worker.Slots, 8},
		"-config, as before":                 {load(nil, "-config="+other).Worker.Slots, 8},
		"--set over all":                     {load(nil, "--config", other, "--set", "worker.slots=9").Worker.Slots, 9},
		"a variable of a setting over files": {load([]string{"UNWEAVER_WORKER_SLOTS=5"}).Worker.Slots, 5},
	} {
		assert.Equal(t, got.want, got.slots, "%s", name)
	}
	process, _, err := parsed(t, nil, "--config", "none.yaml")
	if err == nil {
		_, err = config.Load(process.Source)
	}
	assert.True(t, fault.Is(err, fault.BadConfig), "a file that is named and is not there: %v", err)
}

func TestFlagsOfAServerProcess(t *testing.T) {
	process, help, err := parsed(t, nil, "--help")
	assert.True(t, err == nil && process.IsDone() && strings.Contains(help, "--set") &&
		strings.Contains(help, "Host workflows."), "%v\n%s", err, help)
	if process, out, err := parsed(t, nil, "--version"); err != nil || !process.IsDone() ||
		!strings.HasPrefix(out, "unweaver-worker ") {
		t.Errorf("%v %s", err, out)
	}
	if process, _, err := parsed(t, nil, "-probe"); err != nil || !process.Probe || process.IsDone() {
		t.Errorf("%+v, %v", process, err)
	}
	for _, args := range [][]string{{"--colour"}, {"docs"}, {"--config"}} {
		process, _, err := parsed(t, nil, append([]string{"--json"}, args...)...)
		var out bytes.Buffer
		if code := process.Exit(err, &out); code != 2 || !strings.Contains(out.String(), `"code":"usage"`) ||
			!strings.Contains(out.String(), "unweaver-worker --help") {
			t.Errorf("%v: exit %d, %s", args, code, out.String())
		}
	}
	var out bytes.Buffer
	code := process.Exit(errors.New("odd"), &out)
	assert.True(t, code == 1 && out.String() == "unweaver-worker: odd\n", "exit %d, %s", code, out.String())
}
