package served

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	// watchEvery is the beat of the watcher.
	watchEvery = 250 * time.Millisecond
	// pollEvery is how often an open index's pointer is read where there is no mirror, and pollMirrored where there is;
	// where there are many of them less often.
	pollEvery    = 500 * time.Millisecond
	pollMirrored = 3 * time.Second
	// pollTimeout bounds one reading of a pointer; another index must not wait for a store that hangs.
	pollTimeout = 5 * time.Second
	// listWidth is how many pointers are read at once.
	listWidth = 16
	// openAhead is how many indexes are opened at start where none are named, the first by name.
	openAhead = 64
	// readsOpen and readsClosed are how many pointers are read in a beat without a hint of the mirror.
	readsOpen, readsClosed = 4, 1
	// leaseTTL of a reader's lease; it is renewed three times in that time.
	leaseTTL = 30 * time.Second
)

// watchIndexes opens the indexes that are asked for at start, then new generations before a query needs them, and
// renews the leases of those that are read. It runs until Shutdown.
func (s *Set) watchIndexes() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var renewed time.Time
	for {
		s.openListed()
		s.readMirrors()
		s.pollPointers()
		if time.Since(renewed) > leaseTTL/3 {
			renewed = time.Now()
			s.leaveIdle()
			s.runBeside(s.renewLeases)
			s.runBeside(s.leavePurged)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readMirrors learns in one request what the mirrors of all indexes say. Where they cannot be read the artifacts are
// asked all the same.
func (s *Set) readMirrors() {
	ctx, cancel := context.WithTimeout(s.ctx, mirrorPatience)
	defer cancel()
	version, all, err := s.Readers.ReadMirrors(ctx, s.mirrors)
	if err != nil { // it is unknown what is news: the artifacts are asked as often as without a mirror
		s.mirrors = ""
		for _, x := range s.listServed() {
			x.noteMirror(core.Pointer{})
		}
	}
	if err != nil || all == nil {
		return
	}
	s.mirrors = version
	for name, raw := range all {
		var pointer core.Pointer
		if json.Unmarshal(raw, &pointer) == nil && core.ValidIndex(name) {
			s.ensureIndex(name).noteMirror(pointer)
		}
	}
}

// noteMirror takes what the mirror says.
func (x *index) noteMirror(pointer core.Pointer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = pointer
}

// due says whether the pointer of an index is to be read now, and how urgently.
type due struct {
	name string
	x    *index
	age  time.Duration
}

// pollPointers reads the pointers that may have changed, beside each other: those that the mirror has news of, then of
// the open indexes and of the closed ones those that were not read for the longest time, a bounded number a beat, so
// that a thousand closed indexes cost no more than one.
func (s *Set) pollPointers() {
	var open, closed []due
	for name, x := range s.listServed() {
		news, asked, age, every := x.checkFreshness()
		switch {
		case news:
			s.pollPointer(name, x)
		case asked && age >= every:
			open = append(open, due{name, x, age})
		case !asked && age >= pollMirrored:
			closed = append(closed, due{name, x, age})
		}
		if pointer := x.lastPointer(); asked && pointer.Manifest != "" {
			x.refreshWanted(s, name, pointer)
		}
	}
	for _, some := range []struct {
		of   []due
		most int
	}{{open, readsOpen}, {closed, readsClosed}} {
		slices.SortFunc(some.of, func(a, b due) int { return cmp.Compare(b.age, a.age) })
		for _, one := range some.of[:min(len(some.of), some.most)] {
			s.pollPointer(one.name, one.x)
		}
	}
}

// checkFreshness says whether the mirror says something new of an index, whether it is to be open, how old is what is
// known of it, and how old that may become while it is open.
func (x *index) checkFreshness() (news, asked bool, age, every time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	every = pollEvery
	if x.heard.Manifest != "" && x.heard == x.published {
		every = pollMirrored
	}
	news = x.heard != (core.Pointer{}) && x.heard != x.published && x.heard != x.mirrored
	return news && !x.readAt.IsZero(), x.asked || x.current != nil || x.failed != nil, time.Since(x.readAt), every
}

// openListed finds out which indexes there are and has the first of them opened, until it has succeeded once.
func (s *Set) openListed() {
	if s.listed.Load() {
		return
	}
	names, most := s.Warm, len(s.Warm)
	if len(names) == 0 {
		ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
		defer cancel()
		var err error
		if names, err = artifact.ListIndexes(ctx, s.Artifacts); err != nil {
			s.log.Warn("cannot list indexes", "code", string(fault.CodeOf(err)))
			return
		}
		most = openAhead
	}
	ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
	defer cancel()
	first := names[:min(len(names), most)]
	if err := parallel.Each(ctx, len(first), listWidth, func(ctx context.Context, i int) error {
		return s.openFirst(ctx, first[i])
	}); err != nil {
		s.log.Warn("cannot read pointers", "code", string(fault.CodeOf(err)))
		return
	}
	for _, name := range names[len(first):] {
		s.ensureIndex(name)
	}
	s.listed.Store(true)
}

// openFirst opens an index that no request asked for yet, where it is published and finds room.
func (s *Set) openFirst(ctx context.Context, name string) error {
	pointer, err := s.readPointer(ctx, name)
	switch {
	case artifact.IsDamage(err): // of this index alone
		x := s.ensureIndex(name)
		x.noteFailure(err)
		x.mu.Lock()
		x.asked, x.ahead = true, x.current == nil // it is opened when the pointer is mended, by no request
		x.mu.Unlock()
		s.noteReady(name, false)
		s.log.Error("cannot read pointer", "index", name, "code", string(fault.CodeOf(err)))
		return nil
	case err == nil && pointer.Manifest != "":
		x := s.ensureIndex(name)
		x.mu.Lock()
		x.asked, x.ahead = true, x.current == nil
		x.mu.Unlock()
		x.startOpening(s, name, pointer)
	}
	return err
}

// aheadShare returns how much may be opened at start: what is named all of the room, what is not named half of it.
func (s *Set) aheadShare() int64 {
	if len(s.Warm) > 0 {
		return s.room.limit
	}
	return s.room.limit / 2
}

// pollPointer reads the pointer of an index, beside those of others.
func (s *Set) pollPointer(name string, x *index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.polling || x.closed {
		return
	}
	x.polling = s.runBeside(func() {
		defer func() {
			x.mu.Lock()
			x.polling = false
			x.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
		defer cancel()
		if s.readCurrent(ctx, name, x) != nil {
			return
		}
		if pointer := x.lastPointer(); pointer.Manifest != "" {
			x.refreshWanted(s, name, pointer)
		} else {
			x.dropIndex()
			s.endLeases(ctx, name, x)
		}
	})
}

// endLeases ends the leases of generations that are no longer read here, as a deletion of the index waits for them.
func (s *Set) endLeases(ctx context.Context, name string, x *index) {
	var held []coordination.Held
	for _, generation := range x.takeUnread() {
		held = append(held, coordination.Held{Index: name, Generation: generation})
	}
	if len(held) > 0 {
		_ = s.Readers.Lease(ctx, held, s.id, time.Millisecond) // else they end by themselves
	}
}

// takeUnread returns the generations that have leases and are no longer read, and forgets their leases.
func (x *index) takeUnread() (out []string) {
	held := x.listHeld()
	x.mu.Lock()
	defer x.mu.Unlock()
	for generation := range x.leased {
		if !slices.Contains(held, generation) {
			out = append(out, generation)
			delete(x.leased, generation)
		}
	}
	return out
}

// noteLeases notes that the leases of generations are renewed now, and forgets those that ran out.
func (x *index) noteLeases(generations ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.leased, func(_ string, renewed time.Time) bool { return time.Since(renewed) > leaseTTL })
	if x.leased == nil {
		x.leased = map[string]time.Time{}
	}
	for _, generation := range generations {
		x.leased[generation] = time.Now()
	}
}

// readCurrent asks the artifacts what is published.
func (s *Set) readCurrent(ctx context.Context, name string, x *index) error {
	x.mu.Lock()
	heard := x.heard
	x.mu.Unlock()
	began := time.Now()
	pointer, _, err := artifact.Index{Store: s.Artifacts, Name: name}.ReadPointer(ctx)
	if err != nil {
		x.noteDamage(err, began)
		return err
	}
	x.learnPointer(pointer, heard, began)
	return nil
}

// noteDamage notes that the pointer could not be read.
func (x *index) noteDamage(err error, began time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if artifact.IsDamage(err) && !began.Before(x.readAt) {
		x.damaged = err
	}
}

// dropIndex lets go of an index that is not published any more.
func (x *index) dropIndex() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, one := range x.pinned {
		x.retireGeneration(one)
	}
	if x.current != nil {
		x.retireGeneration(x.current)
	}
	x.current, x.pinned, x.manifest, x.asked, x.failed = nil, nil, "", false, nil
}

// renewLeases renews the leases of all generations that are read here, in one write.
func (s *Set) renewLeases() {
	var held []coordination.Held
	for name, x := range s.listServed() {
		generations := x.listHeld()
		x.noteLeases(generations...)
		for _, generation := range generations {
			held = append(held, coordination.Held{Index: name, Generation: generation})
		}
	}
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
	defer cancel()
	if err := s.Readers.Lease(ctx, held, s.id, leaseTTL); err != nil && s.ctx.Err() == nil {
		s.log.Warn("cannot renew reader leases", "generations", len(held), "code", string(fault.CodeOf(err)))
	}
}

// leavePurged closes generations that somebody asked for by name and that were discarded, or hold what has to leave
// their index: a purge waits for that. A query that reads one goes on to its end.
func (s *Set) leavePurged() {
	ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
	defer cancel()
	for name, x := range s.listServed() {
		for _, generation := range x.listPinned() {
			of := artifact.Index{Store: s.Artifacts, Name: name}
			purged, err := of.IsPurged(ctx, generation)
			if err != nil {
				return // asked again by the next round
			}
			ref, _ := of.GenerationRef(ctx, generation) // one that cannot be read is asked for again
			if purged || ref.State == core.GenerationDiscarded {
				x.dropPinned(generation)
			}
		}
	}
}

// leaveIdle closes generations that were asked for by name and are not any more. Their leases run out, so that
// a collector can have them: a question about an old generation must not keep it for as long as the replica lives.
func (s *Set) leaveIdle() {
	for _, x := range s.listServed() {
		x.leaveIdle()
	}
}

func (x *index) leaveIdle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pinned = slices.DeleteFunc(x.pinned, func(one *open) bool {
		if one.IsShared() || one.share.idleTime() < namedIdle {
			return false
		}
		x.retireGeneration(one)
		return true
	})
}

// listPinned returns the generations that were opened by their names.
func (x *index) listPinned() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []string
	for _, one := range x.pinned {
		out = append(out, one.Manifest.Generation)
	}
	return out
}

// dropPinned lets go of a generation that was opened by its name.
func (x *index) dropPinned(generation string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pinned = slices.DeleteFunc(x.pinned, func(one *open) bool {
		if one.Manifest.Generation != generation {
			return false
		}
		x.retireGeneration(one)
		return true
	})
}

// leaseGeneration writes for the collector that a generation is read here. A lease that fails costs nothing by itself.
func (s *Set) leaseGeneration(ctx context.Context, name, generation string) {
	s.ensureIndex(name).noteLeases(generation)
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	held := []coordination.Held{{Index: name, Generation: generation}}
	if err := s.Readers.Lease(ctx, held, s.id, leaseTTL); err != nil && s.ctx.Err() == nil {
		s.log.Warn("cannot renew reader lease", "index", name, "code", string(fault.CodeOf(err)))
	}
}
