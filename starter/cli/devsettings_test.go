package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/starter/cli"
)

// developing writes the dev.json of a stack that runs in this process with settings, and gives its folder.
func developing(t *testing.T, fake *fakeControl, settings *stack.Settings) (data string) {
	t.Helper()
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
	spec := fake.request.Spec
	assert.True(t, got.exit == cli.ExitDone && spec.Chat.Model == "big" && spec.Keep == 7 && spec.Budget.Calls == 9,
		"%+v\n%+v", got, spec)
	assert.Empty(t, got.err, "there is nothing to note")
	require.NoError(t, os.WriteFile("unweaver.yaml", []byte("indexes: {docs: {keep: 4}}\n"), 0o600))
	got = in(t, nil, nil, "index", "/corpus", "--index", "docs", "--data-dir", data)
	spec = fake.request.Spec
	assert.True(t, spec.Keep == 4 && spec.Chat.Provider == "builtin", "a file of its own counts: %+v", spec)
	contains(t, got.err, "note: this command reads ", "unweaver.yaml, the running unweaver dev "+other)
}

func TestASettingThatTheRunningStackDoesNotTakeIsTold(t *testing.T) {
	t.Chdir(t.TempDir())
	fake := &fakeControl{}
	data := developing(t, fake, &stack.Settings{Set: []string{"limits.document.seconds=30"}})
	args := []string{"index", "/corpus", "--index", "docs", "--data-dir", data, "--set"}
	got := in(t, nil, nil, append(args, "limits.document.seconds=50")...)
	assert.True(t, got.exit == cli.ExitDone && strings.Count(got.err, "\n") == 1, "%+v", got)
	contains(t, got.err, "note: --set limits.document.seconds=50 has no effect")
	got = in(t, nil, nil, append(args, "limits.document.seconds=30")...)
	assert.True(t, got.err == "", "dev was started with it: %s", got.err)
	got = in(t, nil, nil, append(args, "indexes.docs.keep=5")...)
	assert.True(t, got.err == "", "a setting of the index: %s", got.err)
}

func TestACommandWaitsForAStackThatIsStarting(t *testing.T) {
	t.Chdir(t.TempDir())
	data := t.TempDir()
	lock, err := os.Create(filepath.Join(data, "lock"))
	require.NoError(t, err)
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
	assert.True(t, got.exit == cli.ExitDone && len(fake.asked) == 1 && time.Since(began) >= 300*time.Millisecond,
		"%+v, asked %v", got, fake.asked)
	contains(t, got.err, "note: unweaver dev is starting or stopping in "+data)
	assert.False(t, strings.Contains(got.err, "starting one for this command"), "it starts another: %s", got.err)
}

// The stack that takes the data directory while the command starts one serves the command; that it ends is said.
func TestACommandJoinsTheStackThatIsFasterThanItsOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	data, dir := t.TempDir(), t.TempDir()
	serve := httpapi.Handler(&fakeControl{}, httpapi.Access{Token: token})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "resume") {
			_ = os.Remove(filepath.Join(data, "dev.json"))
			panic(http.ErrAbortHandler)
		}
		serve.ServeHTTP(w, r)
	}))
	defer server.Close()
	lock, err := os.Create(filepath.Join(data, "lock"))
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	go func() {
		awaitFile(t, dir+"/began")
		assert.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
		writeDev(t, data, stack.Dev{HTTP: server.URL, PID: os.Getpid(), Token: token})
		assert.NoError(t, os.WriteFile(dir+"/taken", nil, 0o600))
	}()
	bin := script(t, fmt.Sprintf("touch %s/began\nuntil [ -e %[1]s/taken ]; do sleep 0.02; done\nexit 1\n", dir))
	got := in(t, nil, []string{self + bin, "PATH=" + os.Getenv("PATH")}, "pause", "docs", "--data-dir", data)
	assert.Equal(t, cli.ExitDone, got.exit, "%+v", got)
	got = in(t, nil, nil, "resume", "docs", "--data-dir", data)
	assert.Equal(t, cli.ExitFailed, got.exit, "%+v", got)
	contains(t, got.err, "that ran the stack ended", "run this command again")
}
