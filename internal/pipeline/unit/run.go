// Package unit does the work of each activity of a build. In the order of a build: it plans what has to be built and
// why (plan_build.go), compares the parent generation with what is stored (parent.go), chunks, extracts, reduces and
// shortens (units.go), embeds, loads and imports (vectors.go), writes splits and class runs (splits.go, pieces.go),
// merges them (merge_choice.go), and enriches.
package unit

import (
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// Run is a build with what this room does for it. Close it.
type Run struct{ *run.Run }
