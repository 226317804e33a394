package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/unweaver/unweaver/internal/fault"
)

// companion is a program that this one becomes for what it is too small to hold itself.
type companion struct {
	name     string
	variable string // of the environment, with its path
}

// ofDev holds the embedded stack.
var ofDev = companion{"unweaver-dev", "UNWEAVER_DEV_BIN"}

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
