package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// EndWithInput is the flag by which the stack of one command ends with that command, also where it is killed.
const EndWithInput = "end-with-input"

// startDev starts the embedded stack for the duration of a command. Where another process has the data directory, it
// waits until that one serves, and starts nothing.
func (a *App) startDev(ctx context.Context) (stop func(), err error) {
	if ready, err := a.awaitDev(ctx); ready || err != nil {
		return func() {}, err
	}
	self := a.Self
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return nil, fault.EngineDown.At("find", "this program").Because(err).Advise("to start one: unweaver dev")
		}
	}
	a.Started = true
	a.SayLine("no embedded stack runs in " + a.DataDir + ": starting one for this command")
	if err := durable.MkdirPrivate(a.DataDir); err != nil {
		return nil, fault.StoreDenied.At("make", a.DataDir).Because(err).Advise("choose another --data-dir")
	}
	logPath := filepath.Join(a.DataDir, "dev.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.StoreDenied.At("write", logPath).Because(err).Advise("choose another --data-dir")
	}
	cmd := exec.Command(self, slices.Concat(
		[]string{"dev", "--temporal-port", "0", "--http-port", "0"}, a.passOn(), []string{"--" + EndWithInput},
	)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = a.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe() // it reads the end when this process is gone, however that came about
	if err != nil {
		return nil, errors.Join(fault.EngineDown.At("start", self).Because(err), log.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fault.EngineDown.At("start", self).Because(err), log.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = log.Close() }()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = input.Close()
		select {
		case err := <-ended:
			if err != nil {
				a.SayLine(fmt.Sprintf("the embedded stack ended: %v", err))
			}
		case <-time.After(40 * time.Second):
			_ = cmd.Process.Kill()
		}
	}
	for range 600 {
		if dev, ok := stack.ReadDev(a.DataDir); ok && dev.PID == cmd.Process.Pid {
			return stop, nil
		}
		select {
		case err := <-ended:
			if isLocked(a.DataDir) { // another process took it first: this command becomes its client
				a.Started = false
				return a.startDev(ctx)
			}
			return nil, fault.EngineDown.At("start the embedded stack in", a.DataDir).
				Because(fmt.Sprintf("it ended: %v: %s", err, lastLine(logPath))).
				Advise("see " + logPath)
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	return nil, fault.EngineDown.At("start the embedded stack in", a.DataDir).
		Because("it was not ready within a minute").
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
