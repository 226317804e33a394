package stage

import (
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// alikeMost is how many first items of a task may fail for the same reason before the run pauses.
const alikeMost = 20

// firsts are the first items of a task, as long as none of them comes to something. If all fail the same, it is not the
// items: the model cannot do the task, though it may answer a plain sentence. A person who resumes the run knows, so
// that it takes twice as many the next time.
type firsts struct {
	worked  bool
	reason  string
	streak  int
	most    int
	fell    int       // how often all failed with one reason
	known   int       // of these times, those that a person knew of who resumed the run
	resumed time.Time // when a person resumed it last
	cause   error     // of the last time
}

// NoteResume takes when a person resumed the run last, as its control record says; zero if never. A round that begins
// after all first items failed, and before that, does nothing: a pause lets end what is in flight, and what waits for
// its turn counts as such.
func (h *Health) NoteResume(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if first := &h.first; !at.IsZero() && !at.Equal(first.resumed) {
		first.resumed, first.known = at, first.fell
		first.streak = 0     // what ended while the run paused is what the person knows of
		if first.most == 0 { // another process may have found them the same, and reported it
			first.most = 2 * alikeMost
		}
	}
}

// noteItem takes how an item ended: reason is empty where it came to something, and words are the last of the failure.
// The error reports that all failed with one reason so far.
func (h *Health) noteItem(info model.Info, reason, words string) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := &h.first
	switch reason {
	case "":
		first.worked = true
	case first.reason:
		first.streak++
	default:
		first.reason, first.streak = reason, 1
	}
	if first.most == 0 {
		first.most = alikeMost
	}
	if first.worked || first.streak < first.most {
		return nil
	}
	failed := first.streak
	first.streak, first.most = 0, 2*first.most
	first.fell++
	first.cause = fault.ModelRefused.At("use chat model", info.Endpoint+" model "+info.Model).
		Because(fmt.Sprintf("the first %d texts all failed the same way (%s); its last answer was: %s",
			failed, reason, firstWords(words))).
		Advise("use another model or server; to continue with this one: unweaver resume RUN")
	return first.cause
}

// Round is a piece of work whose items a Health looks at: a batch, a partition.
type Round struct {
	health *Health
	fell   int
}

// BeginRound begins one. Nil is allowed.
func (h *Health) BeginRound() Round {
	if h == nil {
		return Round{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return Round{health: h, fell: h.first.known}
}

// CheckEnd says why the round must end: all first items failed for one reason, and the run was not resumed since.
func (r Round) CheckEnd() error {
	if r.health == nil {
		return nil
	}
	r.health.mu.Lock()
	defer r.health.mu.Unlock()
	if r.health.first.fell > r.fell && !r.health.first.worked {
		return r.health.first.cause
	}
	return nil
}

// IsProven says whether a failure may be remembered as the item's own: others came to something, or the round began
// when a person had the run go on although none did.
func (r Round) IsProven() bool {
	if r.health == nil {
		return true
	}
	r.health.mu.Lock()
	defer r.health.mu.Unlock()
	return r.health.first.worked || r.fell > 0
}
