package retrieve

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Bounds on the work of one question, by size. A step takes about a nanosecond.
const (
	// heavySteps is from which estimate on a question is heavy: it holds a processor for a tenth of a second or more.
	heavySteps = 1e8
	// mostVotes is how many chunks the ballots of one question hold, at most; 4 times what ten classes hold at 100,000
	// chunks each.
	mostVotes = 1 << 22
	// voteSteps is how long it takes to count a vote and to order what is voted for.
	voteSteps = 100
	// heavyWait is what a refused question is advised to wait.
	heavyWait = 2 * time.Second
)

// Heavy bounds how many heavy questions are worked on at once: one for every two processors, so that the others always
// have some. The zero value is ready.
type Heavy struct{ running atomic.Int64 }

func (h *Heavy) countPlaces() int64 { return max(1, int64(runtime.GOMAXPROCS(0)/2)) }

// takePlace takes a place, where one is free.
func (h *Heavy) takePlace() bool {
	if h.running.Add(1) <= h.countPlaces() {
		return true
	}
	h.running.Add(-1)
	return false
}

// Admit weighs work before it begins. Work below heavySteps always may; the rest needs one of few places, which the
// request keeps until it ends, and is fault.RateLimited where all are taken.
func (r *Request) Admit(steps float64) error {
	if r.Heavy == nil || r.heavy || steps < heavySteps {
		return nil
	}
	if r.heavy = r.Heavy.takePlace(); r.heavy {
		return nil
	}
	err := fault.RateLimited.At("answer the request", "").
		Because(fmt.Sprintf("at most %d expensive queries run at the same time", r.Heavy.countPlaces())).
		Advise("try again in a moment, or lower top_entities or params; ordinary queries are not limited")
	err.RetryAfter = heavyWait
	return err
}

// leavePlace gives the place back.
func (r *Request) leavePlace() {
	if r.heavy {
		r.heavy = false
		r.Heavy.running.Add(-1)
	}
}

// countVotes adds to the ballots of a question, and looks at its context.
func (r *Request) countVotes(n int) error {
	if r.votes += n; r.votes > mostVotes {
		return newInvalid("top_entities",
			fmt.Sprintf("the ballots of these entities contain more than %d passages", mostVotes), "lower top_entities")
	}
	return r.ctx.Err()
}

// walkSteps returns how many edges a walk goes along, at most: by its precision, or by how often it can go over the
// graph until what is left of its mass is below it.
func (r *Request) walkSteps(damping, eps float64) float64 {
	edges := float64(len(r.Generation.Live.Graph.ClassTo))
	return min(1/(eps*(1-damping)), edges*math.Log(eps)/math.Log(damping))
}
