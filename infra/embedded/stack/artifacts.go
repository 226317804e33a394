package stack

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// artifactsLock lies in the artifacts folder, beside the folders of the indexes.
const artifactsLock = ".lock"

// owner is what the lock says, for the error that another stack gets.
type owner struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	DataDir string `json:"data_dir"`
}

// lockArtifacts makes this process the only one that works on an artifacts folder: two stacks over one would each have
// an engine of their own, that knows nothing of the other's runs.
func lockArtifacts(folder, dataDir string) (*os.File, error) {
	if err := durable.MkdirPrivate(folder); err != nil {
		return nil, fault.StoreDenied.At("make", folder).Because(err).Advise("set stores.artifacts to another folder")
	}
	path := filepath.Join(folder, artifactsLock)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, durable.PrivateFile)
	if err != nil {
		return nil, fault.StoreDenied.At("open", path).Because(err).Advise("set stores.artifacts to another folder")
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		who := "another process uses it"
		var other owner
		if raw, err := io.ReadAll(file); err == nil && json.Unmarshal(raw, &other) == nil && other.PID != 0 {
			who = fmt.Sprintf("process %d on %s uses it, with data directory %s", other.PID, other.Host, other.DataDir)
		}
		_ = file.Close()
		return nil, fault.DataDirInUse.At("use artifacts folder", folder).
			Because(who).
			Advise("stop that process, or set stores.artifacts to another folder")
	}
	own := owner{PID: os.Getpid(), DataDir: dataDir}
	own.Host, _ = os.Hostname()
	// Who has it is shown to people alone: a disk that is full must not keep the stack from starting.
	if raw, err := json.Marshal(own); err == nil && file.Truncate(0) == nil {
		_, _ = file.WriteAt(append(raw, '\n'), 0)
	}
	return file, nil
}
