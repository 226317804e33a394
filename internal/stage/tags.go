package stage

import (
	"fmt"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Untagged are documents without the tags of their objects, which the store refuses.
type Untagged struct {
	Documents int64  `json:"documents,omitempty"`
	First     string `json:"first,omitempty"` // key of the first one
	Why       string `json:"why,omitempty"`
}

// Add adds those of another unit.
func (u *Untagged) Add(other Untagged) {
	if u.Documents == 0 {
		u.First, u.Why = other.First, other.Why
	}
	u.Documents += other.Documents
}

// Problem returns all of them as one problem.
func (u *Untagged) Problem() core.Problem {
	detail := fmt.Sprintf("tags of %d objects are no metadata yet, each run asks for those of one again: %s",
		u.Documents, u.Why)
	return core.Problem{Code: string(fault.StoreDenied), Object: u.First, Detail: redact.Text(detail)}
}
