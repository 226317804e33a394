package run

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// AuditPlan is what an audit looks at, fixed when it begins.
type AuditPlan struct {
	Manifest   string      `json:"manifest"`
	Generation string      `json:"generation"`
	Sample     core.Sample `json:"sample"`
	Repair     bool        `json:"repair"`
	Units      []AuditUnit `json:"units"`
}

// AuditUnit is what one activity looks at.
type AuditUnit struct {
	Kind    string       `json:"kind"`
	Name    string       `json:"name,omitempty"` // of the segment's kind, as people know it
	Segment core.Segment `json:"segment"`
	Verify  verify.Unit  `json:"verify,omitzero"`

	Partition  int `json:"partition,omitempty"` // of the classes
	Partitions int `json:"partitions,omitempty"`
}
