package stage

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Untagged are documents without the tags of their objects, which the store refuses.
type Untagged struct {
	Documents int64    `json:"documents,omitempty"`
	Keys      []string `json:"keys,omitempty"` // of the first ones
	Why       string   `json:"why,omitempty"`
}

// untaggedNamed is how many of them are named.
const untaggedNamed = 10

// Add adds those of another unit.
func (u *Untagged) Add(other Untagged) {
	if u.Documents == 0 {
		u.Why = other.Why
	}
	u.Keys = append(u.Keys, other.Keys[:min(len(other.Keys), untaggedNamed-len(u.Keys))]...)
	u.Documents += other.Documents
}

// Problem returns all of them as one problem.
func (u *Untagged) Problem() core.Problem {
	quoted := make([]string, len(u.Keys))
	for i, key := range u.Keys {
		quoted[i] = fault.QuoteName(key)
	}
	named := strings.Join(quoted, ", ")
	if u.Documents > int64(len(u.Keys)) {
		named += ", …"
	}
	detail := fmt.Sprintf("tags of %d objects are no metadata yet, each run asks for those of some again (%s): %s",
		u.Documents, named, u.Why)
	return core.Problem{Code: string(fault.StoreDenied), Object: cmp.Or(u.Keys...), Detail: redact.Text(detail)}
}
