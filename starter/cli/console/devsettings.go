package console

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

// SettingsOfDev returns the settings of a stack that is started with a --config, which may be empty, and --set.
func SettingsOfDev(path string, set []string) *stack.Settings {
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
	if a.ConfigPath != "" || own.Stores.NoPaths("unweaver") == nil {
		return own, nil
	}
	if _, err := os.Stat(config.DefaultFile); err == nil {
		return own, nil
	}
	dev, running := stack.ReadDev(a.DataDir)
	if !running || dev.Settings == nil || dev.Settings.Config == "" && len(dev.Settings.Set) == 0 {
		return own, nil
	}
	source := config.Source{
		Path: dev.Settings.Config, Env: a.Env, Set: slices.Concat(dev.Settings.Set, a.Set), Overlays: a.Overlays,
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

// NoteDev says what a command gives that the running embedded stack does not take: it keeps those it started with.
func (a *App) NoteDev() {
	dev, running := stack.ReadDev(a.DataDir)
	cfg, err := a.LoadConfig()
	if !running || err != nil || a.Connect != nil || cfg.Stores.NoPaths("unweaver") == nil {
		return
	}
	for _, setting := range a.Set {
		key, _, _ := strings.Cut(setting, "=")
		own := dev.Settings != nil && slices.Contains(dev.Settings.Set, setting)
		ofProcess := slices.ContainsFunc(processKeys, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if ofProcess && !own {
			a.SayLine(fmt.Sprintf("note: --set %s has no effect: unweaver dev is already running with its own value; "+
				"restart it with this setting", setting))
		}
	}
	if dev.Settings == nil {
		return
	}
	if own := SettingsOfDev(a.ConfigPath, nil).Config; own != "" && own != dev.Settings.Config {
		than := dev.Settings.Config
		if than == "" {
			than = "no file"
		}
		a.SayLine(fmt.Sprintf("note: this command reads %s, the running unweaver dev %s; settings of processes (%s) "+
			"are dev's", own, than, strings.Join(processKeys, " ")))
	}
}

// SayLine prints a line that is no error, on standard error: with --json what stands there is JSON, line by line.
func (a *App) SayLine(text string) {
	if a.JSON {
		note := map[string]string{"note": strings.TrimPrefix(text, "note: ")}
		_ = json.NewEncoder(a.Err).Encode(note) // its errors can be shown nowhere
		return
	}
	fmt.Fprintln(a.Err, text)
}

// devPatience is how long a command waits for an embedded stack that another process starts, or ends.
const devPatience = time.Minute

// awaitDev waits where another process has the data directory and does not answer yet, or any more. ready says that
// its stack answers; else the directory is free.
func (a *App) awaitDev(ctx context.Context) (ready bool, err error) {
	if !isLocked(a.DataDir) {
		return false, nil
	}
	a.SayLine("note: unweaver dev is starting or stopping in " + a.DataDir + ": waiting for it")
	bounded, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	for {
		select {
		case <-time.After(100 * time.Millisecond): // what starts removes the file of what was there before, first
		case <-bounded.Done():
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			return false, fault.EngineDown.At("wait for unweaver dev in", a.DataDir).
				Because("another process uses it and did not answer within " + devPatience.String()).
				Advise("check the output of that process, or choose another --data-dir")
		}
		if _, ready := stack.ReadDev(a.DataDir); ready {
			return true, nil
		}
		if !isLocked(a.DataDir) {
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
