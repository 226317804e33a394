package run

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// Check is what a part is compared with.
type Check string

// The checks of parts.
const (
	CheckFile      Check = "file"      // a file with the sum that names it
	CheckStore     Check = "store"     // records or rows in a store with the segment that they are from
	CheckClasses   Check = "classes"   // classes of a partition with their mentions and what counts
	CheckDocuments Check = "documents" // chunks of a documents segment with those that count
)

// Part is one part of a generation: what one activity of an audit or a restore looks at.
type Part struct {
	Check    Check       `json:"check"`
	Manifest string      `json:"manifest,omitempty"`
	Kind     string      `json:"kind,omitempty"` // of the segment, as people know it
	Unit     verify.Unit `json:"unit"`           // of a file the segment alone

	Partition  int `json:"partition,omitempty"` // of the classes
	Partitions int `json:"partitions,omitempty"`
}

// AuditPlan is what an audit looks at, fixed when it begins.
type AuditPlan struct {
	Manifest   string      `json:"manifest"`
	Generation string      `json:"generation"`
	Sample     core.Sample `json:"sample"`
	Repair     bool        `json:"repair"`
	Parts      []Part      `json:"parts"`
}
