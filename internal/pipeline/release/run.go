package release

import (
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
)

// Run is a build with what this room does for it. Close it.
type Run struct{ *unit.Run }

// OpenBare begins a unit of work that needs no configuration, such as a restore. scratch names its folder; where it is
// empty, the fence does.
func OpenBare(ports *run.Ports, job run.Job, stage, scratch string) *Run {
	return &Run{&unit.Run{Run: ports.OpenBare(job, stage, scratch)}}
}
