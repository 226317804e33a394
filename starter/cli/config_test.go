package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/starter/cli"
)

func TestConfigInitWritesAFileThatIsValidAndNeverOverwrites(t *testing.T) {
	fake := &fakeControl{}
	t.Chdir(t.TempDir())
	got := in(t, nil, nil, "config", "init")
	require.True(t, got.exit == cli.ExitDone && strings.HasPrefix(got.out, "wrote unweaver.yaml"), "%+v", got)
	raw, err := os.ReadFile("unweaver.yaml")
	require.NoError(t, err)
	contains(t, string(raw), "concurrency: 64", "# longest chunk")
	got = in(t, nil, nil, "config", "validate")
	assert.True(t, got.out == "valid: 1 indexes (docs)\n", "%+v", got)
	require.NoError(t, os.WriteFile("unweaver.yaml", []byte("# mine\n"), 0o600))
	got = in(t, nil, nil, "config", "init", "--json")
	if as := decoded(t, got.err); got.exit != cli.ExitUsage || !strings.Contains(as["error"].(string), "already exists") {
		t.Errorf("%+v", got)
	}
	raw, err = os.ReadFile("unweaver.yaml")
	assert.True(t, err == nil && string(raw) == "# mine\n", "overwritten: %s %v", raw, err)
	other := filepath.Join(t.TempDir(), "other.yaml")
	got = in(t, nil, nil, "config", "init", "--config", other, "--json")
	assert.True(t, got.exit == cli.ExitDone && decoded(t, got.out)["written"] == other, "%+v", got)
	got = in(t, nil, nil, "config", "init", "--config", filepath.Join(other, "below"))
	assert.True(t, got.exit == cli.ExitFailed && strings.Contains(got.err, "name another file with --config"), "%+v", got)
	assert.True(t, len(fake.asked) == 0, "it connects")
}

func TestConfigShowSaysWhereEveryValueCameFrom(t *testing.T) {
	t.Chdir(t.TempDir())
	text := "engine: { api_key_env: CLOUD_KEY }\nworker:\n  slots: 9\n"
	require.NoError(t, os.WriteFile("unweaver.yaml", []byte(text), 0o600))
	env := []string{"UNWEAVER_ENGINE_TLS=true", "CLOUD_KEY=very-secret", "OPENAI_API_KEY=very-secret"}
	got := in(t, nil, env, "config", "show", "--set", "stores.classes=redis://:very-secret@redis:6379")
	lines := map[string]string{}
	for _, line := range strings.Split(got.out, "\n") {
		key, rest, _ := strings.Cut(line, " ")
		lines[key] = strings.Join(strings.Fields(rest), " ")
	}
	for key, want := range map[string]string{
		"worker.slots":       "9 unweaver.yaml:3:10",
		"worker.pollers":     "4 default",
		"engine.tls":         "true variable UNWEAVER_ENGINE_TLS",
		"engine.api_key_env": "CLOUD_KEY unweaver.yaml:1:24",
		"stores.classes":     "redis://:xxxxx@redis:6379 --set stores.classes",
		"stores.vectors":     `"" default`,
	} {
		assert.Equal(t, want, lines[key], "%s", key)
	}
	as := in(t, nil, env, "config", "show", "--json", "--set", "stores.classes=redis://:very-secret@redis:6379")
	assert.False(t, strings.Contains(got.out+as.out, "very-secret"), "a secret is shown")
	for _, entry := range decoded(t, as.out)["settings"].([]any) {
		setting := entry.(map[string]any)
		if setting["key"] == "worker.slots" && (setting["value"] != 9.0 || setting["origin"] != "file" ||
			setting["at"] != "unweaver.yaml:3:10") {
			t.Errorf("%v", setting)
		}
		assert.True(t, setting["key"] != "worker.cpu" || setting["value"] == 0.0 && setting["origin"] == "default",
			"%v", setting)
	}
}

func TestConfigValidateListsEveryMistake(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("bad.yaml", []byte("worker:\n  slots: 0\n  sloths: 1\n"), 0o600))
	for _, command := range []string{"validate", "show"} {
		got := in(t, nil, nil, "config", command, "--config", "bad.yaml")
		assert.True(t, got.exit == cli.ExitUsage && got.out == "", "%+v", got)
		contains(t, got.err,
			"2 mistakes", "bad.yaml:2:10: worker.slots: want 1", "bad.yaml:3:3: unknown key worker.sloths")
		as := decoded(t, in(t, nil, nil, "config", command, "--config", "bad.yaml", "--json").err)
		assert.True(t, as["code"] == "bad_config" && strings.Contains(as["error"].(string), "2 mistakes"), "%v", as)
	}
	got := in(t, nil, nil, "config", "validate", "--json")
	if as := decoded(t, got.out); as["valid"] != true || as["indexes"] != 0.0 {
		t.Errorf("without any file: %+v", got)
	}
}

func TestConfigValidateReadsFilesOfAliases(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"unweaver.yaml": "indexes: {docs: {corpus: /data, aliases: names.txt}}\n",
		"names.txt":     "pin Ada | Lovelace\npin Lovelace | Ada\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	got := in(t, nil, nil, "config", "validate")
	contains(t, got.err, "pinned in a circle", "names.txt", "indexes.docs.aliases")
	assert.True(t, got.exit != cli.ExitDone && strings.Count(got.err, "fix the") == 1, "%+v", got)
	require.NoError(t, os.WriteFile("names.txt", []byte("pin Ada | Lovelace\n"), 0o600))
	got = in(t, nil, nil, "config", "validate")
	assert.True(t, got.exit == cli.ExitDone, "%+v", got)
}
