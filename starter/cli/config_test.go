package cli_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
	"github.com/unweaver/unweaver/starter/cli/console"
)

func TestConfigInitWritesAFileThatIsValidAndNeverOverwrites(t *testing.T) {
	t.Chdir(t.TempDir())
	does(t, nil, "config init", console.ExitDone, "wrote unweaver.yaml")
	contains(t, string(musttest.Get(os.ReadFile("unweaver.yaml"))(t)), "concurrency: 64", "# longest chunk")
	does(t, nil, "config validate", console.ExitDone, "valid: 1 indexes (docs)\n")
	writeFiles(t, map[string]string{"unweaver.yaml": "# mine\n"})
	as := decoded(t, does(t, nil, "config init --json", console.ExitUsage).err)
	assert.Contains(t, as["error"], "already exists")
	assert.Equal(t, "# mine\n", string(musttest.Get(os.ReadFile("unweaver.yaml"))(t)))
	other := filepath.Join(t.TempDir(), "other.yaml")
	as = decoded(t, does(t, nil, "config init --json --config "+other, console.ExitDone).out)
	assert.Equal(t, other, as["written"])
	does(t, nil, "config init --config "+other+"/below", console.ExitFailed, "name another file with --config")
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
	writeFiles(t, map[string]string{"bad.yaml": "worker:\n  slots: 0\n  sloths: 1\n"})
	for _, command := range []string{"validate", "show"} {
		got := does(t, nil, "config "+command+" --config bad.yaml", console.ExitUsage, "2 mistakes",
			"bad.yaml:2:10: worker.slots: want 1", "bad.yaml:3:3: unknown key worker.sloths")
		assert.Empty(t, got.out)
		as := decoded(t, does(t, nil, "config "+command+" --config bad.yaml --json", console.ExitUsage).err)
		assert.True(t, as["code"] == "bad_config" && strings.Contains(as["error"].(string), "2 mistakes"), "%v", as)
	}
	as := decoded(t, does(t, nil, "config validate --json", console.ExitDone).out)
	assert.True(t, as["valid"] == true && as["indexes"] == 0.0, "without any file: %+v", as)
}

func TestConfigValidateReadsFilesOfAliases(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFiles(t, map[string]string{
		"unweaver.yaml": "indexes: {docs: {corpus: /data, aliases: names.txt}}\n",
		"names.txt":     "pin Ada | Lovelace\npin Lovelace | Ada\n",
	})
	got := does(t, nil, "config validate", console.ExitUsage, "pinned in a circle", "names.txt", "indexes.docs.aliases")
	assert.Equal(t, 1, strings.Count(got.err, "fix the"), got.err)
	writeFiles(t, map[string]string{"names.txt": "pin Ada | Lovelace\n"})
	does(t, nil, "config validate", console.ExitDone)
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
			c := &fakeControl{Purging: purgeOf(), Statuses: []control.Status{finished(core.StatusCompleted)}}
			got := run(t, c, append(strings.Fields(command), "--config", settings)...)
			applied := last[control.ScheduleRequest](c)
			sent, gate := applied.Files, applied.Spec.Gate
			if build := last[control.IndexRequest](c); len(build.Probes) > 0 {
				sent, gate = build.Files, build.Spec.Gate
			} else if purge := last[control.PurgeRequest](c); purge.Gate != nil {
				sent, gate = purge.Files, *purge.Gate
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
		got := run(t, &fakeControl{Purging: purgeOf()}, append(strings.Fields(command), "--config", settings)...)
		assert.True(t, got.exit != 0 && strings.Contains(got.err, probes), "%s with a bad file: %+v", command, got)
	}
}

func TestModelsSaysWhatIsThereAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	setting := " --set models.dir=" + dir
	list := decoded(t, does(t, nil, "models list --json"+setting, console.ExitDone).out)
	models := list["models"].([]any)
	assert.True(t, len(models) == len(neural.Models) && list["ok"] == true && list["dir"] == dir, "%v", list)
	does(t, nil, "models verify"+setting, console.ExitUsage, "unweaver models pull")
	does(t, nil, "models verify e5"+setting, console.ExitFailed, "missing", "models pull e5")

	e5, _ := neural.Find("e5")
	damaged := filepath.Join(dir, "e5", e5.Files[0].Name)
	require.NoError(t, os.MkdirAll(filepath.Dir(damaged), 0o700))
	writeFiles(t, map[string]string{damaged: "E5S1"})
	verified := decoded(t, does(t, nil, "models verify --json"+setting, console.ExitFailed).out)
	state := verified["models"].([]any)[0].(map[string]any)
	assert.Equal(t, neural.Damaged, state["status"])
	assert.Contains(t, state["problem"], damaged)
	does(t, nil, "models list"+setting, console.ExitDone, neural.Damaged)

	for _, args := range []string{
		"pull none", "verify none", "pull e5 --from " + dir + "/nowhere.whl", "pull e5 --from " + damaged, "pull e5 minilm",
	} {
		got := does(t, nil, "models "+args+setting, console.ExitUsage)
		assert.True(t, got.err != "" && got.out == "", "%s: %+v", args, got)
	}
	assert.Equal(t, "E5S1", string(musttest.Get(os.ReadFile(damaged))(t)), "a pull that failed wrote")
}

func TestCertificatesOfAServerAndItsClientsAreMadeAndFitTogether(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	create := "certs create " + folder
	got := does(t, nil, create+" --host temporal --host 127.0.0.1", console.ExitDone)
	require.Equal(t, 6, strings.Count(got.out, "written: "), got.out)
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
	does(t, nil, create+" --host temporal", console.ExitUsage, "already exists")
	assert.Equal(t, key, string(read("ca-key.pem")))
	as := decoded(t, does(t, nil, create+" --host temporal --force --json", console.ExitDone).out)
	assert.Len(t, as["written"], 6)
	assert.NotEqual(t, key, string(read("ca-key.pem")))
	codecKey := "certs codec-key " + filepath.Join(folder, "codec.key")
	made := does(t, nil, codecKey, console.ExitDone)
	assert.Contains(t, made.out, decoded(t, does(t, nil, codecKey+" --json", console.ExitDone).out)["key"])
	for _, bad := range []string{"certs create", create, create + " --host temporal --force --days 0"} {
		does(t, nil, bad, console.ExitUsage)
	}
}

func keeping(t *testing.T, allowed httpapi.Access) console.Connector {
	server := httptest.NewServer(httpapi.Handler(control.Of(&fakeControl{}), allowed))
	t.Cleanup(server.Close)
	return func(context.Context, *config.Config) (console.Connection, error) {
		client := httpapi.NewClient(server.URL, token)
		return console.Connection{Control: client.Control, HTTP: server.URL, Keys: client.Keys}, nil
	}
}

func TestKeysAreMadeListedReplacedAndEnded(t *testing.T) {
	t.Chdir(t.TempDir())
	connect := keeping(t, httpapi.Access{Token: token, Keys: access.Book{Store: blobmemory.New()}.Keeper()})
	key := decoded(t, does(t, connect, "keys create --name page --index docs-* --rate 5 --json", console.ExitDone).out)
	text, _ := key["text"].(string)
	about, _ := key["key"].(map[string]any)
	id, _ := about["id"].(string)
	require.True(t, access.WellFormed(text) && about["scope"] == "query" && about["index"] == "docs-*", "%+v", key)
	assert.NotContains(t, does(t, connect, "keys rotate --overlap 1h "+id, console.ExitDone, "uwk_").out, text)
	does(t, connect, "keys revoke "+id, console.ExitDone)
	does(t, connect, "keys create --labels a,b,c,d,e,f,g", console.ExitDone, "labels a,b,c,d,e and 2 more")
	assert.NotContains(t, does(t, connect, "keys list", console.ExitDone, "revoked", "valid", "e and 2 more").out, "uwk_")
	does(t, connect, "keys create --scope root", console.ExitUsage)
	does(t, connect, "keys create --rate NaN", console.ExitUsage, "--rate requires a number")
}

var update = flag.Bool("update", false, "write docs/reference/cli.md again")

const referencePath = "../../docs/reference/cli.md"

const firstMade = "\n## Flags of every command\n"

func reference() string {
	var text strings.Builder
	root := cli.Commands()
	text.WriteString(firstMade + block(root.PersistentFlags().FlagUsages()))
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		if command.Runnable() {
			about := command.Long
			if about == "" {
				about = command.Short + "."
			}
			fmt.Fprintf(&text, "\n## `%s`\n\n%s\n", command.UseLine(), listed(about))
			if command.Example != "" {
				text.WriteString("\n```sh\n" + dedented(command.Example) + "\n```\n")
			}
			text.WriteString(block(command.LocalNonPersistentFlags().FlagUsages()))
		}
		for _, below := range command.Commands() {
			visit(below)
		}
	}
	visit(root)
	return text.String()
}

// dedented takes the indentation of help off.
func dedented(text string) string {
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n  ", "\n"), "  ")
}

func listed(text string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if indented := strings.HasPrefix(line, "  "); indented != inside {
			if inside = indented; inside {
				out.WriteString("```text\n")
			} else {
				out.WriteString("```\n")
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// block shows flags as --help does, or nothing where there are none.
func block(usages string) string {
	if usages == "" {
		return ""
	}
	return "\n```text\n" + usages + "```\n"
}

func TestTheReferenceIsMadeFromTheCommands(t *testing.T) {
	raw := musttest.Get(os.ReadFile(referencePath))(t)
	head, _, found := strings.Cut(string(raw), firstMade)
	require.True(t, found)
	want := head + reference()
	if *update {
		require.NoError(t, os.WriteFile(referencePath, []byte(want), 0o644))
	} else {
		assert.True(t, string(raw) == want, "%s is not what the commands say: go test ./starter/cli -update", referencePath)
	}
}

func TestEveryCommandSaysWhatItDoes(t *testing.T) {
	seen := 0
	for _, command := range cli.Commands().Commands() {
		seen++
		assert.True(t, command.GroupID != "", "unweaver --help lists %s below no group", command.Name())
		assert.True(t, command.Short != "" && (command.Args != nil || !command.Runnable()),
			"%s: %q, arguments are checked: %t", command.Name(), command.Short, command.Args != nil)
		for _, one := range append(command.Commands(), command) {
			assert.True(t, !one.Runnable() || strings.Contains(one.Example, "unweaver "+one.Name()) ||
				strings.Contains(one.Example, one.Parent().Name()+" "+one.Name()),
				"%s has no example that calls it: %q", one.CommandPath(), one.Example)
		}
	}
	assert.True(t, seen >= 13, "%d commands", seen)
}

// A command takes its index in front of its other arguments, alone or with a generation, or as --index.
func TestAnIndexMayStandInFrontOfTheArguments(t *testing.T) {
	for _, args := range []string{
		"rollback docs g1", "rollback docs/g1", "rollback g1 --index docs", "rollback --index docs g1",
	} {
		c := &fakeControl{}
		got, move := run(t, c, strings.Fields(args)...), last[control.MoveRequest](c)
		assert.True(t, got.exit == 0 && move.Index == "docs" && move.Generation == "g1", "%s: %+v, %+v", args, got, move)
	}
	asked := &queries{bodies: []string{`{"index":"docs","chunks":[]}`}}
	server := httptest.NewServer(asked)
	defer server.Close()
	if got := in(t, withConnection(&fakeControl{}, server.URL), nil, "query", "docs", "Who wove it?"); got.exit != 0 ||
		asked.paths[0] != "/v1/indexes/docs/query" || asked.asked[0]["query"] != "Who wove it?" {
		t.Errorf("query docs QUESTION: %+v", got)
	}
	for args, says := range map[string]string{
		"generations docs more": "want no argument, got 2", "operations": "no index is named",
		"publish docs": "want INDEX GEN, got docs alone", "tag docs g1": "want INDEX GEN NAME, got docs g1 alone",
		"dead-letters show kb": "want INDEX PASSAGE, got kb alone", "rollback": "no index is named",
	} {
		got := run(t, &fakeControl{}, strings.Fields(args)...)
		assert.True(t, got.exit == 2 && strings.Contains(got.err, says), "%s: %+v", args, got)
	}
}
