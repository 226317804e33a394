package cli_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/neural"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/pkitest"
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
	as := decoded(t, got.err)
	assert.True(t, got.exit == cli.ExitUsage && strings.Contains(as["error"].(string), "already exists"), "%+v", got)
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
		assert.False(t, setting["key"] == "worker.slots" &&
			(setting["value"] != 9.0 || setting["origin"] != "file" || setting["at"] != "unweaver.yaml:3:10"), "%v", setting)
		assert.True(t, setting["key"] != "worker.cpu" || setting["value"] == 0.0 && setting["origin"] == "default", "%v",
			setting)
	}
}

func TestConfigValidateListsEveryMistake(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("bad.yaml", []byte("worker:\n  slots: 0\n  sloths: 1\n"), 0o600))
	for _, command := range []string{"validate", "show"} {
		got := in(t, nil, nil, "config", command, "--config", "bad.yaml")
		assert.True(t, got.exit == cli.ExitUsage && got.out == "", "%+v", got)
		contains(t, got.err, "2 mistakes", "bad.yaml:2:10: worker.slots: want 1", "bad.yaml:3:3: unknown key worker.sloths")
		as := decoded(t, in(t, nil, nil, "config", command, "--config", "bad.yaml", "--json").err)
		assert.True(t, as["code"] == "bad_config" && strings.Contains(as["error"].(string), "2 mistakes"), "%v", as)
	}
	got := in(t, nil, nil, "config", "validate", "--json")
	as := decoded(t, got.out)
	assert.True(t, as["valid"] == true && as["indexes"] == 0.0, "without any file: %+v", got)
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

// Every command that begins a build sends the files that the configuration names as they are now: a worker cannot read
// them.
func TestFilesOfTheConfigurationAreSentAsTheyAreNow(t *testing.T) {
	folder := t.TempDir()
	probes, aliases := filepath.Join(folder, "probes.jsonl"), filepath.Join(folder, "aliases.txt")
	require.NoError(t, os.WriteFile(aliases, []byte("pin Bern | Berne\n"), 0o600))
	settings := filepath.Join(folder, "unweaver.yaml")
	require.NoError(t, os.WriteFile(settings, fmt.Appendf(nil, "indexes: {docs: {corpus: %s, aliases: %s, "+
		"gate: {probes: %s}, schedule: {cron: '@daily'}}}\n", folder, aliases, probes), 0o600))
	for _, command := range []string{
		"index --index docs", "index --index docs --dry-run", "estimate --index docs", "schedule apply",
		"purge docs a.md --yes",
	} {
		seen := map[string]bool{}
		for _, question := range []string{"Who?", "Where?"} {
			line := fmt.Sprintf("{%q: %q, %q: [%q]}", "question", question, "documents", "a.md")
			require.NoError(t, os.WriteFile(probes, []byte(line), 0o600))
			c := &fakeControl{purging: purgeOf(), statuses: []control.Status{finished(core.StatusCompleted)}}
			got := run(t, c, append(strings.Fields(command), "--config", settings)...)
			sent, gate := c.sent, c.gate
			if len(c.request.Probes) > 0 {
				sent, gate = c.request.Files, c.request.Spec.Gate
			}
			assert.True(t, got.exit == 0 && string(sent.Probes) == line && strings.HasPrefix(gate.Probes, core.SentFile),
				"%s: %+v, sent %q as %q", command, got, sent.Probes, gate.Probes)
			assert.True(t, len(sent.Aliases) > 0 || strings.HasPrefix(command, "purge"), "%s sends no aliases", command)
			seen[gate.Probes] = true
		}
		assert.Len(t, seen, 2, "%s does not notice that the file changed", command)
	}
	for _, command := range []string{"schedule apply", "purge docs a.md --yes", "config validate"} {
		require.NoError(t, os.WriteFile(probes, []byte("{}"), 0o600))
		got := run(t, &fakeControl{purging: purgeOf()}, append(strings.Fields(command), "--config", settings)...)
		assert.True(t, got.exit != 0 && strings.Contains(got.err, probes), "%s with a bad file: %+v", command, got)
	}
}

func TestModelsSaysWhatIsThereAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	setting := "models.dir=" + dir
	list := decoded(t, in(t, nil, nil, "models", "list", "--json", "--set", setting).out)
	models := list["models"].([]any)
	assert.True(t, len(models) == len(neural.Models) && list["ok"] == true && list["dir"] == dir, "%v", list)
	got := in(t, nil, nil, "models", "verify", "--set", setting)
	assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, "unweaver models pull"),
		"nothing there: %+v", got)
	got = in(t, nil, nil, "models", "verify", "e5", "--set", setting)
	assert.True(t, got.exit == cli.ExitFailed && strings.Contains(got.out, "missing") &&
		strings.Contains(got.out, "models pull e5"), "missing: %+v", got)

	e5, _ := neural.Find("e5")
	damaged := filepath.Join(dir, "e5", e5.Files[0].Name)
	require.NoError(t, os.MkdirAll(filepath.Dir(damaged), 0o700))
	require.NoError(t, os.WriteFile(damaged, []byte("E5S1"), 0o600))
	verified := in(t, nil, nil, "models", "verify", "--json", "--set", setting)
	state := decoded(t, verified.out)["models"].([]any)[0].(map[string]any)
	assert.True(t, verified.exit == cli.ExitFailed && state["status"] == neural.Damaged &&
		strings.Contains(state["problem"].(string), damaged), "damaged: %+v", verified)
	got = in(t, nil, nil, "models", "list", "--set", setting)
	assert.True(t, strings.Contains(got.out, neural.Damaged), "damaged: %+v", got)

	for what, args := range map[string][]string{
		"no such model":     {"models", "pull", "none"},
		"none to verify":    {"models", "verify", "none"},
		"no such file":      {"models", "pull", "e5", "--from", filepath.Join(dir, "nowhere.whl")},
		"a file of another": {"models", "pull", "e5", "--from", damaged},
		"two names":         {"models", "pull", "e5", "minilm"},
	} {
		got := in(t, nil, nil, append(args, "--set", setting)...)
		assert.True(t, got.exit == cli.ExitUsage && got.err != "" && got.out == "", "%s: %+v", what, got)
	}
	raw, err := os.ReadFile(damaged)
	assert.True(t, err == nil && string(raw) == "E5S1", "a pull that failed wrote: %v", err)
}

func TestAModelInsideIsConfiguredByItsName(t *testing.T) {
	t.Chdir(t.TempDir())
	for setting, want := range map[string]string{
		"models.embedding.model=e5":                     "",
		"models.embedding.model=text-embedding-3-small": "not a built-in model",
	} {
		require.NoError(t, os.WriteFile("unweaver.yaml", []byte("indexes: {docs: {}}\n"), 0o600))
		got := in(t, nil, nil, "config", "show", "--json", "--set", setting)
		assert.True(t, (got.exit == cli.ExitDone) == (want == "") && strings.Contains(got.err, want), "%s: %+v", setting, got)
	}
}

func TestTheCodecKeyIsMadeOnceAndKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "codec.key")
	first, again := in(t, nil, nil, "certs", "codec-key", file), in(t, nil, nil, "certs", "codec-key", file, "--json")
	id, _ := decoded(t, again.out)["key"].(string)
	assert.True(t, first.exit == cli.ExitDone && again.exit == cli.ExitDone && id != "" && strings.Contains(first.out, id),
		"%+v, %+v", first, again)
}

func TestCertificatesOfAServerAndItsClientsAreMadeAndFitTogether(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	got := in(t, nil, nil, "certs", "create", folder, "--host", "temporal", "--host", "127.0.0.1")
	require.True(t, got.exit == cli.ExitDone && strings.Count(got.out, "written: ") == 6, "%+v", got)
	read := func(name string) []byte {
		raw := musttest.Get(os.ReadFile(filepath.Join(folder, name)))(t)
		info, err := os.Stat(filepath.Join(folder, name))
		assert.True(t, err == nil && info.Mode().Perm() == 0o600, "%s: %v, %v", name, info.Mode(), err)
		return raw
	}
	for _, pair := range [][2]string{{"server.pem", "server-key.pem"}, {"client.pem", "client-key.pem"}} {
		_, _, err := pkitest.Mutual(read("ca.pem"), pki.Pair{Cert: read(pair[0]), Key: read(pair[1])}, "")
		assert.NoError(t, err, "%s", pair[0])
	}
	key := string(read("ca-key.pem"))
	got = in(t, nil, nil, "certs", "create", folder, "--host", "temporal")
	assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, "already exists") &&
		string(read("ca-key.pem")) == key, "written over: %+v", got)
	got = in(t, nil, nil, "certs", "create", folder, "--host", "temporal", "--force", "--json")
	assert.True(t, got.exit == cli.ExitDone && len(decoded(t, got.out)["written"].([]any)) == 6 &&
		string(read("ca-key.pem")) != key, "%+v", got)
	for _, args := range [][]string{
		{"certs", "create"}, {"certs", "create", folder},
		{"certs", "create", folder, "--host", "temporal", "--force", "--days", "0"},
	} {
		got = in(t, nil, nil, args...)
		assert.True(t, got.exit == cli.ExitUsage, "%v: %+v", args, got)
	}
}

// keeping serves keys as the embedded stack does.
func keeping(t *testing.T, allowed httpapi.Access) cli.Connector {
	server := httptest.NewServer(httpapi.Handler(&fakeControl{}, allowed))
	t.Cleanup(server.Close)
	return func(context.Context, *config.Config) (cli.Connection, error) {
		client := &httpapi.Client{Base: server.URL, Token: token}
		return cli.Connection{Control: client, HTTP: server.URL, Keys: client}, nil
	}
}

func TestKeysAreMadeListedReplacedAndEnded(t *testing.T) {
	t.Chdir(t.TempDir())
	connect := keeping(t, httpapi.Access{Token: token, Keys: access.Book{Store: blobmemory.New()}})
	made := in(t, connect, nil, "keys", "create", "--name", "page", "--index", "docs-*", "--rate", "5", "--json")
	key := decoded(t, made.out)
	text, _ := key["text"].(string)
	about, _ := key["key"].(map[string]any)
	id, _ := about["id"].(string)
	require.True(t, made.exit == cli.ExitDone && access.WellFormed(text) && about["scope"] == "query" &&
		about["index"] == "docs-*", "%+v", made)
	rotated := in(t, connect, nil, "keys", "rotate", id, "--overlap", "1h")
	assert.True(t, rotated.exit == cli.ExitDone && strings.Contains(rotated.out, "uwk_") &&
		!strings.Contains(rotated.out, text), "%+v", rotated)
	assert.Equal(t, cli.ExitDone, in(t, connect, nil, "keys", "revoke", id).exit)
	list := in(t, connect, nil, "keys", "list")
	assert.True(t, strings.Contains(list.out, "revoked") && strings.Contains(list.out, "valid") &&
		!strings.Contains(list.out, "uwk_"), "%s", list.out)
	assert.Equal(t, cli.ExitUsage, in(t, connect, nil, "keys", "create", "--scope", "root").exit, "an unknown scope")
	bad := in(t, connect, nil, "keys", "create", "--rate", "NaN")
	assert.True(t, bad.exit == cli.ExitUsage && strings.Contains(bad.err, "--rate requires a number"), "no number: %+v", bad)
}
