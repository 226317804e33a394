package core

import (
	"strings"
	"time"
)

// HintsGeneration begins the names of generations that hints of changed objects began.
const HintsGeneration = "hints-"

// IsHinted reports whether a generation was made of the objects that hints named.
func IsHinted(generation string) bool { return strings.HasPrefix(generation, HintsGeneration) }

// Freshness is how an index stands that follows hints of changed objects.
type Freshness struct {
	Pending int       `json:"pending" doc:"batches of hints that wait"`
	Oldest  time.Time `json:"oldest,omitzero" doc:"when the first of them arrived"`
	Run     string    `json:"run,omitempty" doc:"build that follows hints now"`
	Waiting string    `json:"waiting,omitempty" doc:"why hints wait for the next night"`
	Problem *Problem  `json:"problem,omitempty" doc:"of the queue of events, as the worker met it"`
	Last    *HintRun  `json:"last,omitempty" doc:"build that followed hints last"`
}

// HintRun is what came of the hints that one build followed.
type HintRun struct {
	Run     string    `json:"run"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Keys    int       `json:"keys" doc:"objects that were looked at; 0: the whole corpus"`
	Changed int64     `json:"changed" doc:"documents that were added, changed or removed"`
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds" doc:"from the first of the hints until then"`
}
