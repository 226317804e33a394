package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/dev"
)

// self is a variable that names what a command starts in place of itself.
const self = "TEST_SELF="

const token = "the-token"

// served serves a control as the embedded stack does, and gives its address.
func served(t *testing.T, c any) string {
	server := httptest.NewServer(httpapi.Handler(control.Of(c), httpapi.Access{Token: token}))
	t.Cleanup(server.Close)
	return server.URL
}

func writeDev(t *testing.T, dir string, dev stack.Dev) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dev.json"), musttest.Get(json.Marshal(dev))(t), 0o600))
}

func TestACommandAttachesToTheStackOfItsDataDirectory(t *testing.T) {
	data := t.TempDir()
	t.Chdir(t.TempDir())
	fake := &fakeControl{}
	writeDev(t, data, stack.Dev{HTTP: served(t, fake), PID: os.Getpid(), Token: token})
	got := in(t, nil, nil, "resume", "docs", "--budget-calls", "7", "--data-dir", data)
	assert.True(t, got.exit == console.ExitDone && len(fake.Asked) == 1, "%+v, asked %v", got, fake.Asked)
	assert.Equal(t, &core.Budget{Calls: 7}, last[*core.Budget](fake))
	got = in(t, nil, []string{"UNWEAVER_DATA_DIR=" + data}, "resume", "docs")
	budget := last[*core.Budget](fake)
	assert.True(t, got.exit == console.ExitDone && budget == nil, "%+v, budget %+v", got, budget)
	assert.Empty(t, got.err, "it says that it starts something")
}

// The port and the process id that a dead stack left behind in dev.json can be another program's by now.
// Promises: 105.
func TestAnAddressThatDoesNotProveItsTokenIsToldNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	var asked []string
	impostor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		asked = append(asked, fmt.Sprint(request.URL, request.Header, string(body)))
		_, _ = io.WriteString(w, strings.Repeat("0", 64))
	}))
	defer impostor.Close()
	silent := httptest.NewServer(nil)
	silent.Close()
	for name, address := range map[string]string{
		"another program": impostor.URL, "another stack": served(t, &fakeControl{}), "nobody": silent.URL,
	} {
		data := t.TempDir()
		writeDev(t, data, stack.Dev{HTTP: address, PID: os.Getpid(), Token: "stale-token"})
		env := []string{"UNWEAVER_API_KEY=uw_key"}
		for _, args := range [][]string{{"pause", "docs"}, {"query", "Who?", "--index", "docs"}, {"keys", "list"}} {
			got := in(t, nil, env, append(args, "--data-dir", data)...)
			assert.True(t, got.exit == console.ExitFailed && strings.Contains(got.err, "no command is sent to it") &&
				strings.Contains(got.err, "starting one for this command"), "%s, %s: %+v", name, args[0], got)
		}
	}
	assert.Len(t, asked, 3, "the impostor is asked")
	for _, request := range asked {
		assert.True(t, !strings.Contains(request, "stale-token") && !strings.Contains(request, "uw_key") &&
			strings.HasPrefix(request, "/admin/v1/proof?challenge="), "it learns %s", request)
	}
}

func TestAStackThatHasEndedIsNotRunning(t *testing.T) {
	data := t.TempDir()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Skip("no program named true here")
	}
	for name, dev := range map[string]stack.Dev{
		"its process is gone": {HTTP: "http://127.0.0.1:1", PID: ended.Process.Pid},
		"it names no process": {HTTP: "http://127.0.0.1:1"},
	} {
		writeDev(t, data, dev)
		_, running := stack.ReadDev(data)
		assert.False(t, running, "%v", name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(data, "dev.json"), []byte("{half"), 0o600))
	_, running := stack.ReadDev(data)
	assert.False(t, running, "a file that was half written")
}

func script(t *testing.T, body string) string {
	path := filepath.Join(t.TempDir(), "unweaver")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700))
	return path
}

func TestACommandStartsAStackForItselfAndEndsIt(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("own.yaml", nil, 0o600))
	fake := &fakeControl{Statuses: []control.Status{finished(core.StatusCompleted)}}
	bin := script(t, fmt.Sprintf(`
echo "$@" > %s/args
trap 'echo ended >> %[1]s/args; kill $child; exit 0' TERM
printf '{"http":"%s","pid":%%d,"token":"%s"}' $$ > "$7/dev.json.new" && mv "$7/dev.json.new" "$7/dev.json"
sleep 60 & child=$!
wait $child
`, dir, served(t, fake), token))
	env := []string{self + bin, "PATH=" + os.Getenv("PATH")}
	got := in(t, nil, env, "index", "/corpus", "--index", "docs", "--data-dir", data, "--config", "own.yaml", "--set",
		"worker.slots=9")
	assert.True(t, got.exit == console.ExitDone && strings.Contains(got.out, "docs/g1  completed"),
		"a run on a stack of the command's own is waited for: %+v", got)
	contains(t, got.err, "no embedded stack runs in "+data+": starting one for this command\n")
	args, err := os.ReadFile("args")
	want := "dev --temporal-port 0 --http-port 0 --data-dir " + data + " --config own.yaml --set worker.slots=9" +
		" --end-with-input\nended\n"
	assert.True(t, err == nil && string(args) == want, "%v\n%s", err, args)
	_, running := stack.ReadDev(data)
	assert.False(t, running, "the stack goes on")
}

func TestAStackThatDoesNotStartSaysWhy(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	t.Chdir(t.TempDir())
	bin := script(t, "echo port 7233 is taken >&2; exit 3\n")
	got := in(t, nil, []string{self + bin}, "doctor", "--index", "docs", "--data-dir", data)
	assert.Equal(t, console.ExitFailed, got.exit, "exit")
	contains(t, got.err, "exit status 3: port 7233 is taken", "see "+filepath.Join(data, "dev.log"))
	got = in(t, nil, nil, "status", "docs", "--data-dir", data)
	contains(t, got.err, "start /nonexistent/unweaver")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, args := range [][]string{{"status", "docs"}, {"doctor", "--index", "docs"}, {"dev"}} {
		got = in(t, nil, []string{self + bin}, append(args, "--data-dir", file)...)
		contains(t, got.err, file+": it is a file", "give --data-dir a folder")
		assert.Equal(t, console.ExitUsage, got.exit, "%v: exit", args)
	}
}

// A name that was mistyped makes no data directory.
func TestWhatReadsMakesNoDataDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	bin := script(t, "exit 3\n")
	for _, args := range [][]string{
		{"ls"}, {"status"}, {"runs", "docs"}, {"logs", "docs"}, {"show", "docs/g1"}, {"keys", "list"},
		{"query", "Who?", "--index", "docs"}, {"diff", "--index", "docs"}, {"generations", "--index", "docs"},
		{"pause", "docs"},
	} {
		got := in(t, nil, []string{self + bin}, append(args, "--data-dir", "typo")...)
		assert.True(t, got.exit == console.ExitUsage && strings.Contains(got.err, "there is no data directory at typo"),
			"%v: %+v", args, got)
		require.Error(t, musttest.Err(os.Stat("typo")), "%v makes it", args)
	}
}

// ofTheParent names the data directory of a command that is killed, in a process of its own.
const ofTheParent = "TEST_DATA_OF_THE_KILLED"

// A command that is killed leaves no stack behind: its standard input ends then.
func TestTheStackOfAKilledCommandIsTold(t *testing.T) {
	if data := os.Getenv(ofTheParent); data != "" {
		in(t, nil, os.Environ(), "doctor", "--index", "docs", "--data-dir", data)
		return
	}
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	t.Chdir(dir)
	endings := []syscall.Signal{syscall.SIGKILL, syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) { // under nohup a command outlives its terminal
		endings = endings[:1]
	}
	for _, ending := range endings {
		mark := filepath.Join(dir, ending.String())
		bin := script(t, fmt.Sprintf("trap '' TERM\ntouch '%s.began'\ncat > /dev/null\ntouch '%[1]s.ended'\n", mark))
		parent := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		parent.Env = append(os.Environ(), ofTheParent+"="+data, self+bin)
		require.NoError(t, parent.Start())
		awaitFile(t, mark+".began")
		_ = parent.Process.Signal(ending)
		_ = parent.Wait()
		awaitFile(t, mark+".ended")
		assert.True(t, ending == syscall.SIGKILL || parent.ProcessState.ExitCode() >= 0,
			"%s kills the command: %s", ending, parent.ProcessState)
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(path)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// servers are settings of an installation whose stores are servers that cannot be reached.
var servers = []string{
	"--set", "stores.artifacts=s3://bucket/prefix", "--set", "stores.s3.endpoint=http://127.0.0.1:1",
	"--set", "stores.classes=redis://127.0.0.1:1/0", "--set", "stores.vectors=milvus://127.0.0.1:1",
}

// developing writes the dev.json of a stack that runs in this process with settings, and gives its folder.
func developing(t *testing.T, fake *fakeControl, settings *stack.Settings) (data string) {
	data = t.TempDir()
	writeDev(t, data, stack.Dev{HTTP: served(t, fake), PID: os.Getpid(), Token: token, Settings: settings})
	return data
}

func TestACommandWithoutAConfigurationTakesThatOfTheRunningStack(t *testing.T) {
	t.Chdir(t.TempDir())
	other := filepath.Join(t.TempDir(), "other.yaml")
	text := "models: {chat: {provider: openai, model: big, base_url: 'http://127.0.0.1:1/v1', api_key_env: ''}}\n"
	require.NoError(t, os.WriteFile(other, []byte(text), 0o600))
	fake := &fakeControl{}
	data := developing(t, fake, &stack.Settings{Config: other, Set: []string{"indexes.docs.keep=7"}})
	got := in(t, nil, nil, "index", "/corpus", "--index", "docs", "--data-dir", data, "--set", "indexes.docs.budget.calls=9")
	spec := last[control.IndexRequest](fake).Spec
	assert.True(t, got.exit == console.ExitDone && spec.Chat.Model == "big" && spec.Keep == 7 && spec.Budget.Calls == 9,
		"%+v\n%+v", got, spec)
	assert.Empty(t, got.err, "there is nothing to note")
	require.NoError(t, os.WriteFile("unweaver.yaml", []byte("indexes: {docs: {keep: 4}}\n"), 0o600))
	got = in(t, nil, nil, "index", "/corpus", "--index", "docs", "--data-dir", data)
	spec = last[control.IndexRequest](fake).Spec
	assert.True(t, spec.Keep == 4 && spec.Chat.Provider == "builtin", "a file of its own counts: %+v", spec)
	contains(t, got.err, "note: this command reads ", "unweaver.yaml, the running unweaver dev "+other)
}

func TestASettingThatTheRunningStackDoesNotTakeIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	fake := &fakeControl{}
	data := developing(t, fake, &stack.Settings{Set: []string{"limits.document.seconds=30"}})
	args := []string{"index", "/corpus", "--index", "docs", "--data-dir", data, "--set"}
	got := in(t, nil, nil, append(args, "limits.document.seconds=50")...)
	assert.True(t, got.exit == console.ExitDone && strings.Count(got.err, "\n") == 1, "%+v", got)
	contains(t, got.err, "note: --set limits.document.seconds=50 has no effect")
	got = in(t, nil, nil, append(args, "limits.document.seconds=30")...)
	assert.True(t, got.err == "", "dev was started with it: %s", got.err)
	got = in(t, nil, nil, append(args, "indexes.docs.keep=5")...)
	assert.True(t, got.err == "", "a setting of the index: %s", got.err)
}

func TestACommandWaitsForAStackThatIsStarting(t *testing.T) {
	t.Chdir(t.TempDir())
	data := t.TempDir()
	lock := musttest.Get(os.Create(filepath.Join(data, "lock")))(t)
	defer func() { _ = lock.Close() }()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	fake := &fakeControl{}
	dev := stack.Dev{HTTP: served(t, fake), PID: os.Getpid(), Token: token}
	written := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(written)
		time.Sleep(300 * time.Millisecond)
		writeDev(t, data, dev)
	}()
	got := in(t, nil, []string{self + script(t, "exit 3\n")}, "pause", "docs", "--data-dir", data)
	<-written
	assert.True(t, got.exit == console.ExitDone && len(fake.Asked) == 1 && time.Since(began) >= 300*time.Millisecond,
		"%+v, asked %v", got, fake.Asked)
	contains(t, got.err, "note: unweaver dev is starting or stopping in "+data)
	assert.False(t, strings.Contains(got.err, "starting one for this command"), "it starts another: %s", got.err)
}

// The stack that takes the data directory while the command starts one serves the command; that it ends is said.
func TestACommandJoinsTheStackThatIsFasterThanItsOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	data, dir := t.TempDir(), t.TempDir()
	serve := httpapi.Handler(control.Of(&fakeControl{}), httpapi.Access{Token: token})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "resume") {
			_ = os.Remove(filepath.Join(data, "dev.json"))
			panic(http.ErrAbortHandler)
		}
		serve.ServeHTTP(w, r)
	}))
	defer server.Close()
	lock := musttest.Get(os.Create(filepath.Join(data, "lock")))(t)
	defer func() { _ = lock.Close() }()
	go func() {
		awaitFile(t, dir+"/began")
		assert.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
		writeDev(t, data, stack.Dev{HTTP: server.URL, PID: os.Getpid(), Token: token})
		assert.NoError(t, os.WriteFile(dir+"/taken", nil, 0o600))
	}()
	bin := script(t, fmt.Sprintf("touch %s/began\nuntil [ -e %[1]s/taken ]; do sleep 0.02; done\nexit 1\n", dir))
	got := in(t, nil, []string{self + bin, "PATH=" + os.Getenv("PATH")}, "pause", "docs", "--data-dir", data)
	assert.Equal(t, console.ExitDone, got.exit, "%+v", got)
	got = in(t, nil, nil, "resume", "docs", "--data-dir", data)
	assert.Equal(t, console.ExitFailed, got.exit, "%+v", got)
	contains(t, got.err, "that ran the stack ended", "run this command again")
}

// What dev does not take from the configuration it says; it serves loopback alone, and no TLS.
func TestWhereDevServes(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		address string
		given   bool
		port    int
		says    string
	}{
		"nothing is configured":      {"", false, 8080, ""},
		"another port":               {"127.0.0.1:9999", false, 9999, ""},
		"another port, and a flag":   {"localhost:9999", true, 8080, "--http-port 8080 overrides"},
		"another loopback":           {"127.0.0.2:9999", false, 9999, "serves only 127.0.0.1:9999"},
		"every address":              {"0.0.0.0:9999", false, 8080, "0.0.0.0:9999 is ignored"},
		"every address, this port":   {"0.0.0.0:8080", false, 8080, "0.0.0.0:8080 is ignored"},
		"a URL of a proxy before it": {"https://q.example", false, 8080, ""},
	} {
		var set []string
		if c.address != "" {
			set = []string{"query_api.address=" + c.address}
		}
		cfg := musttest.Get(config.Load(config.Source{Path: "none.yaml", Missing: true, Set: set}))(t)
		port, note, err := dev.ChoosePort(cfg, 8080, c.given)
		assert.True(t, err == nil && port == c.port && (note == "") == (c.says == "") && strings.Contains(note, c.says),
			"%s: %d %q %v", name, port, note, err)
	}
	cfg := config.Default()
	cfg.QueryAPI.TLS.Cert = "cert.pem"
	_, _, err := dev.ChoosePort(cfg, 8080, false)
	assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), "plain HTTP"), "%v", err)
}

func TestStoresThatAreServersAreOpenedAndNothingIsStarted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, args := range [][]string{{"status", "docs"}, {"keys", "list"}} {
		var out, errs bytes.Buffer
		app := &console.App{Out: &out, Err: &errs, Self: "/nonexistent/unweaver"}
		exit := cli.Run(t.Context(), app, append(append(args, "--json"), servers...))
		var reported struct{ Code string }
		err := json.Unmarshal(errs.Bytes(), &reported)
		assert.True(t, err == nil && exit == console.ExitFailed && reported.Code == "store_unavailable", "%v: exit %d, %s", args,
			exit, errs.String())
	}
}
