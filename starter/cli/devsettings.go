package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

// settingsOfDev returns the settings of a stack that is started with a --config, which may be empty, and --set.
func settingsOfDev(path string, set []string) *stack.Settings {
	if path == "" {
		path = config.DefaultFile
		if _, err := os.Stat(path); err != nil {
			return &stack.Settings{Set: set}
		}
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return &stack.Settings{Config: path, Set: set}
}

// devConfig returns the configuration of the running embedded stack, where a command brings none: neither --config nor
// the usual file. What the command sets itself goes before it. own is what the command would work with otherwise.
func (a *App) devConfig(own *config.Config) (*config.Config, error) {
	if a.configPath != "" || own.Stores.NoPaths("unweaver") == nil {
		return own, nil
	}
	if _, err := os.Stat(config.DefaultFile); err == nil {
		return own, nil
	}
	dev, running := stack.ReadDev(a.dataDir)
	if !running || dev.Settings == nil || dev.Settings.Config == "" && len(dev.Settings.Set) == 0 {
		return own, nil
	}
	source := config.Source{
		Path: dev.Settings.Config, Env: a.Env, Set: slices.Concat(dev.Settings.Set, a.set), Overlays: a.overlays,
	}
	if source.Path == "" {
		source.Path, source.Missing = config.DefaultFile, true
	}
	cfg, err := config.Load(source)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the running unweaver dev: %w", err)
	}
	return cfg, nil
}

// processKeys are sections of the configuration that belong to processes: a running stack keeps those it started with.
var processKeys = []string{"engine.", "limits.", "models.dir", "query_api.", "stores.", "worker."}

// noteDev says what a command gives that the running embedded stack does not take: it keeps those it started with.
func (a *App) noteDev() {
	dev, running := stack.ReadDev(a.dataDir)
	cfg, err := a.loadConfig()
	if !running || err != nil || a.Connect != nil || cfg.Stores.NoPaths("unweaver") == nil {
		return
	}
	for _, setting := range a.set {
		key, _, _ := strings.Cut(setting, "=")
		own := dev.Settings != nil && slices.Contains(dev.Settings.Set, setting)
		ofProcess := slices.ContainsFunc(processKeys, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if ofProcess && !own {
			a.noteOnce(fmt.Sprintf("--set %s has no effect: it belongs to the processes of the running unweaver dev; "+
				"start that with it", setting))
		}
	}
	if dev.Settings == nil {
		return
	}
	if own := settingsOfDev(a.configPath, nil).Config; own != "" && own != dev.Settings.Config {
		than := dev.Settings.Config
		if than == "" {
			than = "no file"
		}
		a.noteOnce(fmt.Sprintf("this command reads %s, the running unweaver dev %s: what belongs to processes (%s) is dev's",
			own, than, strings.Join(processKeys, " ")))
	}
}

// noteOnce prints something that is no error, once.
func (a *App) noteOnce(text string) {
	if slices.Contains(a.noted, text) {
		return
	}
	a.noted = append(a.noted, text)
	if !a.json {
		text = "note: " + text
	}
	a.sayLine(text)
}

// sayLine prints a line that is no error, on standard error: with --json what stands there is JSON, line by line.
func (a *App) sayLine(text string) {
	if a.json {
		_ = json.NewEncoder(a.Err).Encode(map[string]string{"note": text}) // its errors can be shown nowhere
		return
	}
	fmt.Fprintln(a.Err, text)
}

// devPatience is how long a command waits for an embedded stack that another process starts, or ends.
const devPatience = time.Minute

// awaitDev waits where another process has the data directory and does not answer yet, or any more. ready says that
// its stack answers; else the directory is free.
func (a *App) awaitDev(ctx context.Context) (ready bool, err error) {
	if !isLocked(a.dataDir) {
		return false, nil
	}
	a.noteOnce("unweaver dev is starting or stopping in " + a.dataDir + ": this command waits for it")
	bounded, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	for {
		select {
		case <-time.After(100 * time.Millisecond): // what starts removes the file of what was there before, first
		case <-bounded.Done():
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			return false, fault.EngineDown.At("wait for unweaver dev in", a.dataDir).
				Because("another process has it and did not answer in " + devPatience.String()).
				Advise("see what it says; or choose another --data-dir")
		}
		if _, ready := stack.ReadDev(a.dataDir); ready {
			return true, nil
		}
		if !isLocked(a.dataDir) {
			return false, nil
		}
	}
}

// isLocked reports whether a process has a data directory.
func isLocked(dataDir string) bool {
	file, err := os.Open(filepath.Join(dataDir, "lock"))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
