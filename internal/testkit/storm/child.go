package storm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/workflows"
)

// childVariable holds the settings of a child, as JSON: where it is set, a program is the embedded stack.
const childVariable = "UNWEAVER_STORM_CHILD"

// Child is how the embedded stack runs as a child process of a storm.
type Child struct {
	Dir       string          `json:"dir"`
	Heartbeat time.Duration   `json:"heartbeat"` // of the runs that it starts; 0 = the stack's own
	Shape     workflows.Shape `json:"shape"`     // zero values: the starter's own
	Settings  []string        `json:"settings"`
}

// Serve runs the child's side: the stack, until it is killed. It returns false where this process is no child. A
// test binary calls it first of all.
func Serve() bool {
	raw := os.Getenv(childVariable)
	if raw == "" {
		return false
	}
	if err := serve(raw); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
	return true
}

func serve(raw string) error {
	var child Child
	if err := json.Unmarshal([]byte(raw), &child); err != nil {
		return err
	}
	cfg, err := config.Load(config.Source{Set: child.Settings})
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	running, err := stack.Start(context.Background(), stack.Options{DataDir: child.Dir, Config: cfg, Log: log})
	if err != nil {
		return err
	}
	if child.Heartbeat > 0 {
		running.Control.Heartbeat = child.Heartbeat
	}
	running.Control.Client = shaper{running.Control.Client, child.Shape}
	return <-running.WatchFailure()
}

// shaper starts builds in another shape than the starter's: small pieces make a small corpus last.
type shaper struct {
	service.Temporal
	shape workflows.Shape
}

func (s shaper) ExecuteWorkflow(
	ctx context.Context, options client.StartWorkflowOptions, name any, inputs ...any,
) (client.WorkflowRun, error) {
	for i, input := range inputs {
		if build, ok := input.(workflows.Build); ok {
			if s.shape.ShardChunks > 0 {
				build.Shape.ShardChunks = s.shape.ShardChunks
			}
			if s.shape.BatchChunks > 0 {
				build.Shape.BatchChunks = s.shape.BatchChunks
			}
			inputs[i] = build
		}
	}
	return s.Temporal.ExecuteWorkflow(ctx, options, name, inputs...)
}

// Stack is the embedded stack as a process that can be killed and started again.
type Stack struct {
	Child
	Begun   time.Time // when the process was started last
	Control control.Control
	Engine  client.Client
	HTTP    string

	process *exec.Cmd
}

// readyWithin bounds how long a stack takes to answer after it was started.
const readyWithin = 90 * time.Second

// Start starts the process and returns when it answers.
func (s *Stack) Start(ctx context.Context) error {
	settings, err := json.Marshal(s.Child)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(s.Dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s.process = exec.Command(program)
	s.process.Env = append(os.Environ(), childVariable+"="+string(settings))
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = devserver.ChildAttributes()
	s.Begun = time.Now()
	if err := s.process.Start(); err != nil {
		return err
	}
	for time.Since(s.Begun) < readyWithin && ctx.Err() == nil {
		if dev, ok := stack.ReadDev(s.Dir); ok && dev.PID == s.process.Process.Pid {
			return s.connect(ctx, dev)
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.Kill()
	return fmt.Errorf("the stack was not ready within %s: %s", readyWithin, tail(s.Dir+".log"))
}

func (s *Stack) connect(ctx context.Context, dev stack.Dev) (err error) {
	s.HTTP = dev.HTTP
	s.Control = httpapi.NewClient(dev.HTTP, dev.Token).Control
	at := config.Engine{Address: dev.Temporal, Namespace: devserver.Namespace, CodecKey: stack.CodecKey(s.Dir)}
	s.Engine, err = engine.Dial(ctx, at, slog.New(slog.DiscardHandler))
	return err
}

// PID returns the process id of the running process.
func (s *Stack) PID() int { return s.process.Process.Pid }

// Kill ends the process at once, as kill -9 does.
func (s *Stack) Kill() {
	if s.process == nil {
		return
	}
	_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL)
	_ = s.process.Wait()
	s.process = nil
	if s.Engine != nil {
		s.Engine.Close()
		s.Engine = nil
	}
}

// tail returns the end of a log.
func tail(path string) string {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	const most = 2000
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, err = file.Seek(-most, io.SeekEnd)
		if err != nil && !errors.Is(err, io.EOF) {
			return err.Error()
		}
	}
	raw, _ := io.ReadAll(file)
	return string(raw)
}
