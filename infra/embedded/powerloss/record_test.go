package powerloss_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

const (
	index  = "p"
	sample = "../../../testdata/musique"
	flight = 4                     // calls in flight at most
	slow   = 25 * time.Millisecond // a model's answer
)

type process struct {
	t    *testing.T
	data string
	cmd  *exec.Cmd
	ends chan struct{} // closed when it has ended
	dev  stack.Dev
}

// start starts the stack, below a tracer or not, and fails with what it printed where it ends by itself.
func start(t *testing.T, data string, before ...string) *process {
	t.Helper()
	bin := os.Getenv("UNWEAVER_TEST_BIN")
	if bin == "" {
		t.Skip("UNWEAVER_TEST_BIN is not set: make nightly sets it")
	}
	command := append(before, filepath.Join(bin, "unweaver"), "dev", "--data-dir", data,
		"--temporal-port", "0", "--http-port", "0")
	p := &process{t: t, data: data, cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	p.cmd.Stdout, p.cmd.Stderr = &out, &out
	p.cmd.Env = append(os.Environ(), "E2E_KEY=e2e")
	if len(before) > 0 {
		p.cmd.Env = append(p.cmd.Env, "TMPDIR="+filepath.Join(filepath.Dir(data), "tmp"))
	}
	require.NoError(t, p.cmd.Start())
	p.ends = make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(p.ends) }()
	t.Cleanup(p.kill)
	for range 6000 {
		if dev, ok := stack.ReadDev(data); ok && (len(before) > 0 || dev.PID == p.cmd.Process.Pid) {
			p.dev = dev
			return p
		}
		select {
		case <-p.ends:
			t.Fatalf("the stack did not start: %s", out.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the stack was not ready in five minutes")
	return nil
}

func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ends
}

func (p *process) control() control.Control {
	return httpapi.NewClient(p.dev.HTTP, p.dev.Token).Control
}

func (p *process) ended(run string) (control.Status, error) {
	var last control.Status
	var err error
	for begin := time.Now(); time.Since(begin) < 10*time.Minute; time.Sleep(30 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		var status control.Status
		status, err = p.control().ReadStatus(ctx, run)
		cancel()
		if err == nil {
			last = status
		}
		if err == nil && (core.IsTerminal(status.Status) || status.Status == core.StatusPaused) {
			return status, nil
		}
	}
	return last, errors.Join(fmt.Errorf("%s did not end: %s", run, last.Status), err)
}

// build indexes the corpus. A run that has just ended may still have the lease.
func (p *process) build(spec core.Spec, generation string) (status control.Status, err error) {
	for range 10 {
		run, err := p.control().BuildIndex(p.t.Context(), control.IndexRequest{Spec: spec, Generation: generation})
		if err != nil {
			return control.Status{}, err
		}
		if status, err = p.ended(run.Run); err != nil || status.Reason != "lease_held" {
			break
		}
		time.Sleep(time.Second)
	}
	if err == nil && status.Status != core.StatusCompleted {
		err = fmt.Errorf("%s is %s: %s %s %v", generation, status.Status, status.Reason, status.Detail, status.Problems)
	}
	return status, err
}

// asked is the model server's memory of when it was asked for what.
type asked struct {
	mu    sync.Mutex
	texts map[string]time.Time // task and text -> when it was first answered
}

func (a *asked) script(seen modeltest.Seen) modeltest.Injection {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := seen.Task + "\x00" + seen.Text
	if _, ok := a.texts[key]; !ok {
		a.texts[key] = time.Now().Add(slow)
	}
	return modeltest.Injection{Latency: slow}
}

func (a *asked) take() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.texts
	a.texts = map[string]time.Time{}
	return out
}

// recording is a data directory's history: from nothing over a published generation to a second one.
type recording struct {
	base, trace, docs string
	spec              core.Spec
	first, second     control.Status
	firstAt, secondAt time.Time
	paid              map[string]time.Time
	seconds           float64 // of the second build
	asked             *asked
}

// record runs the stack below strace through two builds, and ends it.
func record(t *testing.T) *recording {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("SKIPPED: the power-loss test needs strace, which is not here (Debian, Ubuntu: apt-get install strace)")
	}
	rec := &recording{base: t.TempDir(), docs: t.TempDir(), asked: &asked{texts: map[string]time.Time{}}}
	rec.trace = filepath.Join(t.TempDir(), "trace")
	server := modeltest.New(modeltest.Options{Script: rec.asked.script})
	extractions := filepath.Join(sample, "extractions_desc.jsonl")
	require.NoError(t, server.Replay(filepath.Join(sample, "corpus.jsonl"), extractions))
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	t.Setenv("UNWEAVER_MODELS_ENDPOINTS", server.URL+"=E2E_KEY") // the stack's own: it names its model servers
	rec.spec = specOf(t, rec.docs, server.URL)
	rec.documents(t, 20)
	require.NoError(t, os.Mkdir(filepath.Join(rec.base, "tmp"), 0o700))
	p := start(t, filepath.Join(rec.base, "data"), "strace", "-f", "--seccomp-bpf", "-ttt", "-xx", "-s", "64000000",
		"-e", recorded, "-e", "signal=none", "-o", rec.trace)
	rec.first = musttest.Get(p.build(rec.spec, "g1"))(t)
	rec.firstAt = time.Now()
	rec.documents(t, 60)
	rec.asked.take()
	rec.second = musttest.Get(p.build(rec.spec, "g2"))(t)
	rec.secondAt = time.Now()
	rec.seconds = rec.secondAt.Sub(rec.firstAt).Seconds()
	rec.paid = rec.asked.take()
	require.NoError(t, syscall.Kill(p.dev.PID, syscall.SIGTERM))
	<-p.ends // strace writes what is left
	return rec
}

func (r *recording) documents(t *testing.T, n int) {
	raw := musttest.Get(os.ReadFile(filepath.Join(sample, "corpus.jsonl")))(t)
	lines := strings.SplitAfter(string(raw), "\n")
	require.NoError(t, os.WriteFile(filepath.Join(r.docs, "corpus.jsonl"), []byte(strings.Join(lines[:n], "")), 0o600))
}

func specOf(t *testing.T, docs, url string) core.Spec {
	cfg := musttest.Get(config.Load(config.Source{Set: []string{
		"models.chat.provider=openai", "models.chat.model=m", "models.chat.api_key_env=E2E_KEY",
		"models.chat.base_url=" + url, "models.embedding.provider=openai", "models.embedding.model=e",
		"models.embedding.api_key_env=E2E_KEY", "models.embedding.base_url=" + url,
		fmt.Sprintf("models.limits.concurrency=%d", flight), "indexes." + index + ".chunking.strategy=document",
	}}))(t)
	return musttest.Get(cfg.Spec(index, docs))(t)
}

func (p *process) answers() error {
	body := strings.NewReader(`{"query":"journal of psychotherapy"}`)
	url := p.dev.HTTP + "/v1/indexes/" + index + "/query"
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, url, body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("a query got %s", response.Status)
	}
	return nil
}

// recorded are the calls that change files or make changes durable, and those that tell which file a number means.
const recorded = "trace=?open,openat,?creat,close,dup,?dup2,dup3,lseek,write,pwrite64,writev,pwritev,ftruncate," +
	"?truncate,fallocate,copy_file_range,sendfile,?rename,renameat,renameat2,?link,linkat,?unlink,unlinkat,?mkdir," +
	"mkdirat,?rmdir,fsync,fdatasync,sync_file_range,mmap,?fork,?vfork,clone,?clone3,execve"

type call struct {
	name   string
	args   []string // quoted strings are decoded
	result int64    // negative: it failed
	at     time.Time
}

// handler gets each call when it begins, with a result of 0, and when it has returned.
type handler interface {
	begun(thread string, c call) error
	returned(thread string, c call) error
}

// read parses what strace -f -ttt -xx wrote. Calls of threads overlap: one that was interrupted comes in two lines.
func read(from io.Reader, to handler) error {
	open := map[string]string{} // thread -> the first part of its line
	lines := bufio.NewReaderSize(from, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := one(strings.TrimSuffix(line, "\n"), open, to); err != nil {
			return fmt.Errorf("line %d: %w: %.200s", number, err, line)
		}
	}
}

func one(line string, open map[string]string, to handler) error {
	thread, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimLeft(rest, " ")
	stamp, rest, _ := strings.Cut(rest, " ")
	if strings.HasPrefix(rest, "+++") || strings.HasPrefix(rest, "---") {
		return nil
	}
	at, err := moment(stamp)
	if err != nil {
		return err
	}
	if first, unfinished := strings.CutSuffix(rest, " <unfinished ...>"); unfinished {
		open[thread] = first
		name, args, err := arguments(first)
		if err != nil {
			return err
		}
		return to.begun(thread, call{name: name, args: args, at: at})
	}
	begun := true
	if strings.HasPrefix(rest, "<... ") {
		_, second, _ := strings.Cut(rest, " resumed>")
		rest, begun = open[thread]+second, false
		delete(open, thread)
	}
	end := strings.LastIndex(rest, " = ")
	if end < 0 {
		return errors.New("no result")
	}
	name, args, err := arguments(strings.TrimSuffix(strings.TrimRight(rest[:end], " "), ")"))
	if err != nil {
		return err
	}
	c := call{name: name, args: args, at: at}
	if begun {
		if err := to.begun(thread, c); err != nil {
			return err
		}
	}
	result, _, _ := strings.Cut(rest[end+3:], " ")
	if result == "?" { // the process ended in it
		return nil
	}
	if c.result, err = strconv.ParseInt(result, 0, 64); err != nil {
		c.result = 1 // an address
	}
	return to.returned(thread, c)
}

func moment(stamp string) (time.Time, error) {
	seconds, micros, _ := strings.Cut(stamp, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	us, err := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, us*1000), err
}

func arguments(text string) (name string, args []string, err error) {
	name, rest, _ := strings.Cut(text, "(")
	for rest != "" {
		rest = strings.TrimLeft(rest, ", ")
		if strings.HasPrefix(rest, `"`) {
			end := strings.IndexByte(rest[1:], '"') + 1
			if end == 0 {
				return name, nil, errors.New("a string does not end")
			}
			value, err := decode(rest[1:end])
			if err != nil {
				return name, nil, err
			}
			rest = rest[end+1:]
			if strings.HasPrefix(rest, "...") {
				return name, nil, errors.New("a string was cut")
			}
			args = append(args, value)
			continue
		}
		if strings.HasPrefix(rest, "[") { // of calls that touch no file of ours
			return name, append(args, rest), nil
		}
		var arg string
		arg, rest, _ = strings.Cut(rest, ",")
		args = append(args, strings.TrimRight(arg, " "))
	}
	return name, args, nil
}

func decode(text string) (string, error) {
	out := make([]byte, len(text)/4)
	nibble := func(c byte) byte {
		if c >= 'a' {
			return c - 'a' + 10
		}
		return c - '0'
	}
	for i := range out {
		part := text[4*i:]
		if part[0] != '\\' || part[1] != 'x' {
			return "", errors.New("a string is not in hexadecimal")
		}
		out[i] = nibble(part[2])<<4 | nibble(part[3])
	}
	return string(out), nil
}

func readFile(path string, to handler) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(read(file, to), file.Close())
}
