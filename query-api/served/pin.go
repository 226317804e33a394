package served

import (
	"cmp"
	"context"
	"errors"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// maxPinned generations are held open besides the current one.
const maxPinned = 2

// pinning is one opening of a generation that requests asked for by name; all of them wait for the same.
type pinning struct {
	done       chan struct{}
	generation *retrieve.Generation // known once done is closed, as is err
	err        error
}

// explainUnpublished returns the error for an index of which nothing is published: err, unless its build goes on or was
// held.
func (s *Set) explainUnpublished(ctx context.Context, name string, err error) error {
	work, failed := s.Runs.ReadState(ctx, runlog.LatestBuild(name))
	if failed != nil || len(work) == 0 {
		return err
	}
	state, failed := (runlog.Source{Artifacts: s.Artifacts, Runs: s.Runs}).ReadState(ctx, string(work))
	report := state.Report
	if failed == nil && report.Status == core.StatusHeld && report.ContentHash != "" {
		return fault.UnknownIndex.At("query", name).
			Because("the index has no published generation: " + report.Generation + " is held (" + report.Reason + ")").
			Advise("publish it: unweaver publish " + name + " " + report.Generation + " --reason TEXT; or query it " +
				"with generation " + report.Generation)
	}
	if failed != nil || report.Run == "" || core.IsTerminal(report.Status) {
		return err
	}
	return fault.UnknownIndex.At("query", name).
		Because("the index has no published generation: its first build is still running").
		Advise("wait for the build: unweaver status " + name + " --watch")
}

// Pin holds what the context's caller may read of a generation by name, or of the current one where there
// is no name. Where its documents have labels it is a view; an earlier generation, which has the labels of its
// time, is then for callers alone who may read every document.
func (s *Set) Pin(ctx context.Context, name, wanted string) (*retrieve.Generation, error) {
	if wanted != "" {
		if err := s.needNamed(ctx, name, wanted); err != nil {
			return nil, err
		}
	}
	held, err := s.holdGeneration(ctx, name, wanted)
	if err != nil {
		return nil, err
	}
	view, err := held.View(ctx, middleware.CallerOf(ctx).Readers())
	if err != nil {
		held.Close()
		return nil, err
	}
	return view, nil
}

// holdGeneration holds a generation by name, or the current one where there is no name. At most two besides the current
// one stay open; an open one costs no request to a store.
func (s *Set) holdGeneration(ctx context.Context, name, wanted string) (*retrieve.Generation, error) {
	if !core.ValidIndex(name) {
		return nil, UnknownIndex(name)
	}
	if wanted == "" {
		generation, err := s.acquireCurrent(ctx, name)
		if fault.Is(err, fault.UnknownIndex) {
			err = s.explainUnpublished(ctx, name, err)
		}
		return generation, err
	}
	if !core.ValidSlug(wanted) {
		return nil, UnknownGeneration(name, wanted, "this is not a valid name of a generation")
	}
	_, unpublished := s.FindPointer(ctx, name)
	if unpublished != nil && !fault.Is(unpublished, fault.UnknownIndex) {
		return nil, unpublished
	}
	if unpublished == nil { // of another name nothing is kept unless it has the generation
		if generation := s.ensureIndex(name).holdOpen(s, wanted); generation != nil {
			return generation, nil
		}
	}
	ref, err := artifact.Index{Store: s.Artifacts, Name: name}.GenerationRef(ctx, wanted)
	if err != nil {
		if fault.Is(err, fault.UnknownGen) {
			err = UnknownGeneration(name, wanted, "the generation does not exist, or was deleted")
		}
		return nil, cmp.Or(unpublished, err)
	}
	if ref.State == core.GenerationDiscarded {
		return nil, UnknownGeneration(name, wanted, "the generation was discarded")
	}
	return s.joinOpening(ctx, s.ensureIndex(name), name, wanted, ref.Manifest)
}

// UnknownGeneration returns the error for a generation that an index does not have, and why.
func UnknownGeneration(index, name, why string) error {
	return fault.UnknownGen.At("open generation", name).Because(why).
		Advise("omit generation to query the current one, or list them at /v1/indexes/" + index + "/generations")
}

// holdOpen holds a generation that is open under a name, or gives nil.
func (x *index) holdOpen(server *Set, wanted string) *retrieve.Generation {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current != nil && x.current.Manifest.Generation == wanted && !x.current.HasChanged() && x.current.Hold() {
		server.room.touchShare(x.current.share)
		return x.current.Generation
	}
	for i, generation := range x.pinned {
		if generation.Manifest.Generation == wanted && !generation.HasChanged() && generation.Hold() {
			x.pinned = append(append(x.pinned[:i:i], x.pinned[i+1:]...), generation)
			server.room.touchShare(generation.share)
			return generation.Generation
		}
	}
	return nil
}

// openNamed opens a generation that somebody asks for by name, but none that a purge waits to be closed.
func (s *Set) openNamed(name, wanted, manifest string) (*open, error) {
	purged, err := artifact.Index{Store: s.Artifacts, Name: name}.IsPurged(s.ctx, wanted)
	if purged {
		err = fault.GenCollected.At("open generation", wanted).
			Because("it contains a document that is being purged").
			Advise("omit generation to query the current one")
	}
	if err != nil {
		return nil, err
	}
	return s.openGeneration(name, wanted, manifest, 0, s.room.waitForRoom)
}

// joinOpening waits for the opening of a generation, and starts it where none is under way. One that others took the
// place of before it was held is opened once more; what was just opened is as it was checked.
func (s *Set) joinOpening(
	ctx context.Context,
	x *index,
	name, wanted, manifest string,
) (*retrieve.Generation, error) {
	for {
		under := x.startPinning(s, name, wanted, manifest)
		if under == nil {
			return nil, newBusyError(wanted)
		}
		select {
		case <-under.done:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, newBusyError(wanted)
			}
			return nil, ctx.Err()
		}
		if under.err != nil {
			return nil, under.err
		}
		if under.generation.Hold() {
			return under.generation, nil
		}
	}
}

// startPinning starts to open a generation by its name, once; nil where nothing is opened any more.
func (x *index) startPinning(server *Set, name, wanted, manifest string) *pinning {
	x.mu.Lock()
	defer x.mu.Unlock()
	if under := x.pinning[wanted]; under != nil {
		return under
	}
	under := &pinning{done: make(chan struct{})}
	if x.closed || !server.runBeside(func() {
		generation, err := server.openNamed(name, wanted, manifest)
		x.pinnedOpen(server, wanted, under, generation, err)
	}) {
		return nil
	}
	if x.pinning == nil {
		x.pinning = map[string]*pinning{}
	}
	x.pinning[wanted] = under
	return under
}

// pinnedOpen takes over what an opening brought.
func (x *index) pinnedOpen(server *Set, wanted string, under *pinning, generation *open, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer close(under.done)
	delete(x.pinning, wanted)
	if err == nil && x.closed {
		generation.Close()
		err = newBusyError(wanted)
	}
	if under.err = err; err != nil {
		return
	}
	under.generation = generation.Generation
	generation.share.pinned = true
	generation.share.release = func(idle *retrieve.Generation) bool { return x.releaseIdle(server, idle) }
	server.room.noteOpen(generation.share, generation.Generation, nil)
	server.Telemetry.Count(telemetry.Openings, 1)
	x.pinned = append(x.pinned, generation)
	if len(x.pinned) > maxPinned {
		x.retireGeneration(x.pinned[0])
		x.pinned = x.pinned[1:]
	}
}
