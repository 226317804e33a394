package run

import (
	"fmt"
)

// Renaming is what a run makes of aliases that are not the parent's.
type Renaming struct {
	Names     int `json:"names"`               // that are mapped
	Changed   int `json:"changed,omitempty"`   // that are mapped otherwise than in the parent
	Documents int `json:"documents,omitempty"` // of the parent that name them, and are made again
}

// FindReason returns the reason that a report gives; empty: the aliases are the parent's.
func (n Renaming) FindReason() string {
	if n.Changed == 0 {
		return ""
	}
	return fmt.Sprintf("aliases: the mapping of %d names changed, in %d documents", n.Changed, n.Documents)
}
