package run

import (
	"github.com/unweaver/unweaver/internal/core"
)

// Pieces says how many splits and class runs of a build are units of work of their own: none where there is one of
// each. There may turn out to be fewer runs, never fewer splits.
type Pieces struct {
	Splits int `json:"splits,omitempty"`
	Runs   int `json:"runs,omitempty"`
}

// Count returns how many units of work there are.
func (p Pieces) Count() int { return p.Splits + p.Runs }

// Piece is a split or a class run that was written; without a digest there was nothing to write.
type Piece struct {
	Segment   core.Segment `json:"segment,omitzero"` // its rows are chunks or classes
	Documents int64        `json:"documents,omitempty"`
	Classes   int64        `json:"classes,omitempty"`
	Fresh     bool         `json:"fresh,omitempty"`
}

// Span is [from, to).
type Span struct{ From, To int }

// Count returns how many numbers the span holds.
func (s Span) Count() int { return s.To - s.From }
