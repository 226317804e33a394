// Package programs tests the built programs as a person uses them: the embedded stack, the command line, HTTP and the
// Model Context Protocol. UNWEAVER_TEST_BIN is the folder of the programs (make test sets it).
package programs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// installation is a data directory with its configuration, its corpus, and the process that serves it.
type installation struct {
	t            *testing.T
	corpus, data string
	env          []string
	log          *os.File // of every program
	dev          *exec.Cmd
	said         string // by the last start of dev, on standard error
	http         string
}

const settings = `
models:
  chat: {provider: openai, model: chat, base_url: "%[1]s", api_key_env: E2E_KEY}
  embedding: {provider: openai, model: embedding, base_url: "%[1]s", api_key_env: E2E_KEY}
indexes:
  docs: {corpus: "%[2]s", gate: {max_removed: 0.5}}
  again: {corpus: "%[2]s"}
`

// bin is the folder of the programs, whose own environment knows no variable of tests.
var bin = os.Getenv("UNWEAVER_TEST_BIN")

func install(t *testing.T, models, settings string) *installation {
	t.Helper()
	if bin == "" {
		t.Skip("UNWEAVER_TEST_BIN names no folder of programs: make test sets it")
	}
	at := t.TempDir()
	i := &installation{t: t, corpus: filepath.Join(at, "corpus")}
	i.env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "UNWEAVER_")
	}), "UNWEAVER_CONFIG="+filepath.Join(at, "unweaver.yaml"), "E2E_KEY=e2e")
	i.write(filepath.Join(at, "unweaver.yaml"), fmt.Sprintf(settings, models, i.corpus))
	i.log = musttest.Get(os.OpenFile(filepath.Join(at, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	t.Cleanup(func() {
		_ = i.log.Close()
		if said, err := os.ReadFile(i.log.Name()); t.Failed() && err == nil {
			t.Logf("%s", said[max(0, len(said)-8000):])
		}
	})
	return i.on(filepath.Join(at, "data"))
}

func (i *installation) on(data string) *installation {
	other := *i
	other.data, other.dev = data, nil
	other.env = append(slices.Clip(i.env), "UNWEAVER_DATA_DIR="+data)
	return &other
}

func (i *installation) write(path, text string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(i.corpus, path)
	}
	require.NoError(i.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(i.t, os.WriteFile(path, []byte(text), 0o600))
}

func (i *installation) command(args ...string) *exec.Cmd {
	command := exec.CommandContext(i.t.Context(), filepath.Join(bin, "unweaver"), args...)
	command.Env, command.Stderr = i.env, i.log
	return command
}

func (i *installation) run(args ...string) (out map[string]any) {
	raw, err := i.command(append(args, "--json")...).Output()
	for range 5 {
		if err == nil || len(raw) > 0 {
			break
		}
		raw, err = i.command(append(args, "--json")...).Output()
	}
	for objects := json.NewDecoder(bytes.NewReader(raw)); err == nil; {
		var next map[string]any
		if err = objects.Decode(&next); err == nil {
			out = next
		}
	}
	require.True(i.t, errors.Is(err, io.EOF) && out != nil, "unweaver %s: %v: %s", strings.Join(args, " "), err, raw)
	return out
}

func (i *installation) start() {
	require.True(i.t, i.begin(), "the stack ended before it was ready")
}

// busy is what a program prints whose engine did not answer in time: the machine has other work.
var busy = regexp.MustCompile(`deadline exceeded|run the engine, temporal: exit status 2`)

// begin runs the embedded stack on free ports, and returns false where it ends before it is ready.
func (i *installation) begin() bool {
	i.t.Helper()
	for range 5 {
		if i.beginOnce() {
			return true
		}
		if !busy.MatchString(i.said) {
			break
		}
		i.t.Logf("started again: %s", i.said)
	}
	return false
}

func (i *installation) beginOnce() bool {
	said := &bytes.Buffer{}
	i.dev = i.command("dev", "--http-port", "0", "--temporal-port", "0")
	i.dev.Stderr, i.dev.WaitDelay = io.MultiWriter(said, i.log), 10*time.Second
	i.dev.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := i.dev.StdoutPipe()
	if err == nil {
		err = i.dev.Start()
	}
	require.NoError(i.t, err)
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready") {
				ready <- true
			}
		}
		close(ready)
	}()
	if !<-ready {
		i.kill()
		i.said = said.String()
		return false
	}
	var dev struct{ HTTP string }
	raw, err := os.ReadFile(filepath.Join(i.data, "dev.json"))
	if err == nil {
		err = json.Unmarshal(raw, &dev)
	}
	require.NoError(i.t, err)
	i.http = dev.HTTP
	return true
}

func (i *installation) kill() {
	if i.dev != nil && i.dev.Process != nil {
		_ = syscall.Kill(-i.dev.Process.Pid, syscall.SIGKILL)
		_ = i.dev.Wait()
	}
}

func (i *installation) ask(question string) (documents []string) {
	i.t.Helper()
	body, _ := json.Marshal(map[string]any{"query": question, "top_chunks": 10})
	response := musttest.Get(http.Post(i.http+"/v1/indexes/docs/query", "application/json", bytes.NewReader(body)))(i.t)
	defer func() { _ = response.Body.Close() }()
	var out struct {
		Chunks []struct{ Document string }
		Detail string
	}
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil || response.StatusCode != http.StatusOK {
		i.t.Fatalf("%d %s: %v", response.StatusCode, out.Detail, err)
	}
	for _, chunk := range out.Chunks {
		documents = append(documents, chunk.Document)
	}
	return documents
}

func (i *installation) call(question string) string {
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(i.t.Context(), &sdk.CommandTransport{Command: i.command("mcp")}, nil)
	require.NoError(i.t, err)
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(i.t.Context(),
		&sdk.CallToolParams{Name: "search", Arguments: map[string]any{"index": "docs", "query": question}})
	require.True(i.t, err == nil && !result.IsError, "%+v %v", result, err)
	return result.Content[0].(*sdk.TextContent).Text
}

// A first build, and a night with an edit and a deletion amid which kill -9 ends the stack: the night goes on where it
// was, comes to what a build from nothing comes to, pays for nothing twice but the call in flight, and HTTP and MCP
// answer by it.
func TestANightThatIsKilledIsAnsweredOverHTTPAndMCP(t *testing.T) {
	var shut atomic.Bool
	asked := make(chan bool, 100)
	server := modeltest.New(modeltest.Options{Script: func(seen modeltest.Seen) modeltest.Injection {
		hang := shut.Load() && seen.Task == "extract" && strings.Contains(seen.Text, "Quorn")
		if hang {
			asked <- true
		}
		return modeltest.Injection{Hang: hang}
	}})
	require.NoError(t, server.Listen("127.0.0.1:0"))
	defer server.Close()
	i := install(t, server.URL, settings)
	i.write("fortress.txt", "Quillon is a fortress in Veldoria.")
	i.write("harbour.txt", "Marbeck is a harbour in Sondrik.")
	i.write("hill.txt", "Tarrow is a hill in Sondrik.")
	i.start()
	defer func() { i.kill() }()
	first := i.run("index", "--index", "docs", "--wait")
	require.True(t, first["status"] == "completed", "the first build: %v", first)
	got := i.ask("Where is the fortress Quillon?")
	assert.True(t, len(got) != 0 && got[0] == "fortress.txt", "HTTP finds %q", got)
	assert.Contains(t, i.call("Where is the fortress Quillon?"), "Quillon is a fortress in Veldoria.")
	require.NoError(t, os.Remove(filepath.Join(i.corpus, "fortress.txt")))
	i.write("hill.txt", "Tarrow is a lake near Quorn.")
	shut.Store(true)
	run := i.run("index", "--index", "docs")["run"].(string)
	<-asked
	i.kill()
	shut.Store(false)
	i.start()
	night := i.run("status", run, "--watch")
	require.True(t, night["status"] == "completed" && night["published"] == true, "the night: %v", night)
	paid := server.Stats()
	assert.True(t, paid.Duplicates <= 1, "%d answers were paid for twice, one was in flight", paid.Duplicates)
	got = i.ask("Quillon fortress Veldoria, Tarrow lake Quorn")
	assert.True(t, len(got) == 2 && got[0] == "hill.txt", "HTTP finds %q", got)
	said := i.call("Is Tarrow a lake near Quorn? Quillon?")
	assert.NotContains(t, said, "Quillon is")
	assert.Contains(t, said, "Tarrow is a lake near Quorn.")
	before, nothing := server.Stats().Chat, i.run("index", "--index", "again", "--wait")
	for _, hash := range []string{"content_hash", "text_hash", "vector_hash"} {
		assert.True(t, nothing[hash] != "" && nothing[hash] == night[hash], "%s is %v, from nothing %v", hash, night[hash],
			nothing[hash])
	}
	assert.Equal(t, before, server.Stats().Chat, "a build from nothing of what was paid for called the model")
}

const operationSettings = `
models:
  chat: {provider: openai, model: chat, base_url: "%[1]s", api_key_env: E2E_KEY}
  embedding: {provider: openai, model: embedding, base_url: "%[1]s", api_key_env: E2E_KEY}
  limits: {concurrency: 4}
indexes:
  first: {corpus: "%[2]s/first"}
  enriched: {corpus: "%[2]s/enriched", enrich: [gem, facts, aliases]}
  night: {corpus: "%[2]s/night", enrich: [gem]}
  merged: {corpus: "%[2]s/merged"}
  batched: {corpus: "%[2]s/batched", models: {chat: {mode: batch, batch: {poll: 100ms, requests: 4}}}}
  gated: {corpus: "%[2]s/gated", gate: {max_removed: 1, max_size_change: 0.2}}
  failing: {corpus: "%[2]s/failing"}
  archive: {corpus: "%[2]s/archive"}
`

var kills = flag.Int("kills", 7, "of each operation")

// inFlight is how many calls may be in flight: what a kill may have paid for again.
const inFlight = 4

// operation is what is killed: commands on an index. GEN is the generation that they name.
type operation struct {
	name, index string
	commands    []string
}

var operations = []operation{
	{"first build", "first", []string{"index --index first --wait"}},
	{"first build with enrichments", "enriched", []string{"index --index enriched --wait"}},
	{"night", "night", []string{"index --index night --wait"}},
	{"night with a merge", "merged", []string{"index --index merged --wait"}},
	{"index --rebuild", "night", []string{"index --index night --rebuild --wait"}},
	{"first build in mode batch", "batched", []string{"index --index batched --wait"}},
	{"restore", "night", []string{"restore --index night"}},
	{"purge", "night", []string{"purge quay-03.md --index night --yes --wait"}},
	{"rollback", "night", []string{"rollback GEN --index night"}},
	{"publish of a held generation", "gated", []string{"publish GEN --index gated"}},
	{"branch and its build", "line", []string{
		"branch merged --as line --set shortening.threshold=200", "index --index line --wait",
	}},
	{"promote", "archive", []string{"promote wide"}},
	{"retry-failed", "failing", []string{"retry-failed failing --wait"}},
	{"backfill", "archive", []string{"backfill start old --index archive --prefix old/ --wait"}},
}

// site is a data directory on which each operation may be asked for.
type site struct {
	*installation
	server      *modeltest.Server
	generations map[string]string // what GEN is, by index
}

func newSite(t *testing.T, building sync.Locker) *site {
	building.Lock()
	defer building.Unlock()
	server := modeltest.Start(t, modeltest.Options{Poison: "Zyxpoison"})
	s := &site{installation: install(t, server.URL, operationSettings), server: server, generations: map[string]string{}}
	put := func(index string, n, night int) {
		name, text := quay(n, night)
		s.write(filepath.Join(index, name), strings.ReplaceAll(text, "Verin", "Verin "+index))
	}
	for _, index := range strings.Fields("first enriched night merged batched gated failing archive") {
		for n := range 16 {
			put(index, n, 0)
		}
	}
	s.write("failing/stone.md", "# Stone\n\nThe Zyxpoison stone of Verin was found by Dora Sanz.\n")
	s.start()
	defer s.kill()
	for _, index := range strings.Fields("night merged gated archive") {
		s.must(0, "index", "--index", index, "--wait")
	}
	s.generations["night"] = s.current("night")["generation"].(string)
	s.must(3, "index", "--index", "failing", "--wait")
	put("night", 20, 1)
	s.must(0, "index", "--index", "night", "--wait")
	s.must(0, "branch", "archive", "--as", "wide", "--set", "shortening.threshold=200")
	s.must(0, "index", "--index", "wide", "--wait")
	for n := range 8 {
		require.NoError(t, os.Remove(filepath.Join(s.corpus, "gated", fmt.Sprintf("quay-%02d.md", n))))
		put("merged", n, 1)
		put("archive/old", 30+n, 1)
	}
	s.must(4, "index", "--index", "gated", "--wait")
	for _, one := range s.run("generations", "--index", "gated")["generations"].([]any) {
		if one := one.(map[string]any); one["state"] == "held" {
			s.generations["gated"] = one["generation"].(string)
		}
	}
	require.NotEmpty(t, s.generations["gated"], "no generation is held")
	put("night", 2, 1)
	put("night", 21, 1)
	s.stop()
	server.Set(modeltest.Options{Latency: 60 * time.Millisecond, EmbedLatency: 60 * time.Millisecond})
	return s
}

// current describes the generation of an index that is served.
func (i *installation) current(index string) map[string]any {
	for _, one := range i.run("generations", "--index", index)["generations"].([]any) {
		if one := one.(map[string]any); one["state"] == "current" {
			return one
		}
	}
	return nil
}

type outcome struct {
	hashes  string
	replies []reply
	paid    int64 // answers
	texts   int64 // embedded
}

func (o outcome) equals(other outcome) bool {
	return o.hashes == other.hashes && slices.Equal(o.replies, other.replies)
}

func (s *site) outcome(i *installation, index string) (o outcome) {
	stats := s.server.Stats()
	o.paid, o.texts = stats.Chat-stats.Probes, stats.Texts
	current := i.current(index)
	o.hashes = fmt.Sprint(current["content_hash"], current["text_hash"], current["vector_hash"])
	o.replies = i.replies(index)
	return o
}

// do runs the commands of an operation until the context ends, and returns what they print.
func (s *site) do(ctx context.Context, i *installation, o operation) (said string) {
	for _, line := range o.commands {
		args := strings.Fields(strings.ReplaceAll(line, "GEN", s.generations[o.index]))
		command := exec.CommandContext(ctx, filepath.Join(bin, "unweaver"), args...)
		command.Env = i.env
		raw, err := command.CombinedOutput()
		said += fmt.Sprintf("$ %s\n%s(%v)\n", strings.Join(args, " "), raw, err)
	}
	return said
}

type killed struct {
	operation   string
	after, of   time.Duration // the start of the operation; how long an undisturbed one took
	paid, texts int64         // beside what an undisturbed one paid
	asked       int           // how often the commands were given after the restart
	equal       bool
	again       time.Duration // from the restart to the end
}

// killAmid runs one trial: it kills an operation after a while, and gives its commands again.
func (s *site) killAmid(o operation, calm outcome, took, after time.Duration, at string) (k killed, said string) {
	k = killed{operation: o.name, after: after, of: took}
	i := s.on(at)
	defer func() { _ = os.RemoveAll(at) }()
	copyFolder(s.t, s.data, at)
	s.server.Reset()
	i.start()
	defer func() { i.kill() }()
	ctx, cancel := context.WithTimeout(s.t.Context(), after)
	defer cancel()
	_ = s.do(ctx, i, o)
	<-ctx.Done()
	i.kill()
	begun := time.Now()
	i.start()
	for ; !k.equal && k.asked < 5; k.asked++ {
		said += s.do(s.t.Context(), i, o)
		got := s.outcome(i, o.index)
		if k.equal = got.equals(calm); !k.equal {
			said += got.hashes + "\n"
		}
		if k.asked == 0 {
			k.paid, k.texts = got.paid-calm.paid, got.texts-calm.texts
		}
	}
	k.again = time.Since(begun)
	return k, said
}

// Any operation is killed at a random moment, as kill -9 does; given again after the restart it comes to the hashes and
// answers of an undisturbed one, and pays for no more than what was in flight.
// Promises: 1.
func TestAnyOperationThatIsKilledEndsAsIfUndisturbed(t *testing.T) {
	longtest.Nightly(t)
	var building sync.Mutex
	inLanes(t, 2, 0, len(operations), func(t *testing.T) func(int) {
		s := newSite(t, &building)
		return func(n int) { s.killEach(operations[n], rand.New(rand.NewPCG(*seed, uint64(n))), *kills) }
	})
}

func (s *site) killEach(o operation, random *rand.Rand, times int) {
	at := s.data + ".calm"
	i := s.on(at)
	copyFolder(s.t, s.data, at)
	s.server.Reset()
	i.start()
	begun, said := time.Now(), s.do(s.t.Context(), i, o)
	took, calm := time.Since(begun), s.outcome(i, o.index)
	i.kill()
	_ = os.RemoveAll(at)
	s.t.Logf("%s, undisturbed: %s, %d answers, %d texts", o.name, took, calm.paid, calm.texts)
	assert.True(s.t, !strings.Contains(said, "exit status") || strings.Contains(said, "exit status 3"),
		"%s, undisturbed: %s", o.name, said)
	for n := range times {
		k, said := s.killAmid(o, calm, took, time.Duration(random.Int64N(int64(took))), fmt.Sprintf("%s.%d", s.data, n))
		s.t.Logf("%+v", k)
		assert.True(s.t, k.equal && k.paid <= inFlight && k.texts <= inFlight*256, "seed %d, %s, kill %d: %+v, want %s: %s",
			*seed, o.name, n, k, calm.hashes, said)
	}
}

// block finds the shell commands of a page: those of "sh" run here, those of "sh no-run" need more than this machine.
var block = regexp.MustCompile("(?ms)^```sh( no-run)?\n(.*?)^```$")

// pagesOfCommands returns the pages whose commands people copy, in an order in which they can run one after another:
// the last one deletes the index.
func pagesOfCommands(t *testing.T) []string {
	guides := musttest.Get(filepath.Glob("../../docs/guides/*.md"))(t)
	last := func(page string) bool { return filepath.Base(page) == "delete.md" }
	slices.SortStableFunc(guides, func(a, b string) int {
		if last(a) == last(b) {
			return 0
		}
		if last(a) {
			return 1
		}
		return -1
	})
	require.True(t, len(guides) >= 8 && last(guides[len(guides)-1]), "%v", guides)
	return append([]string{"../../docs/start.md"}, guides...)
}

// Commands of the first page and of the guides run as they stand, on an index of a few documents.
func TestCommandsOfTheGuidesRun(t *testing.T) {
	i := install(t, "", "# %[1]s\nindexes: {docs: {freshness: "+
		"{events: webhook, debounce: 1s, secret_file: %[2]s.key}}}\n")
	at := t.TempDir()
	i.write(i.corpus+".key", "0123456789abcdef0123456789abcdef")
	require.NoError(t, os.Symlink(i.corpus+".key", filepath.Join(at, "hints.key")))
	require.NoError(t, os.MkdirAll(filepath.Join(at, "infra/embedded"), 0o700))
	for link, target := range map[string]string{"bin": bin, "infra/embedded/sample": "../embedded/sample"} {
		require.NoError(t, os.Symlink(musttest.Get(filepath.Abs(target))(t), filepath.Join(at, link)))
	}
	i = i.on(filepath.Join(at, "unweaver-data"))
	i.write(filepath.Join(at, "docs/contracts/lease.md"), "# Lease\n\nAda Berg signed the lease on 3 May 2024.\n")
	i.write(filepath.Join(at, "docs/boiler.md"), "# Boiler\n\nTom Wren repaired the boiler of Ada Berg in 2023.\n")
	i.start()
	t.Cleanup(i.kill)
	_, noCurl := exec.LookPath("curl")

	toHere := strings.NewReplacer("http://127.0.0.1:8080", i.http, "curl -s ", "curl -sf ", "curl -N ", "curl -sfN ")
	shell := func(page, text string) {
		text = toHere.Replace(text)
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		command.Dir, command.Env = at, append(slices.Clip(i.env), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s:\n%s\nprinted:\n%s", page, text, out)
	}
	ran := 0
	for n, page := range pagesOfCommands(t) {
		if n == 1 {
			shell(page, "unweaver delete docs --yes\nunweaver index ./docs --index docs --wait")
		}
		raw := musttest.Get(os.ReadFile(page))(t)
		for _, found := range block.FindAllSubmatch(raw, -1) {
			if len(found[1]) > 0 || noCurl != nil && bytes.Contains(found[2], []byte("curl")) {
				continue
			}
			shell(page, string(found[2]))
			ran++
		}
	}
	require.Greater(t, ran, 15, "blocks of commands")
}

var (
	called = regexp.MustCompile(`(?:^|[\s/(])(?:unweaver|run --rm cli)((?: [a-z][a-z-]*)+)([^#|\n]*)`)
	option = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// Every command and flag of every block of shell commands is one of the program.
func TestCommandsOfTheDocsExist(t *testing.T) {
	if bin == "" {
		t.Skip("UNWEAVER_TEST_BIN names no folder of programs: make test sets it")
	}
	helps := map[string]string{}
	help := func(words ...string) string {
		key := strings.Join(words, " ")
		if _, known := helps[key]; !known {
			ask := exec.CommandContext(t.Context(), filepath.Join(bin, "unweaver"), append(slices.Clone(words), "--help")...)
			out, err := ask.CombinedOutput()
			require.NoError(t, err, "unweaver %s: %s", key, out)
			helps[key] = string(out)
		}
		return helps[key]
	}
	seen := 0
	for _, page := range append(pagesOfCommands(t), "../../README.md") {
		raw := musttest.Get(os.ReadFile(page))(t)
		for _, found := range block.FindAllSubmatch(raw, -1) {
			text := strings.ReplaceAll(string(found[2]), "\\\n", " ")
			for _, call := range called.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(call[1])
				if words[0] == "unweaver" { // the user of "sudo -u unweaver unweaver …"
					words = words[1:]
				}
				if len(words) == 0 {
					continue
				}
				command := words[:1]
				known := `(?m)^  ` + words[0] + ` |^  [a-z, -]+, ` + words[0] + `$` // itself, or an alias
				require.Regexp(t, known, help()+help(words[0]), "%s: unweaver %s", page, words[0])
				if len(words) > 1 && regexp.MustCompile(`(?m)^  `+words[1]+` `).MatchString(help(command...)) {
					command = words[:2]
				}
				for _, flag := range option.FindAllStringSubmatch(call[2], -1) {
					require.Regexp(t, flag[1]+`\b`, help(command...), "%s: unweaver %s", page, strings.Join(command, " "))
				}
				seen++
			}
		}
	}
	require.Greater(t, seen, 60, "commands")
}
