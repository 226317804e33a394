package limits

import (
	"math"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// fallback is how many calls a process has in flight that has not heard for long what its share is: others may have
// been given what it had.
const fallback = 1

// share is a process's part of the concurrency of an endpoint.
type share struct {
	places   int
	until    time.Time     // after it places count no more
	base     float64       // the last share above zero, by which learned is to be read; 0: none yet
	heard    bool          // since somebody last used the gate
	patience time.Duration // how long the first share is waited for
	wanting  func(urgent bool)
}

func (s *share) now() int {
	if time.Now().After(s.until) {
		return fallback
	}
	return s.places
}

// Join has the gate share its concurrency: it admits nothing until Share tells how much, or patience is over. wanting
// is called, and must return at once, when calls wait and there is no place at all; urgent is that the share was never
// told since the gate is in use.
func (g *Gate) Join(patience time.Duration, wanting func(urgent bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared = &share{until: time.Now().Add(patience), patience: patience, wanting: wanting}
	g.ask()
}

// LeaveFleet has the gate share no more.
func (g *Gate) LeaveFleet() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared = nil
	g.admit()
}

// ask says that calls wait for a share. The caller holds the lock.
func (g *Gate) ask() {
	if g.shared != nil && g.waiting.Len() > 0 && g.bound() < 1 {
		g.shared.wanting(!g.shared.heard)
	}
}

// Want is what others should know of this gate: its peak since it was asked before, as the least moment between two
// calls would say too little. used is false where nobody has used it for long: then nothing is told of it.
func (g *Gate) Want() (want coordination.Want, used bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.inflight + g.waiting.Len()
	used = g.used() || now > 0
	want = coordination.Want{Total: int(g.max), Demand: g.peak, Held: g.inflight}
	g.peak = now
	if g.shared == nil {
		return want, used
	}
	if !used {
		g.shared.places, g.shared.until, g.shared.heard = 0, time.Now().Add(g.shared.patience), false
	}
	want.Held = max(g.inflight, g.shared.now())
	return want, used
}

// Share tells how many calls the gate may have in flight until a time. What it has learned of the server moves with its
// share: where the server bears half of what all have configured, it bears half of each share.
func (g *Gate) Share(places int, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shared == nil {
		return
	}
	g.shared.places, g.shared.until, g.shared.heard = places, until, true
	if places > 0 {
		if g.shared.base > 0 && !math.IsInf(g.learned, 1) {
			g.learned = max(1, g.learned*float64(places)/g.shared.base)
		}
		g.shared.base = float64(places)
	}
	g.admit()
}

// Unheard is to be called when the share could not be told: once it is too old the gate falls back to one call.
func (g *Gate) Unheard() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admit()
}
