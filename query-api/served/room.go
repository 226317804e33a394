package served

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/telemetry"
)

const (
	// pinIdle is how long a generation that was asked for by name is kept for the next page of a list.
	pinIdle = time.Minute
	// namedIdle is when such a generation is closed though no opening needs it: its lease keeps it from being collected.
	namedIdle = 5 * time.Minute
	// steadyAfter is the age from which a generation that is still asked for is in steady use.
	steadyAfter = time.Second
	// sparing is how long an opening waits for the room of generations that are in no steady use, and no longer.
	sparing = time.Second
	// roomPatience is how long an opening waits, once it is its turn, for room that others use.
	roomPatience = 10 * time.Second
	// lookAgain is how often one that waits for room looks at what time alone changes.
	lookAgain = 250 * time.Millisecond
)

// room bounds the bytes of the generations that are open, by closing those that no query uses: of those that were asked
// for once, and only then of those in steady use, the one used longest ago. So a thousand indexes that are asked in
// turn do not close the one that is asked all the time.
//
// Nothing that is used is ever closed. A generation that takes the place of an open one gets in at once, and so does
// one that is alone, however large it is.
type room struct {
	limit     int64
	telemetry *telemetry.Process
	queue     chan struct{} // of waiting for room: who came first gets it first

	mu      sync.Mutex
	used    int64
	opened  int   // generations, of shares
	turns   int64 // uses so far
	shares  map[*share]struct{}
	changed chan struct{} // closed when something was let go of; nil: no opening waits
}

// share is that of one generation, from before it is opened until its files are unmapped.
type share struct {
	room  *room
	bytes int64
	// release lets the index go of its idle generation; false where it is wanted after all.
	release func(*retrieve.Generation) bool

	// Guarded by the room.
	generation *retrieve.Generation // nil while it is being opened
	opened     time.Time
	used       time.Time
	turn       int64 // of its last use among all
	steady     bool
	pinned     bool
	left       bool
}

func newRoom(limit int64, process *telemetry.Process) *room {
	return &room{limit: limit, telemetry: process, queue: make(chan struct{}, 1), shares: map[*share]struct{}{}}
}

// errNoRoom is of an opening ahead that found the room taken: no request waits for it.
var errNoRoom = fault.GenBusy.At("open generation", "ahead").Because("the room is taken")

// takeAhead takes room for a generation not asked for yet, as long as no more than a share of the whole is taken.
func (r *room) takeAhead(mine *share, bytes, most int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used > 0 && r.used+bytes > most {
		return errNoRoom
	}
	r.takeBytes(mine, bytes)
	return nil
}

// takeSwap takes room for the generation that follows an open one: a gap would be worse than some bytes too many.
func (r *room) takeSwap(mine *share, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeBytes(mine, bytes)
}

// waitForRoom takes room, and closes what no query uses. Those who come later wait until this one has it. It fails with
// fault.GenBusy where all of it stays in use.
func (r *room) waitForRoom(ctx context.Context, mine *share, bytes int64) error {
	select {
	case r.queue <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.queue }()
	began := time.Now()
	for {
		victim, idle, changed := r.tryTake(mine, bytes, time.Since(began) > sparing)
		switch {
		case changed == nil:
			return nil
		case victim != nil && victim.release(idle):
			continue
		case time.Since(began) > roomPatience:
			return fault.GenBusy.At("open generation", fmt.Sprintf("of %d bytes", bytes)).
				Because(fmt.Sprintf("open generations use %d bytes, and query_api.indexes.bytes is %d",
					r.usedBytes(), r.limit)).
				Advise("try again in a moment, or raise query_api.indexes.bytes")
		case victim != nil:
			r.touchShare(victim) // somebody has just asked for it, or still reads it
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
		again.Stop()
	}
}

// tryTake takes the room where it is there, which gives no channel. Else it gives what to close, if anything, and the
// channel to wait on.
func (r *room) tryTake(mine *share, bytes int64, all bool) (*share, *retrieve.Generation, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == 0 || r.used+bytes <= r.limit {
		r.takeBytes(mine, bytes)
		return nil, nil, nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	var victim *share
	held := false // by a request, of those that were asked for once
	for one := range r.shares {
		switch {
		case one.generation == nil:
		case one.generation.IsShared():
			held = held || !one.steady
		case one.pinned && time.Since(one.used) < pinIdle:
		case victim == nil || one.isBefore(victim):
			victim = one
		}
	}
	if victim == nil || victim.steady && held && !all {
		return nil, nil, r.changed
	}
	return victim, victim.generation, r.changed
}

// isBefore orders what is to be closed.
func (p *share) isBefore(other *share) bool {
	if p.steady != other.steady {
		return other.steady
	}
	return p.turn < other.turn
}

// takeBytes takes bytes of the room for a share. The caller holds the lock.
func (r *room) takeBytes(mine *share, bytes int64) {
	mine.room, mine.bytes = r, bytes
	r.used += bytes
	r.shares[mine] = struct{}{}
	r.updateMetrics()
}

// noteOpen notes that the generation of a share is open. One that follows another is used as that was.
func (r *room) noteOpen(mine *share, generation *retrieve.Generation, before *share) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine.left {
		return
	}
	now := time.Now()
	r.opened++
	r.turns++
	mine.turn = r.turns
	mine.generation, mine.opened, mine.used = generation, now, now
	if before != nil {
		mine.opened, mine.used, mine.steady = before.opened, before.used, before.steady
	}
	r.updateMetrics()
}

// touchShare notes that a share is used.
func (r *room) touchShare(mine *share) {
	if mine == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	mine.steady = mine.steady || now.Sub(mine.opened) >= steadyAfter
	r.turns++
	mine.used, mine.turn = now, r.turns
}

// idleTime returns for how long no request has asked for a share.
func (p *share) idleTime() time.Duration {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return time.Since(p.used)
}

// noteHolders follows how many have the generation of a share; one that could not be opened has none.
func (p *share) noteHolders(n int64) {
	if p.room == nil || n > 1 { // it never got in
		return
	}
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if n == 0 && !p.left {
		p.left = true
		delete(r.shares, p)
		r.used -= p.bytes
		if p.generation != nil {
			r.opened--
		}
		r.updateMetrics()
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// updateMetrics sets the metrics of what is open; it is called under the lock.
func (r *room) updateMetrics() {
	r.telemetry.Set(telemetry.OpenGenerations, float64(r.opened))
	r.telemetry.Set(telemetry.OpenBytes, float64(r.used))
}

// usedBytes returns the number of bytes that are taken.
func (r *room) usedBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}
