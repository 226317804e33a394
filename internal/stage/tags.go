package stage

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Lacking are documents that lack something.
type Lacking struct {
	Documents int64    `json:"documents,omitempty"`
	Keys      []string `json:"keys,omitempty"` // of the first ones
	Why       string   `json:"why,omitempty"`
}

// lackingNamed is how many of them are named.
const lackingNamed = 10

// Add adds those of another unit.
func (u *Lacking) Add(other Lacking) {
	if u.Documents == 0 {
		u.Why = other.Why
	}
	u.Keys = append(u.Keys, other.Keys[:min(len(other.Keys), lackingNamed-len(u.Keys))]...)
	u.Documents += other.Documents
}

// listKeys returns the keys of the first of them.
func (u *Lacking) listKeys() string {
	quoted := make([]string, len(u.Keys))
	for i, key := range u.Keys {
		quoted[i] = fault.QuoteName(key)
	}
	named := strings.Join(quoted, ", ")
	if u.Documents > int64(len(u.Keys)) {
		named += ", …"
	}
	return named
}

// UntaggedProblem returns documents without the tags of their objects, which the store refuses, as one problem.
func (u *Lacking) UntaggedProblem() core.Problem {
	detail := fmt.Sprintf("tags of %d objects are no metadata yet, each run asks for those of some again (%s): %s",
		u.Documents, u.listKeys(), u.Why)
	return core.Problem{Code: string(fault.StoreDenied), Object: cmp.Or(u.Keys...), Detail: redact.Text(detail)}
}

// UnlabelledProblem returns documents without labels as one problem.
func (u *Lacking) UnlabelledProblem() core.Problem {
	detail := fmt.Sprintf("nobody may read %d documents: no label, and no rule of documents.labels that matches (%s)",
		u.Documents, u.listKeys())
	return core.Problem{Code: string(fault.PartsMissing), Object: cmp.Or(u.Keys...), Detail: redact.Text(detail)}
}
