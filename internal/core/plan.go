package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Share is what a build would make for one reason.
type Share struct {
	Reason    string `json:"reason"`
	Documents int64  `json:"documents"`
	Chunks    int64  `json:"chunks"` // of the documents; of removed ones, those that go
	Fresh     int64  `json:"fresh"`  // of these, chunks that the parent does not have
	Calls     int64  `json:"calls"`  // extractions that the ledger does not have
}

// Why is what a build would do about one document, and why.
type Why struct {
	Document string `json:"document"`
	Reason   string `json:"reason"`
	Detail   string `json:"detail,omitempty"`
	Version  string `json:"version,omitempty"` // of what the corpus has
	Was      string `json:"was,omitempty"`     // of what the parent has
	Chunks   int64  `json:"chunks"`
	Fresh    int64  `json:"fresh"`
	Calls    int64  `json:"calls"`
}

// Estimated is what a dry run reports: what a report does, and the plan, where it was asked for.
type Estimated struct {
	Report
	Plan *Plan `json:"plan,omitempty"`
	// IndexTokens are what the published generation costs in a store that holds nothing; nil: not asked for.
	IndexTokens *IndexTokens `json:"index_tokens,omitempty"`
}

// IndexTokens are tokens of a generation by what they are for: those of chat calls as they were charged, those of
// embeddings as we count them.
type IndexTokens struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Classes    int64 `json:"classes"` // embedded
	Chunks     int64 `json:"chunks"`  // embedded
}

// PlanFormat is the version of plan.json.
const PlanFormat = 1

// Plan is plan.json: what a build would do, for a build that shall do this and nothing else.
type Plan struct {
	Format    int       `json:"format"`
	Made      time.Time `json:"made"`
	Spec      Spec      `json:"spec"`
	Parent    string    `json:"parent"`   // generation; empty: none
	Manifest  string    `json:"manifest"` // of the parent
	Documents []Planned `json:"documents"`
	Estimate  Estimate  `json:"estimate"`
}

// Planned is a document that a build would make, or take out, in the order of keys.
type Planned struct {
	Document string `json:"document"`
	Reason   string `json:"reason"`
	Version  string `json:"version,omitempty"`
}

// mostMoved is how many documents are listed that were not planned as they would be now.
const mostMoved = 10

// ListDifferences says what a plan that is made now says otherwise than this one. None: the same would be done.
func (p Plan) ListDifferences(now Plan) []string {
	out := now.Spec.ListDifferences(p.Spec)
	if p.Manifest != now.Manifest {
		out = append(out, fmt.Sprintf("parent: generation %s, was %s", cmp.Or(now.Parent, "(none)"),
			cmp.Or(p.Parent, "(none)")))
	}
	moved := p.compareDocuments(now)
	if more := len(moved) - mostMoved; more > 0 {
		moved = append(moved[:mostMoved], fmt.Sprintf("and %d more documents", more))
	}
	return append(out, moved...)
}

// compareDocuments compares two lists in the order of keys.
func (p Plan) compareDocuments(now Plan) (moved []string) {
	was, is := p.Documents, now.Documents
	for len(was)+len(is) > 0 {
		order := 0
		switch {
		case len(was) == 0:
			order = 1
		case len(is) == 0:
			order = -1
		default:
			order = strings.Compare(was[0].Document, is[0].Document)
		}
		switch {
		case order < 0:
			moved = append(moved, fmt.Sprintf("%s: as the parent has it, was %s", was[0].Document, was[0].Reason))
		case order > 0:
			moved = append(moved, fmt.Sprintf("%s: %s, was as the parent has it", is[0].Document, is[0].Reason))
		case was[0].Reason != is[0].Reason:
			moved = append(moved, fmt.Sprintf("%s: %s, was %s", is[0].Document, is[0].Reason, was[0].Reason))
		case was[0].Version != is[0].Version:
			moved = append(moved, fmt.Sprintf("%s: other bytes", is[0].Document))
		}
		if order <= 0 {
			was = was[1:]
		}
		if order >= 0 {
			is = is[1:]
		}
	}
	return moved
}

// Discarded says that a person does not want to see a dead letter any more.
type Discarded struct {
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"`
}

// Letter is a dead letter: a chunk that nothing could be extracted from.
type Letter struct {
	Chunk     string     `json:"chunk"`
	Document  string     `json:"document"`
	Ordinal   int        `json:"ordinal"`
	Reason    string     `json:"reason"` // a code
	Kind      string     `json:"kind"`   // LetterContent or LetterSystem
	Attempts  int        `json:"attempts"`
	Raw       string     `json:"raw"` // what the model server said last
	Text      string     `json:"text,omitempty"`
	Discarded *Discarded `json:"discarded,omitempty"`
}

// Whose a failure is: the chunk's, which the same model will fail on again, or the model server's.
const (
	LetterContent = "content"
	LetterSystem  = "system"
)
