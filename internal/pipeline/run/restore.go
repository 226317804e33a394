package run

import (
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// Part is one segment of a kept generation to check against the stores, or to read back.
type Part struct {
	Manifest string      `json:"manifest"`
	Unit     verify.Unit `json:"unit"`
	Kind     string      `json:"kind,omitempty"`   // of the segment, as people know it
	Search   bool        `json:"search,omitempty"` // made from others: read back, and made again where it is damaged
	Read     bool        `json:"read,omitempty"`   // no store holds what is in it: it is read back
}
