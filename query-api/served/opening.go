package served

import (
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// openPointed opens what a pointer names, which must be one generation.
func (s *Set) openPointed(name string, pointer core.Pointer, admit admission) (*open, error) {
	opened, err := s.openGeneration(name, pointer.Generation, pointer.Manifest, pointer.Epoch, admit)
	if err != nil {
		return nil, err
	}
	if err := (artifact.Index{Store: s.Artifacts, Name: name}).CheckPointer(pointer, opened.Manifest); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// openGeneration opens a generation under a reader lease, so that it is not collected meanwhile. Files that opening
// them falls over are an error like others: who waits must get it.
func (s *Set) openGeneration(
	name, generation, manifest string,
	epoch int64,
	admit admission,
) (opened *open, err error) {
	mine := &share{}
	defer func() {
		if err != nil {
			mine.noteHolders(0)
		}
	}()
	defer parallel.CatchPanic(&err)
	ctx := s.ctx // the opening bounds itself; Shutdown ends it too
	s.leaseGeneration(ctx, name, generation)
	opening := retrieve.Opening{
		Artifacts: s.Artifacts, Cache: s.Cache, Vectors: s.Vectors, Index: name, Manifest: manifest, Release: epoch,
		Left: mine.noteHolders,
		Admit: func(ctx context.Context, bytes int64) error {
			began := time.Now()
			err := admit(ctx, mine, bytes)
			if err == nil && time.Since(began) > leaseTTL/3 {
				s.leaseGeneration(ctx, name, generation)
			}
			return err
		},
	}
	found, err := opening.Open(ctx)
	if fault.Is(err, fault.SegmentDamage) && s.isCollected(ctx, name, generation, manifest) {
		err = fault.GenCollected.At("open generation", generation).
			Because("it was deleted").
			Advise("omit generation to query the current one")
	}
	if err != nil {
		return nil, err
	}
	if found.Manifest.Generation != generation {
		err = fault.SegmentDamage.At("open generation", generation).
			Because("its pointer names the manifest of generation " + found.Manifest.Generation).
			Advise("rewrite the pointer from the last published generation: unweaver restore " + name)
		found.Close()
		return nil, err
	}
	if cycles := found.VersionCycles(); cycles != "" {
		s.log.Warn("documents supersede each other", "index", name, "generation", generation, "cycles", cycles)
	}
	return &open{found, mine}, nil
}

// isCollected says that nothing names a generation any more: what is missing of it is no damage.
func (s *Set) isCollected(ctx context.Context, name, generation, manifest string) bool {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	index := artifact.Index{Store: s.Artifacts, Name: name}
	pointer, _, err := index.ReadPointer(ctx)
	if err != nil || pointer.Manifest == manifest {
		return false
	}
	ref, err := index.GenerationRef(ctx, generation)
	return fault.Is(err, fault.UnknownGen) || err == nil && ref.Manifest != manifest
}

// retireGeneration lets go of a generation that is no longer offered; queries that hold it go on. The caller holds the
// lock.
func (x *index) retireGeneration(generation *open) {
	x.retired = slices.DeleteFunc(x.retired, func(old *open) bool { return !old.IsHeld() })
	if generation == nil {
		return
	}
	if generation.Close(); generation.IsHeld() {
		x.retired = append(x.retired, generation)
	}
}

// listHeld names the generations that this replica still reads.
func (x *index) listHeld() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.retireGeneration(nil)
	var out []string
	if x.current != nil {
		out = append(out, x.current.Manifest.Generation)
	}
	for _, generation := range append(slices.Clone(x.pinned), x.retired...) {
		out = append(out, generation.Manifest.Generation)
	}
	return out
}

// close lets go of everything and opens nothing more.
func (x *index) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.current != nil {
		x.current.Close()
		x.current = nil
	}
	for _, generation := range x.pinned {
		generation.Close()
	}
	x.pinned = nil
}
