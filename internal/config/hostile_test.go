package config_test

import (
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
