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
	reported int           // what Want last reported as held
	giving   bool          // more was asked to be held than the share is since, and no process heard yet that it is less
	patience time.Duration // how long the first share is waited for
	wanting  func(urgent bool)
}

func (s *share) currentPlaces() int {
	if time.Now().After(s.until) {
		return fallback
	}
	return s.places
}

// Join has the gate share its concurrency: it admits nothing until Share says how much, or patience is over. wanting
// is called, and must return at once, when others should hear of this gate before they would: when calls wait and there
// is no place at all, and when it has come down to a smaller share. urgent is that no share was received since the
// gate is in use.
func (g *Gate) Join(patience time.Duration, wanting func(urgent bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared = &share{until: time.Now().Add(patience), patience: patience, wanting: wanting}
	g.askShare()
}

// reportFree says that what others may have by now is free. The caller holds the lock.
func (g *Gate) reportFree() {
	if g.shared != nil && g.shared.giving && g.inflight <= g.shared.places {
		g.shared.giving = false
		g.shared.wanting(false)
	}
}

// LeaveFleet has the gate share no more.
func (g *Gate) LeaveFleet() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared = nil
	g.admitWaiters()
}

// askShare says that calls wait for a share. The caller holds the lock.
func (g *Gate) askShare() {
	if g.shared != nil && g.waiting.Len() > 0 && g.currentBound() < 1 {
		g.shared.wanting(!g.shared.heard)
	}
}

// ReportWant returns what others should know of this gate: its peak since it was asked before, as the least moment
// between two calls would say too little. used is false where it was unused for long: then nothing is reported of it.
// What of its share the gate did not need it gives up with that, before it hears the answer: others may have it at
// once.
func (g *Gate) ReportWant() (want coordination.Want, used bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.inflight + g.waiting.Len()
	used = g.boundByOwners() || now > 0
	want = coordination.Want{Total: int(g.max), Demand: g.peak, Held: g.inflight}
	g.peak = now
	if g.shared == nil {
		return want, used
	}
	if !used {
		g.shared.places, g.shared.until, g.shared.heard = 0, time.Now().Add(g.shared.patience), false
	}
	want.Held = max(g.inflight, min(g.shared.currentPlaces(), want.Demand))
	g.shared.places = min(g.shared.places, want.Held)
	g.shared.reported, g.shared.giving = want.Held, false
	return want, used
}

// SetShare says how many calls the gate may have in flight until a time. What it has learned of the server moves with
// its share: where the server bears half of what all have configured, it bears half of each share.
func (g *Gate) SetShare(places int, until time.Time) {
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
	g.shared.giving = places < g.shared.reported
	g.reportFree()
	g.admitWaiters()
}

// NoteUnsent notes that the share could not be sent: once it is too old the gate falls back to one call.
func (g *Gate) NoteUnsent() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitWaiters()
}
