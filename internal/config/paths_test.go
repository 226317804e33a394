package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
