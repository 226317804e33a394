package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

// companion is a program that this one becomes for what it is too small to hold itself.
type companion struct {
	name     string
	variable string // of the environment, with its path
}

var (
	// ofDev holds the embedded stack.
	ofDev = companion{"unweaver-dev", "UNWEAVER_DEV_BIN"}
	// ofServers is this command line with the clients of Temporal and of the stores.
	ofServers = companion{"unweaver-cluster", "UNWEAVER_CLUSTER_BIN"}
)

// Servers opens what the stores and Temporal are as servers (package starter/cluster).
type Servers struct {
	Connect Connector
	Keys    func(ctx context.Context, cfg *config.Config) (access.Keeper, error)
}

// onServers tells whether the stores are servers. Where this program has no clients of those, it becomes the one that
// has, with the same arguments: then it returns only with an error.
func (a *App) onServers(cfg *config.Config) (bool, error) {
	if a.Connect != nil || cfg.Stores.NoPaths("unweaver") != nil {
		return false, nil
	}
	if a.Servers == nil {
		return true, a.become(ofServers, a.args)
	}
	return true, nil
}

// become replaces this process by a companion.
func (a *App) become(other companion, args []string) error {
	bin, err := a.find(other)
	if err != nil {
		return err
	}
	err = syscall.Exec(bin, append([]string{bin}, args...), a.Env)
	return fault.EngineDown.At("start", bin).Because(err).Advise("build it with: make build")
}

// find gives the path of a companion: that of its variable, else beside this program, else on the path.
func (a *App) find(other companion) (string, error) {
	if path := a.variable(other.variable); path != "" {
		return path, nil
	}
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil { // installed as a link to where the archive lies
			self = real
		}
		path := filepath.Join(filepath.Dir(self), other.name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(other.name)
	if err != nil {
		return "", fault.EngineDown.At("find", other.name).
			Because("it lies neither beside this program nor on the path").
			Advise("put it there from the archive of the release; or build it with: make build")
	}
	return path, nil
}
