package unit

import (
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// Run is a build with what this room does for it. Close it.
type Run struct{ *run.Run }

// OpenBare begins a unit of work that needs no configuration, such as a restore. scratch names its folder; where it is
// empty, the fence does.
func OpenBare(ports *run.Ports, job run.Job, stage, scratch string) *Run {
	return &Run{ports.OpenBare(job, stage, scratch)}
}
