package api

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// index is one index as this replica serves it.
type index struct {
	mu      sync.Mutex
	cur     *retrieve.Generation   // nil until one is open
	opening chan struct{}          // closed when the opening that runs is over
	pinned  []*retrieve.Generation // the newest last
	failed  error
	retryAt time.Time // a generation that could not be opened is tried again then
}

// retryOpen is the wait after a generation could not be opened.
const retryOpen = 300 * time.Millisecond

// maxPinned generations are held open besides the current one.
const maxPinned = 2

// serving gives the index, if it was ever published.
func (s *Server) serving(name string) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.indexes[name]
	if x == nil {
		x = &index{}
		s.indexes[name] = x
	}
	return x
}

// pointer reads what is published: the mirror where it has the higher epoch, else the artifact.
func (s *Server) pointer(ctx context.Context, name string) (corpus.Pointer, error) {
	var pointer corpus.Pointer
	b, err := s.Coordination.Mirrored(ctx, name)
	if err == nil && b != nil {
		_ = json.Unmarshal(b, &pointer) // an unreadable mirror is no mirror
	}
	if pointer.Manifest != "" && s.fresh(name) {
		return pointer, nil
	}
	p, _, err := artifact.Index{Store: s.Artifacts, Name: name}.Current(ctx)
	if err != nil && pointer.Manifest != "" {
		return pointer, nil
	}
	if pointer.Epoch > p.Epoch {
		return pointer, err
	}
	return p, err
}

// fresh tells whether the artifact was read lately, so that the mirror alone decides for a while.
func (s *Server) fresh(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.indexes[name] == nil { // names that nobody serves leave no trace
		return false
	}
	if time.Since(s.readAt[name]) < 5*time.Second {
		return true
	}
	s.readAt[name] = time.Now()
	return false
}

// patience is how long a query waits for a new generation before it is answered by the old one, which is never wrong.
const patience = 500 * time.Millisecond

// acquire holds the current generation for a query.
func (s *Server) acquire(ctx context.Context, name string) (*retrieve.Generation, error) {
	if !corpus.ValidSlug(name) {
		return nil, unknownIndex(name)
	}
	pointer, err := s.pointer(ctx, name)
	if err != nil {
		return nil, err
	}
	if pointer.Manifest == "" {
		return nil, unknownIndex(name)
	}
	x := s.serving(name)
	wait := x.refresh(s, name, pointer)
	if wait != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		if x.current() == nil {
			timer.Reset(s.Timeout)
		}
		select {
		case <-wait:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cur != nil && x.cur.Hold() {
		return x.cur, nil
	}
	if x.failed != nil {
		return nil, x.failed
	}
	return nil, fault.GenBusy.At("open generation", pointer.Generation).
		Because("it is being opened").
		Advise("ask again in a moment")
}

func unknownIndex(name string) error {
	return fault.UnknownIndex.At("query", name).
		Because("no index of that name is published").
		Advise("build it with: unweaver index CORPUS --index " + name)
}

func (x *index) current() *retrieve.Generation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cur
}

// refresh starts to open what the pointer names, once, and gives a channel to wait on; nil when nothing is to be done.
func (x *index) refresh(server *Server, name string, pointer corpus.Pointer) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.opening != nil {
		return x.opening
	}
	if x.cur != nil && x.cur.Release >= pointer.Epoch {
		return nil
	}
	if x.failed != nil && time.Now().Before(x.retryAt) {
		return nil
	}
	done := make(chan struct{})
	x.opening = done
	server.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		generation, err := retrieve.Open(
			ctx,
			server.Artifacts,
			server.Cache,
			server.Vectors,
			name,
			pointer.Manifest,
			pointer.Epoch,
		)
		x.mu.Lock()
		defer x.mu.Unlock()
		again := x.failed != nil && err != nil && x.failed.Error() == err.Error()
		x.opening, x.failed, x.retryAt = nil, err, time.Now().Add(retryOpen)
		if err == nil {
			old := x.cur
			x.cur = generation
			if old != nil {
				old.Close()
			}
			server.metrics.generation.WithLabelValues(name).Set(float64(pointer.Epoch))
		} else if !again {
			server.log.Error("generation not opened", "index", name, "code", string(fault.CodeOf(err)))
		}
		close(done)
	})
	return done
}

// pin holds a generation by name; at most two besides the current one stay open.
func (s *Server) pin(ctx context.Context, name, gen string) (*retrieve.Generation, error) {
	generation, err := s.acquire(ctx, name)
	if err != nil || gen == "" || generation.Manifest.Generation == gen {
		return generation, err
	}
	generation.Close()
	art := artifact.Index{Store: s.Artifacts, Name: name}
	if !corpus.ValidSlug(gen) {
		return nil, fault.UnknownGen.At("open generation", gen).
			Because("this is no generation's name").
			Advise("list them at /v1/indexes/" + name + "/generations")
	}
	ref, err := art.GenerationRef(ctx, gen)
	if err != nil {
		return nil, err
	}
	x := s.serving(name)
	x.mu.Lock()
	for _, p := range x.pinned {
		if p.Manifest.Generation == gen && p.Hold() {
			x.mu.Unlock()
			return p, nil
		}
	}
	x.mu.Unlock()
	generation, err = retrieve.Open(ctx, s.Artifacts, s.Cache, s.Vectors, name, ref.Manifest, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.GenCollected.At("open generation", gen).
			Because("it was collected").
			Advise("query the current one")
	}
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	generation.Hold() // one for the list, one for the caller
	x.pinned = append(x.pinned, generation)
	if len(x.pinned) > maxPinned {
		x.pinned[0].Close()
		x.pinned = x.pinned[1:]
	}
	return generation, nil
}

// watch opens new generations before a query needs them, and renews the leases of open ones.
func (s *Server) watch(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var renewed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		open := make(map[string]*index, len(s.indexes))
		for n, x := range s.indexes {
			open[n] = x
		}
		s.mu.Unlock()
		renew := time.Since(renewed) > leaseTTL/3
		if renew {
			renewed = time.Now()
		}
		for n, x := range open {
			if p, err := s.pointer(ctx, n); err == nil && p.Manifest != "" {
				x.refresh(s, n, p)
			}
			if renew {
				s.renew(ctx, n, x)
			}
		}
	}
}

const leaseTTL = 30 * time.Second

func (s *Server) renew(ctx context.Context, name string, x *index) {
	x.mu.Lock()
	var gens []string
	if x.cur != nil {
		gens = append(gens, x.cur.Manifest.Generation)
	}
	for _, p := range x.pinned {
		gens = append(gens, p.Manifest.Generation)
	}
	x.mu.Unlock()
	for _, g := range gens {
		if err := s.Coordination.Lease(ctx, name, g, s.id, leaseTTL); err != nil {
			s.log.Warn("reader lease not renewed", "index", name, "code", string(fault.CodeOf(err)))
		}
	}
}

// names lists the indexes that have something published. It skips from one top-level name to the next: what lies below
// them is many objects.
func (s *Server) names(ctx context.Context) ([]string, error) {
	var out []string
	for after := ""; ; {
		first := ""
		for in, err := range s.Artifacts.List(ctx, "", after) {
			if err != nil {
				return nil, err
			}
			first = in.Key
			break
		}
		if first == "" {
			return out, nil
		}
		name, _, below := strings.Cut(first, "/")
		if after = first; !below {
			continue
		}
		after = name + "0" // the first key that is not below "name/", as '0' follows '/'
		if !corpus.ValidSlug(name) || name == "ledger" {
			continue
		}
		pointer, _, err := artifact.Index{Store: s.Artifacts, Name: name}.Current(ctx)
		if err != nil {
			return nil, err
		}
		if pointer.Manifest != "" {
			out = append(out, name)
		}
	}
}
