package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/engine"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/setup"
	"github.com/unweaver/unweaver/starter/admin"
	"github.com/unweaver/unweaver/starter/control"
)

// Dev is dev.json: where the embedded stack of a data directory answers.
type Dev struct {
	HTTP     string `json:"http"`
	Temporal string `json:"temporal"`
	PID      int    `json:"pid"`
	Token    string `json:"token"`
}

func isURL(s string) bool { return strings.Contains(s, "://") }

// ReadDev reads dev.json where its process lives.
func ReadDev(dataDir string) (Dev, bool) {
	var d Dev
	b, err := os.ReadFile(filepath.Join(dataDir, "dev.json"))
	if err != nil || json.Unmarshal(b, &d) != nil || d.PID == 0 {
		return d, false
	}
	p, err := os.FindProcess(d.PID)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return d, false
	}
	return d, true
}

// heartbeat after which a cluster gives a dead worker's activity to another.
const heartbeat = 20 * time.Second

// withControl connects to Temporal and the stores where the stores are servers; else it finds the embedded stack of the
// data directory, or starts one for as long as f runs.
func (a *App) withControl(ctx context.Context, f func(ctx context.Context, c control.Control, http string) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if setup.NoPaths(cfg.Stores, "unweaver") == nil {
		return a.cluster(ctx, cfg, f)
	}
	d, ok := ReadDev(a.dataDir)
	if !ok {
		stop, err := a.startDev(ctx)
		if err != nil {
			return err
		}
		defer stop()
		if d, ok = ReadDev(a.dataDir); !ok {
			return fault.New(fault.EngineDown, fault.Fatal, "start the embedded stack in", a.dataDir, "it wrote no dev.json", "run: unweaver dev")
		}
	}
	return f(ctx, &admin.Client{Base: d.HTTP, Token: d.Token}, d.HTTP)
}

// cluster runs f over Temporal and the stores themselves.
func (a *App) cluster(ctx context.Context, cfg *config.Config, f func(ctx context.Context, c control.Control, http string) error) (err error) {
	stores, err := setup.Open(ctx, cfg.Stores)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	c, err := engine.Dial(ctx, cfg.Engine, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer c.Close()
	http := cfg.QueryAPI.Address
	if !isURL(http) {
		http = "http://" + http
	}
	return f(ctx, &control.Service{Client: c, Engine: cfg.Engine, Stores: stores, Models: setup.NewModels(stores.Classes), Heartbeat: heartbeat}, http)
}

// devBinary is the embedded stack's program: UNWEAVER_DEV_BIN, else beside this one, else on the path.
func devBinary() (string, error) {
	if p := os.Getenv("UNWEAVER_DEV_BIN"); p != "" {
		return p, nil
	}
	if self, err := os.Executable(); err == nil {
		p := filepath.Join(filepath.Dir(self), "unweaver-dev")
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	p, err := exec.LookPath("unweaver-dev")
	if err != nil {
		return "", fault.New(fault.EngineDown, fault.Fatal, "find", "unweaver-dev", "it lies neither beside this program nor on the path", "build it with: make build")
	}
	return p, nil
}

// passOn are the flags that the embedded stack must see.
func (a *App) passOn() []string {
	args := []string{"--data-dir", a.dataDir}
	if a.configPath != "" {
		args = append(args, "--config", a.configPath)
	}
	for _, s := range a.set {
		args = append(args, "--set", s)
	}
	return args
}

// startDev starts the embedded stack for the duration of a command.
func (a *App) startDev(ctx context.Context) (stop func(), err error) {
	bin, err := devBinary()
	if err != nil {
		return nil, err
	}
	a.started = true
	fmt.Fprintf(a.Err, "no embedded stack runs in %s: starting one for this command\n", a.dataDir)
	if err := os.MkdirAll(a.dataDir, 0o755); err != nil {
		return nil, fault.New(fault.StoreDenied, fault.Fatal, "make", a.dataDir, err, "choose another --data-dir")
	}
	logPath := filepath.Join(a.dataDir, "dev.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.New(fault.StoreDenied, fault.Fatal, "write", logPath, err, "choose another --data-dir")
	}
	cmd := exec.Command(bin, append([]string{"dev", "--temporal-port", "0", "--http-port", "0"}, a.passOn()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fault.New(fault.EngineDown, fault.Fatal, "start", bin, err, ""), log.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = log.Close() }()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case err := <-ended:
			if err != nil {
				fmt.Fprintf(a.Err, "the embedded stack ended: %v\n", err)
			}
		case <-time.After(40 * time.Second):
			_ = cmd.Process.Kill()
		}
	}
	for range 600 {
		if d, ok := ReadDev(a.dataDir); ok && d.PID == cmd.Process.Pid {
			return stop, nil
		}
		select {
		case err := <-ended:
			return nil, fault.New(fault.EngineDown, fault.Fatal, "start the embedded stack in", a.dataDir, fmt.Sprintf("it ended: %v: %s", err, lastLine(logPath)), "see "+logPath)
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	return nil, fault.New(fault.EngineDown, fault.Fatal, "start the embedded stack in", a.dataDir, "it was not ready in a minute", "see "+logPath)
}

func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
