// Package upkeep keeps what is stored correct. Audit and restore compare the stores with the artifacts, purge removes a
// document from everything, backfill pays for chosen documents beside the builds, and estimate says in advance what a
// build costs.
package upkeep

import (
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// Run is a build with what this room does for it. Close it.
type Run struct{ *release.Run }

// OpenBare begins a unit of work that needs no configuration, such as a restore. scratch names its folder; where it is
// empty, the fence does.
func OpenBare(ports *run.Ports, job run.Job, stage, scratch string) *Run {
	return &Run{release.OpenBare(ports, job, stage, scratch)}
}
