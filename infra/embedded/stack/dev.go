package stack

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Dev is dev.json: where the embedded stack of a data directory answers.
type Dev struct {
	HTTP     string `json:"http"`
	Temporal string `json:"temporal"`
	PID      int    `json:"pid"`
	Token    string `json:"token"`

	Settings *Settings `json:"settings,omitempty"` // nil: nothing is known of them
}

// Settings are what an embedded stack was configured by, for commands that bring no configuration of their own.
type Settings struct {
	Config string   `json:"config,omitempty"` // absolute path; empty: there was no file
	Set    []string `json:"set,omitempty"`
}

// ReadDev reads dev.json where its process lives.
func ReadDev(dataDir string) (Dev, bool) {
	var dev Dev
	path := filepath.Join(dataDir, "dev.json")
	if os.Geteuid() != 0 && durable.CheckUnplanted(path) != nil { // addresses and keys of somebody else
		return dev, false
	}
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &dev) != nil || dev.PID <= 0 || dev.PID > math.MaxInt32 {
		return dev, false
	}
	process, err := os.FindProcess(dev.PID)
	if err != nil || process.Signal(syscall.Signal(0)) != nil {
		return dev, false
	}
	return dev, true
}
