package control

import (
	"github.com/unweaver/unweaver/internal/core"
)

// PurgeRequest names documents that have to leave an index with everything that was made from them.
type PurgeRequest struct {
	Index     string   `json:"index"`
	Documents []string `json:"documents"`
	Return    bool     `json:"return,omitempty"`    // once they are gone, the corpus may bring them back
	DryRun    bool     `json:"dry_run,omitempty"`   // tell what would be done, and do nothing
	Confirmed bool     `json:"confirmed,omitempty"` // without it nothing is done: it cannot be undone

	// Gate judges the generation that takes the place of the current one; nil: that of the current one does.
	Gate *core.Gate `json:"gate,omitempty"`
	core.Files
}

// PurgeAnswer is what was begun.
type PurgeAnswer struct {
	Plan  core.PurgePlan `json:"plan"`
	Purge *core.Purge    `json:"purge,omitempty"` // nil: a dry run
	Run   *Run           `json:"run,omitempty"`   // that does it; nil: there is nothing to do
}

// PurgesRequest asks how the purges of an index stand.
type PurgesRequest struct {
	Index   string   `json:"index"`
	Readmit []string `json:"readmit,omitempty"` // documents that the corpus may bring back though they were purged
}

// PurgesAnswer says how they stand.
type PurgesAnswer struct {
	Purges   []core.Purge `json:"purges"`
	Readmits int          `json:"readmits,omitempty"` // purges that hold nothing back any more
}
