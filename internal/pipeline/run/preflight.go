package run

import (
	"github.com/unweaver/unweaver/internal/core"
)

// Preflighted is preflight.json: what was asked for before the work began.
type Preflighted struct {
	Asked    core.Digest `json:"asked"`    // key of the extraction that was paid for; zero: none
	Embedder bool        `json:"embedder"` // answered, or is not needed
}
