package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

// nested writes one value as YAML, below the keys of its path.
func nested(path, value string) string {
	var yaml strings.Builder
	keys := strings.Split(path, ".")
	for i, key := range keys {
		yaml.WriteString(strings.Repeat("  ", i) + key + ":")
		if i < len(keys)-1 {
			yaml.WriteString("\n")
		}
	}
	return fmt.Sprintf("%s %s\n", yaml.String(), value)
}

func variableOf(path string) string {
	return "UNWEAVER_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

func TestEveryKeyCanBeGivenByFileVariableAndSetting(t *testing.T) {
	for _, r := range rows(t) {
		if r.unsupported() {
			continue
		}
		base := needs[r.path]
		fromFile := mustLoad(t, nested(r.path, r.example), nil, others(base, r.path))
		fromVariable := mustLoad(t, "indexes: {docs: {}}\n", []string{variableOf(r.path) + "=" + r.example},
			others(base, r.path))
		fromSet := mustLoad(t, "", nil, append(others(base, r.path), r.path+"="+r.example))
		for origin, cfg := range map[string]*config.Config{
			config.FromFile: fromFile, config.FromVariable: fromVariable, config.FromSet: fromSet,
		} {
			got := settings(t, cfg)[r.path]
			assert.True(t, got.Text == r.example && got.Origin == origin && got.At != "",
				"%s from %s: %+v, want %s", r.path, origin, got, r.example)
		}
	}
}

// others returns the settings that an example needs besides, without those of its own path.
func others(set []string, path string) []string {
	var out []string
	for _, setting := range set {
		if !strings.HasPrefix(setting, path+"=") {
			out = append(out, setting)
		}
	}
	return out
}

func TestDurationsAreWrittenAsPeopleWriteThem(t *testing.T) {
	for given, want := range map[string]string{
		"24h": "24h", "90m": "1h30m", "1h0m0s": "1h", "10m": "10m", "30s": "30s", "1h0m30s": "1h0m30s",
		"100ms": "100ms", "100h10m": "100h10m", "1m30s": "1m30s",
	} {
		cfg := mustLoad(t, "", nil, []string{"indexes.docs.grace=" + given})
		assert.Equal(t, want, settings(t, cfg)["indexes.docs.grace"].Text, "%s is written", given)
	}
}

func TestSettingsThatAreNoValueAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"engine=fast":                  "engine is not one value",
		"indexes=many":                 "indexes is not one value",
		"indexes.docs=small":           "indexes.docs is not one value",
		"engine.address.port=1":        "engine.address has no keys below it",
		"engine.adress=x":              "unknown key engine.adress (known keys: address, namespace",
		"indexes.docs.models.chet.x=1": "unknown key indexes.docs.models.chet",
		"=x":                           "unknown key ",
	} {
		assert.Contains(t, refused(t, "", set), want, "%s", set)
	}
}

// FuzzLoad holds that no file can make the reader panic, that what it refuses is a configuration's fault, and that what
// it accepts is resolved.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(config.RenderSample()))
	f.Add([]byte("indexes: {docs: {models: {chat: {price: {prompt: -1}}}}}\n"))
	f.Add([]byte("a: &a {b: *a}\n"))
	f.Add([]byte("engine: !!binary aGk=\n---\n"))
	f.Add([]byte("indexes: [docs]\nworker: null\n? {a: b}\n: c\n"))
	f.Add([]byte("indexes: {docs: {schedule: {cron: '1-,*/ @ * *'}}}\nstores: {classes: 'redis://@:@/'}"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(dir, "unweaver.yaml")
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		cfg, err := config.Load(config.Source{Path: path})
		if err != nil {
			assert.True(t, fault.Is(err, fault.BadConfig), "code %s of %v", fault.CodeOf(err), err)
			return
		}
		for name := range cfg.Indexes {
			spec, err := cfg.Spec(name, "")
			assert.True(t, err == nil && spec.Keep >= 1 && spec.Grace > 0 && !bytes.ContainsAny([]byte(spec.Index), "./"),
				"%+v %v", spec, err)
		}
	})
}

func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	for _, path := range []string{pipe, t.TempDir(), "/dev/null"} {
		done := make(chan error, 1)
		go func() {
			_, err := config.Load(config.Source{Path: path})
			done <- err
		}()
		select {
		case err := <-done:
			assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), path), "%s: %v", path, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s is waited for", path)
		}
	}
}

func TestValuesThatMakeNoSenseAreRefusedWithTheirPlace(t *testing.T) {
	for text, says := range map[string]string{
		"stores: {artifacts: a}\nstores: {artifacts: b}\n":    ":2:1: stores is set twice, first in line 1",
		"indexes: {a: {grace: -5h}}\n":                        "indexes.a.grace",
		"indexes: {a: {budget: {calls: -5}}}\n":               "indexes.a.budget.calls",
		"indexes: {a: {failures: {count: -1}}}\n":             "indexes.a.failures.count",
		"indexes: {a: {retrieval: {min_similarity: 99}}}\n":   "indexes.a.retrieval.min_similarity",
		"indexes: {a: {retrieval: {min_similarity: .nan}}}\n": "indexes.a.retrieval.min_similarity",
		"indexes: {a: {retrieval: {language: xx}}}\n": "indexes.a.retrieval.language: \"xx\" is not a supported language; use auto, en, de, " +
			"es, fr, pt, ja, th, zh, und (und: plain words, for every other language)",
		"engine: {address: \"\"}\n":                                      "engine.address",
		"models: {chat: {base_url: \"http://u:SECRETpw@h/v1\"}}\n":       "api_key_env",
		"models: {embedding: {base_url: \"https://h/v1?key=SECRET\"}}\n": "api_key_env",
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := config.Load(config.Source{Path: path})
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), says) &&
			!strings.Contains(err.Error(), "SECRET"), "%s%v", text, err)
	}
}

// A password that holds a slash is not taken for a path.
func TestShownSettingsHoldNoPassword(t *testing.T) {
	loaded, err := config.Load(config.Source{Set: []string{"stores.classes=redis://:TOP/SECRET@redis:6379/0"}})
	if err != nil {
		t.Skip("refused, which shows nothing: ", err)
	}
	for _, setting := range loaded.Settings() {
		assert.True(t, !strings.Contains(setting.Text, "SECRET") && !strings.Contains(setting.Text, "TOP"),
			"%s is shown as %s", setting.Key, setting.Text)
	}
}

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
		return must(config.Load(process.Source))(t)
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
