package served

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/telemetry"
)

const (
	// patience is how long a query waits for a new generation before it is answered by the old one, which is never
	// wrong.
	patience = 500 * time.Millisecond
	// mirrorPatience is how long a query waits for the mirror; what the watcher read serves as well.
	mirrorPatience = 250 * time.Millisecond
	// retryOpen is the wait after a generation could not be opened.
	retryOpen = 300 * time.Millisecond
	// retryMost is the longest wait before it is tried again where no request asks.
	retryMost = 10 * time.Second
)

// index is one index as this replica serves it. Nothing is read from a store under its lock.
type index struct {
	mu        sync.Mutex
	published core.Pointer // as the artifact had it when it was last read
	mirrored  core.Pointer // what the mirror said then
	readAt    time.Time    // when that reading began
	damaged   error        // why the pointer cannot be read, if a reading since has failed
	heard     core.Pointer // what the mirror said last to the watcher
	info      *IndexInfo   // of the generation that informed names; it never changes
	informed  core.Pointer
	polling   bool          // it is being read
	current   *open         // nil until one is open, and where it was closed for others
	manifest  string        // sha256 of its manifest
	opening   chan struct{} // closed when the opening that runs is over
	failed    error         // of the last opening
	failures  int           // openings in a row that failed
	retryAt   time.Time     // a generation that could not be opened is tried again then, for a request
	againAt   time.Time     // and then without one
	asked     bool          // it is to be open: it was asked for since it was last closed, or is opened ahead
	ahead     bool          // it is opened at start, and was not yet
	waiting   int           // requests that are about to hold the current generation
	pinned    []*open       // the one used last at the end
	pinning   map[string]*pinning
	retired   []*open              // no longer offered, maybe still read by a query
	leased    map[string]time.Time // generations whose leases may not have run out, and when they were renewed
	closed    bool

	plainSpecs map[string]bool // keys of configurations, all without labels
	listedAt   time.Time       // when they were listed
}

// open is an open generation and its share of the room.
type open struct {
	*retrieve.Generation
	share *share
}

// ensureIndex gives the index, making its entry.
func (s *Set) ensureIndex(name string) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.indexes[name]
	if x == nil {
		x = &index{}
		s.indexes[name] = x
	}
	return x
}

// listServed gives all indexes that were asked for.
func (s *Set) listServed() map[string]*index {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*index, len(s.indexes))
	for name, x := range s.indexes {
		out[name] = x
	}
	return out
}

// readPointer says what is published: what the artifact said when it was last read, at most a poll ago. It is read
// again for the first query for an index, and where the mirror says something else than it did at the last reading:
// whichever epoch is higher, the artifact counts. Names without a published index leave no trace.
func (s *Set) readPointer(ctx context.Context, name string) (core.Pointer, error) {
	mirrored := s.readMirror(ctx, name)
	s.mu.Lock()
	x := s.indexes[name]
	s.mu.Unlock()
	if x != nil {
		if stored, known := x.storedPointer(mirrored); known {
			return stored, nil
		}
	}
	began := time.Now()
	served := x != nil && x.isKnown()
	reading, cancel := ctx, context.CancelFunc(func() {})
	if served {
		reading, cancel = context.WithTimeout(ctx, s.Patience)
	}
	stored, _, err := artifact.Index{Store: s.Artifacts, Name: name}.ReadPointer(reading)
	cancel()
	switch {
	case err != nil && served: // what was served is never wrong; the watcher goes on asking
		return x.lastPointer(), nil
	case err != nil && mirrored.Manifest != "":
		return mirrored, nil
	case err != nil:
		return core.Pointer{}, err
	}
	if x == nil && stored.Manifest == "" {
		return stored, nil
	}
	x = s.ensureIndex(name)
	x.learnPointer(stored, mirrored, began)
	return x.lastPointer(), nil
}

// FindPointer gives the pointer of a published index; fault.UnknownIndex where there is none.
func (s *Set) FindPointer(ctx context.Context, name string) (core.Pointer, error) {
	if !core.ValidIndex(name) {
		return core.Pointer{}, UnknownIndex(name)
	}
	pointer, err := s.readPointer(ctx, name)
	if err == nil && pointer.Manifest == "" {
		err = UnknownIndex(name)
	}
	return pointer, err
}

// readMirror reads the mirror of the pointer; one that cannot be read is none.
func (s *Set) readMirror(ctx context.Context, name string) core.Pointer {
	ctx, cancel := context.WithTimeout(ctx, mirrorPatience)
	defer cancel()
	var pointer core.Pointer
	if raw, err := s.Readers.ReadMirror(ctx, name); err == nil && raw != nil && json.Unmarshal(raw, &pointer) != nil {
		return core.Pointer{}
	}
	return pointer
}

// storedPointer returns what the artifact said; false when it was never read, or when the mirror says of something that
// was not known then.
func (x *index) storedPointer(mirrored core.Pointer) (core.Pointer, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	news := mirrored != (core.Pointer{}) && mirrored != x.published && mirrored != x.mirrored // also of a deletion
	// The pointer of a closed one is seldom read.
	stale := x.current == nil && time.Since(x.readAt) >= pollEvery
	return x.published, !x.readAt.IsZero() && !news && !stale
}

// isKnown reports whether the artifact was ever read.
func (x *index) isKnown() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.readAt.IsZero()
}

// lastPointer returns what the artifact said last.
func (x *index) lastPointer() core.Pointer {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.published
}

// learnPointer takes what a reading brought; of two, the one that began later counts.
func (x *index) learnPointer(pointer, mirrored core.Pointer, began time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if began.Before(x.readAt) {
		return
	}
	x.published, x.mirrored, x.readAt, x.damaged = pointer, mirrored, began, nil
}

// acquireCurrent holds the current generation for a query, opening it where it is closed. Who waits for that in vain
// gets fault.GenBusy; the opening goes on.
func (s *Set) acquireCurrent(ctx context.Context, name string) (*retrieve.Generation, error) {
	pointer, err := s.FindPointer(ctx, name)
	if err != nil {
		return nil, err
	}
	x := s.ensureIndex(name)
	x.countWaiting(1)
	defer x.countWaiting(-1)
	first := time.NewTimer(s.Timeout)
	defer first.Stop()
	for reported := false; ; {
		opened := x.startOpening(s, name, pointer)
		if opened == nil {
			// What failed a moment ago, without a request, may be whole by now: a request gets the result of a new opening.
			if again := x.untilRetry(); again > 0 && !reported {
				reported = true
				select {
				case <-time.After(again):
					continue
				case <-ctx.Done():
				}
			}
			break
		}
		wait := first.C
		if x.isOpen() {
			next := time.NewTimer(s.Patience)
			defer next.Stop()
			wait = next.C
		}
		select {
		case <-opened:
			if x.passedOver() {
				continue
			}
		case <-wait:
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
		}
		break
	}
	held, former, failed := x.holdCurrent(s, pointer)
	if held != nil && former {
		if err := s.checkFormer(ctx, name, x, pointer, held, failed); err != nil {
			held.Close()
			return nil, err
		}
	}
	if held == nil {
		return nil, cmp.Or(failed, newBusyError(pointer.Generation))
	}
	return held, nil
}

// holdCurrent holds the generation that is open, and reports whether it is another than a pointer names, and why the
// last opening failed.
func (x *index) holdCurrent(
	server *Set, pointer core.Pointer,
) (held *retrieve.Generation, former bool, failed error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current == nil || !x.current.Hold() {
		return nil, false, x.failed
	}
	server.room.touchShare(x.current.share)
	former = x.manifest != pointer.Manifest && x.manifest != x.published.Manifest
	return x.current.Generation, former, x.failed
}

// countWaiting counts the requests that are about to hold the current generation, which is not closed for another then.
func (x *index) countWaiting(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting += n
	x.asked = x.asked || n > 0
}

// passedOver says that an opening ahead found no room: a request that waited for it has to ask for more.
func (x *index) passedOver() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.current == nil && x.failed == nil && !x.closed
}

func newBusyError(generation string) error {
	return fault.GenBusy.At("open generation", generation).
		Because("it is still being opened").
		Advise("try again in a moment")
}

// UnknownIndex returns the error for an index that is not published, or that the caller may not know of.
func UnknownIndex(name string) error {
	return fault.UnknownIndex.At("query", name).
		Because("there is no published index with this name").
		Advise("GET /v1/indexes lists those you may ask; or the key is not for it")
}

func (x *index) isOpen() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.current != nil
}

// startOpening starts to open what the pointer names, once, and gives a channel to wait on; nil when nothing is to be
// done.
func (x *index) startOpening(server *Set, name string, pointer core.Pointer) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.opening != nil {
		return x.opening
	}
	if x.current != nil && x.current.HasChanged() { // a question waits, rather than read what is wrong
		x.retireGeneration(x.current)
		x.current, x.manifest = nil, ""
	}
	if x.closed || (x.current != nil && x.manifest == pointer.Manifest && x.current.Release == pointer.Epoch) {
		return nil
	}
	if x.failed != nil && time.Now().Before(x.retryAt) {
		return nil
	}
	before, ahead := x.current, x.ahead && x.waiting == 0
	done := make(chan struct{})
	if !server.runBeside(func() {
		generation, err := server.openPointed(name, pointer, func(ctx context.Context, mine *share, bytes int64) error {
			switch {
			case before != nil:
				server.room.takeSwap(mine, bytes)
				return nil
			case ahead:
				return server.room.takeAhead(mine, bytes, server.aheadShare())
			}
			return server.room.waitForRoom(ctx, mine, bytes)
		})
		x.finishOpening(server, name, pointer.Manifest, generation, err)
		close(done)
	}) {
		return nil
	}
	x.opening = done
	return done
}

// refreshWanted goes on with an index beside requests: it opens what a new pointer names where the index is to be open.
func (x *index) refreshWanted(server *Set, name string, pointer core.Pointer) {
	x.mu.Lock()
	wanted := x.asked && (x.failed == nil || !time.Now().Before(x.againAt))
	x.mu.Unlock()
	if wanted {
		x.startOpening(server, name, pointer)
	}
}

// finishOpening takes over what an opening brought.
func (x *index) finishOpening(server *Set, name, manifest string, generation *open, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.failed != nil && err != nil && x.failed.Error() == err.Error()
	x.opening, x.failed, x.ahead = nil, err, false
	if errors.Is(err, errNoRoom) { // it is opened when it is asked for
		x.failed, x.asked = nil, x.waiting > 0
		return
	}
	defer func() { server.noteReady(name, x.current != nil || fault.Is(err, fault.GenBusy)) }()
	if err != nil {
		x.delayRetry()
	}
	switch {
	case err == nil && x.closed:
		generation.Close()
	case err == nil:
		x.failures = 0
		x.replaceCurrent(server, generation, manifest)
		server.Telemetry.Count(telemetry.Openings, 1)
		server.Telemetry.Set(telemetry.GenerationEpoch, float64(generation.Release), name)
	case fault.Is(err, fault.GenBusy):
		x.asked = false // the next request asks for room once more
	case !again && !errors.Is(err, context.Canceled):
		server.log.Error("generation not opened", "index", name, "code", string(fault.CodeOf(err)))
	}
}

// replaceCurrent puts an open generation in the place of the one before. The caller holds the lock.
func (x *index) replaceCurrent(server *Set, generation *open, manifest string) {
	var before *share
	if x.current != nil {
		before = x.current.share
	}
	generation.share.release = func(idle *retrieve.Generation) bool { return x.releaseIdle(server, idle) }
	server.room.noteOpen(generation.share, generation.Generation, before)
	x.retireGeneration(x.current)
	x.current, x.manifest = generation, manifest
}

// untilRetry returns how long it is until a failed opening may be tried again; 0 where none failed.
func (x *index) untilRetry() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed == nil || x.current != nil {
		return 0
	}
	return time.Until(x.retryAt)
}

// delayRetry says when an opening that failed is tried again: without a request the later, the more often it has. The
// caller holds the lock.
func (x *index) delayRetry() {
	now := time.Now()
	x.retryAt, x.againAt = now.Add(retryOpen), now.Add(min(retryOpen<<min(x.failures, 10), retryMost))
	x.failures++
}

// releaseIdle lets go of a generation that is idle, to make room for another; false where a request needs it after all.
func (x *index) releaseIdle(server *Set, idle *retrieve.Generation) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current != nil && x.current.Generation == idle {
		if x.waiting > 0 || idle.IsShared() {
			return false
		}
		x.retireGeneration(x.current)
		x.current, x.manifest, x.asked = nil, "", false
		return true
	}
	for i, one := range x.pinned {
		if one.Generation == idle && !idle.IsShared() {
			x.retireGeneration(one)
			x.pinned = slices.Delete(x.pinned, i, i+1)
			return true
		}
	}
	return false
}

// admission takes room for a generation before it is opened.
type admission func(ctx context.Context, mine *share, bytes int64) error
