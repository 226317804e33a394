package run

import (
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/stage/plan"
)

// Plan is what is fixed for the rest of the run before its first stage.
type Plan struct {
	Parent       string      `json:"parent"` // sha256 of the manifest; empty: none
	ParentDocs   int64       `json:"parent_documents"`
	ParentChunks int64       `json:"parent_chunks,omitempty"`
	Foreign      bool        `json:"foreign,omitempty"` // the parent is of another corpus
	Epoch        int64       `json:"epoch"`
	Family       string      `json:"family,omitempty"` // the base that the index is a branch of
	Plan         plan.Result `json:"plan"`
	Rebuild      bool        `json:"rebuild,omitempty"` // nothing of the parent is re-used but its table of word weights
	Damage       []Damage    `json:"damage,omitempty"`  // of the parent
	Repair       bool        `json:"repair,omitempty"`  // a store lost its memory: what is live is verified and rewritten
	Part         bool        `json:"part,omitempty"`    // the parent's segments stay, but for what changed
	Held         string      `json:"held,omitempty"`    // gate that is known already
	HeldDetail   string      `json:"held_detail,omitempty"`
	Trust        Trusted     `json:"trust,omitzero"`
	Excluded     purges.Set  `json:"excluded,omitzero"` // documents that were purged, and are left out
	Pending      []string    `json:"pending,omitempty"` // purges that the run goes on with
	Purge        string      `json:"purge,omitempty"`   // the one that the run is for: it touches nothing else
	Started      time.Time   `json:"started"`
	Spec         string      `json:"spec,omitempty"` // see Run.Speak; empty: the run's own, as it stands

	Aliases    core.Aliases `json:"aliases,omitempty"`
	Extraction core.Asked   `json:"extraction,omitzero"` // what passages are extracted by
	Renaming   Renaming     `json:"renaming,omitzero"`

	Frozen // fingerprints here, the rest once the chunks are there: frozenFile
}

// Source returns the manifest whose content a build may re-use; empty: none.
func (p Plan) Source() string {
	if p.Rebuild {
		return ""
	}
	return p.Parent
}
