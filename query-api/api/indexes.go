package api

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/stream/par"
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
)

// index is one index as this replica serves it. Nothing is read from a store under its lock.
type index struct {
	mu        sync.Mutex
	published corpus.Pointer         // as the artifact had it when it was last read
	mirrored  corpus.Pointer         // what the mirror said then
	readAt    time.Time              // when that reading began
	polling   bool                   // it is being read
	current   *retrieve.Generation   // nil until one is open
	manifest  string                 // sha256 of its manifest
	opening   chan struct{}          // closed when the opening that runs is over
	failed    error                  // of the last opening
	retryAt   time.Time              // a generation that could not be opened is tried again then
	pinned    []*retrieve.Generation // the one used last at the end
	pinning   map[string]*pinning
	retired   []*retrieve.Generation // no longer offered, maybe still read by a query
	closed    bool
}

// serving gives the index, making its entry.
func (s *Server) serving(name string) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.indexes[name]
	if x == nil {
		x = &index{pinning: map[string]*pinning{}}
		s.indexes[name] = x
	}
	return x
}

// served gives all indexes that were asked for.
func (s *Server) served() map[string]*index {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*index, len(s.indexes))
	for name, x := range s.indexes {
		out[name] = x
	}
	return out
}

// pointer tells what is published: what the artifact said when it was last read, at most a poll ago. It is read anew
// for the first query for an index, and where the mirror says something else than it did at the last reading: whichever
// epoch is higher, the artifact counts. Names that nobody has published leave no trace.
func (s *Server) pointer(ctx context.Context, name string) (corpus.Pointer, error) {
	mirrored := s.mirrored(ctx, name)
	s.mu.Lock()
	x := s.indexes[name]
	s.mu.Unlock()
	if x != nil {
		if stored, known := x.stored(mirrored); known {
			return stored, nil
		}
	}
	began := time.Now()
	served := x != nil && x.known()
	reading, cancel := ctx, context.CancelFunc(func() {})
	if served {
		reading, cancel = context.WithTimeout(ctx, s.patience)
	}
	stored, _, err := artifact.Index{Store: s.Artifacts, Name: name}.Current(reading)
	cancel()
	switch {
	case err != nil && served: // what was served is never wrong; the watcher goes on asking
		return x.last(), nil
	case err != nil && mirrored.Manifest != "":
		return mirrored, nil
	case err != nil:
		return corpus.Pointer{}, err
	}
	if x == nil && stored.Manifest == "" {
		return stored, nil
	}
	x = s.serving(name)
	x.learn(stored, mirrored, began)
	return x.last(), nil
}

// named gives the pointer of a published index; fault.UnknownIndex where there is none.
func (s *Server) named(ctx context.Context, name string) (corpus.Pointer, error) {
	if !corpus.ValidIndex(name) {
		return corpus.Pointer{}, unknownIndex(name)
	}
	pointer, err := s.pointer(ctx, name)
	if err == nil && pointer.Manifest == "" {
		err = unknownIndex(name)
	}
	return pointer, err
}

// mirrored reads the mirror of the pointer; one that cannot be read is none.
func (s *Server) mirrored(ctx context.Context, name string) corpus.Pointer {
	ctx, cancel := context.WithTimeout(ctx, mirrorPatience)
	defer cancel()
	var pointer corpus.Pointer
	if raw, err := s.Readers.Mirrored(ctx, name); err == nil && raw != nil && json.Unmarshal(raw, &pointer) != nil {
		return corpus.Pointer{}
	}
	return pointer
}

// stored is what the artifact said; false when it was never read, or when the mirror tells of something that was not
// known then.
func (x *index) stored(mirrored corpus.Pointer) (corpus.Pointer, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	news := mirrored.Manifest != "" && mirrored != x.published && mirrored != x.mirrored
	return x.published, !x.readAt.IsZero() && !news
}

// known tells whether the artifact was ever read.
func (x *index) known() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.readAt.IsZero()
}

// last is what the artifact said last.
func (x *index) last() corpus.Pointer {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.published
}

// learn takes what a reading brought; of two, the one that began later counts.
func (x *index) learn(pointer, mirrored corpus.Pointer, began time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if began.Before(x.readAt) {
		return
	}
	x.published, x.mirrored, x.readAt = pointer, mirrored, began
}

// acquire holds the current generation for a query.
func (s *Server) acquire(ctx context.Context, name string) (*retrieve.Generation, error) {
	pointer, err := s.named(ctx, name)
	if err != nil {
		return nil, err
	}
	x := s.serving(name)
	if opened := x.refresh(s, name, pointer); opened != nil {
		wait := s.patience
		if !x.open() {
			wait = s.Timeout
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-opened:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current != nil && x.current.Hold() {
		return x.current, nil
	}
	if x.failed != nil {
		return nil, x.failed
	}
	return nil, busy(pointer.Generation)
}

func busy(generation string) error {
	return fault.GenBusy.At("open generation", generation).
		Because("it is being opened").
		Advise("ask again in a moment")
}

func unknownIndex(name string) error {
	return fault.UnknownIndex.At("query", name).
		Because("no index of that name is published").
		Advise("build it with: unweaver index CORPUS --index " + name + ", or the key is not for it")
}

func (x *index) open() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.current != nil
}

// refresh starts to open what the pointer names, once, and gives a channel to wait on; nil when nothing is to be done.
func (x *index) refresh(server *Server, name string, pointer corpus.Pointer) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.opening != nil {
		return x.opening
	}
	if x.closed || (x.current != nil && x.manifest == pointer.Manifest && x.current.Release == pointer.Epoch) {
		return nil
	}
	if x.failed != nil && time.Now().Before(x.retryAt) {
		return nil
	}
	done := make(chan struct{})
	if !server.beside(func() {
		generation, err := server.openPointed(name, pointer)
		x.opened(server, name, pointer.Manifest, generation, err)
		close(done)
	}) {
		return nil
	}
	x.opening = done
	return done
}

// opened takes over what an opening brought.
func (x *index) opened(server *Server, name, manifest string, generation *retrieve.Generation, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.failed != nil && err != nil && x.failed.Error() == err.Error()
	x.opening, x.failed, x.retryAt = nil, err, time.Now().Add(retryOpen)
	defer func() { server.noteReady(name, x.current != nil) }()
	switch {
	case err == nil && x.closed:
		generation.Close()
	case err == nil:
		x.retire(x.current)
		x.current, x.manifest = generation, manifest
		server.Telemetry.Set(telemetry.GenerationEpoch, float64(generation.Release), name)
	case !again && !errors.Is(err, context.Canceled):
		server.log.Error("generation not opened", "index", name, "code", string(fault.CodeOf(err)))
	}
}

// openPointed opens what a pointer names, which must be one generation.
func (s *Server) openPointed(name string, pointer corpus.Pointer) (*retrieve.Generation, error) {
	opened, err := s.openGeneration(name, pointer.Generation, pointer.Manifest, pointer.Epoch)
	if err != nil {
		return nil, err
	}
	if err := (artifact.Index{Store: s.Artifacts, Name: name}).Agree(pointer, opened.Manifest); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// openGeneration opens a generation under a reader lease, so that it is not collected meanwhile. Files that opening
// them falls over are an error like others: who waits must be told.
func (s *Server) openGeneration(
	name, generation, manifest string,
	epoch int64,
) (opened *retrieve.Generation, err error) {
	defer par.Caught(&err)
	ctx := s.ctx // retrieve.Open bounds itself; Shutdown ends it too
	s.lease(ctx, name, generation)
	opened, err = retrieve.Open(ctx, s.Artifacts, s.Cache, s.Vectors, name, manifest, epoch)
	if fault.Is(err, fault.SegmentDamage) && s.collected(ctx, name, generation, manifest) {
		err = fault.GenCollected.At("open generation", generation).
			Because("it was collected").
			Advise("query the current one")
	}
	if err == nil && opened.Manifest.Generation != generation {
		err = fault.SegmentDamage.At("open generation", generation).
			Because("what names it names the manifest of " + opened.Manifest.Generation).
			Advise("write it again from what was published last: unweaver restore --index " + name)
		opened.Close()
		return nil, err
	}
	return opened, err
}

// collected tells that nothing names a generation any more: what is missing of it is no damage.
func (s *Server) collected(ctx context.Context, name, generation, manifest string) bool {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	index := artifact.Index{Store: s.Artifacts, Name: name}
	pointer, _, err := index.Current(ctx)
	if err != nil || pointer.Manifest == manifest {
		return false
	}
	ref, err := index.GenerationRef(ctx, generation)
	return fault.Is(err, fault.UnknownGen) || err == nil && ref.Manifest != manifest
}

// retire lets go of a generation that is no longer offered; queries that hold it go on. The caller holds the lock.
func (x *index) retire(generation *retrieve.Generation) {
	x.retired = slices.DeleteFunc(x.retired, func(old *retrieve.Generation) bool { return !old.Held() })
	if generation == nil {
		return
	}
	if generation.Close(); generation.Held() {
		x.retired = append(x.retired, generation)
	}
}

// held names the generations that this replica still reads.
func (x *index) held() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.retire(nil)
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
