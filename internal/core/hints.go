package core

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// HintsGeneration begins the names of generations that hints of changed objects began.
const HintsGeneration = "hints-"

// MostDeliveries is how many deliveries of hints are counted, and followed one by one: where more wait, the corpus is
// listed.
const MostDeliveries = 1000

// IsHinted reports whether a generation was made of the objects that hints named.
func IsHinted(generation string) bool { return strings.HasPrefix(generation, HintsGeneration) }

// Freshness is how an index stands that follows hints of changed objects.
type Freshness struct {
	Pending int      `json:"pending" doc:"deliveries of hints that wait, 1,000 where there are more"`
	Run     string   `json:"run,omitempty" doc:"build that follows hints now"`
	Status  string   `json:"status,omitempty" doc:"of this build"`
	Waiting string   `json:"waiting,omitempty" doc:"why hints wait for the next night"`
	Problem *Problem `json:"problem,omitempty" doc:"of the queue of events, as the worker met it"`
	Last    *HintRun `json:"last,omitempty" doc:"build that followed hints last"`
}

// HintRun is what came of the hints that one build followed.
type HintRun struct {
	Run     string    `json:"run"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Changed int64     `json:"changed" doc:"documents that were added, changed or removed"`
	Ended   time.Time `json:"ended"`
	Seconds float64   `json:"seconds" doc:"from the first of the hints until then"`
}

// String says in a line how the index stands.
func (f *Freshness) String() string {
	text := fmt.Sprintf("%d deliveries of hints wait", f.Pending)
	if f.Pending >= MostDeliveries {
		text = "1,000+ deliveries of hints wait"
	}
	if f.Run != "" {
		text += ", " + f.Run + " follows them (" + cmp.Or(f.Status, StatusRunning) + ")"
	}
	if f.Waiting != "" {
		text += ", for the next night (" + f.Waiting + ")"
	}
	if f.Last != nil {
		text += fmt.Sprintf("; last: %s %s, %d changed, after %.0f s", f.Last.Run,
			strings.TrimSpace(f.Last.Status+" "+f.Last.Reason), f.Last.Changed, f.Last.Seconds)
	}
	if f.Problem != nil {
		text += "; the queue: " + f.Problem.Detail
	}
	return text
}
