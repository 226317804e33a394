package run

import (
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
)

// Watch is what a run found by standing questions, and what the next one goes on with.
type Watch struct {
	Found core.Watched       `json:"found"`
	Last  artifact.LastWatch `json:"last"`
}
