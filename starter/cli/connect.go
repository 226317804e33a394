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
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/ops/admin"
	"github.com/unweaver/unweaver/internal/ops/engine"
	"github.com/unweaver/unweaver/internal/store/wiring"
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
	var dev Dev
	b, err := os.ReadFile(filepath.Join(dataDir, "dev.json"))
	if err != nil || json.Unmarshal(b, &dev) != nil || dev.PID == 0 {
		return dev, false
	}
	p, err := os.FindProcess(dev.PID)
	if err != nil || p.Signal(syscall.Signal(0)) != nil {
		return dev, false
	}
	return dev, true
}

// heartbeat after which a cluster gives a dead worker's activity to another.
const heartbeat = 20 * time.Second

// withControl connects to Temporal and the stores where the stores are servers; else it finds the embedded stack of the
// data directory, or starts one for as long as f runs.
func (a *App) withControl(ctx context.Context, f func(ctx context.Context, c ops.Control, http string) error) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if wiring.NoPaths(cfg.Stores, "unweaver") == nil {
		return a.cluster(ctx, cfg, f)
	}
	dev, ok := ReadDev(a.dataDir)
	if !ok {
		stop, err := a.startDev(ctx)
		if err != nil {
			return err
		}
		defer stop()
		if dev, ok = ReadDev(a.dataDir); !ok {
			return fault.EngineDown.At("start the embedded stack in", a.dataDir).
				Because("it wrote no dev.json").
				Advise("run: unweaver dev")
		}
	}
	return f(ctx, &admin.Client{Base: dev.HTTP, Token: dev.Token}, dev.HTTP)
}

// cluster runs f over Temporal and the stores themselves.
func (a *App) cluster(
	ctx context.Context,
	cfg *config.Config,
	f func(ctx context.Context, c ops.Control, http string) error,
) (err error) {
	stores, err := wiring.Open(ctx, cfg.Stores)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	client, err := engine.Dial(ctx, cfg.Engine, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer client.Close()
	http := cfg.QueryAPI.Address
	if !isURL(http) {
		http = "http://" + http
	}
	return f(
		ctx,
		&ops.Service{
			Client:    client,
			Engine:    cfg.Engine,
			Stores:    stores,
			Models:    wiring.NewModels(stores.Coordination),
			Heartbeat: heartbeat,
		},
		http,
	)
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
		return "", fault.EngineDown.At("find", "unweaver-dev").
			Because("it lies neither beside this program nor on the path").
			Advise("build it with: make build")
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
		return nil, fault.StoreDenied.At("make", a.dataDir).Because(err).Advise("choose another --data-dir")
	}
	logPath := filepath.Join(a.dataDir, "dev.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.StoreDenied.At("write", logPath).Because(err).Advise("choose another --data-dir")
	}
	cmd := exec.Command(bin, append([]string{"dev", "--temporal-port", "0", "--http-port", "0"}, a.passOn()...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fault.EngineDown.At("start", bin).Because(err), log.Close())
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
			return nil, fault.EngineDown.At("start the embedded stack in", a.dataDir).
				Because(fmt.Sprintf("it ended: %v: %s", err, lastLine(logPath))).
				Advise("see " + logPath)
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	return nil, fault.EngineDown.At("start the embedded stack in", a.dataDir).
		Because("it was not ready in a minute").
		Advise("see " + logPath)
}

func lastLine(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return lines[len(lines)-1]
}
