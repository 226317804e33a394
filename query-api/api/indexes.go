package api

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
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
	var m corpus.Pointer
	b, err := s.Classes.Mirrored(ctx, name)
	if err == nil && b != nil {
		_ = json.Unmarshal(b, &m) // an unreadable mirror is no mirror
	}
	if m.Manifest != "" && s.fresh(name) {
		return m, nil
	}
	p, _, err := artifact.Index{Store: s.Artifacts, Name: name}.Current(ctx)
	if err != nil && m.Manifest != "" {
		return m, nil
	}
	if m.Epoch > p.Epoch {
		return m, err
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
	p, err := s.pointer(ctx, name)
	if err != nil {
		return nil, err
	}
	if p.Manifest == "" {
		return nil, unknownIndex(name)
	}
	x := s.serving(name)
	wait := x.refresh(s, name, p)
	if wait != nil {
		t := time.NewTimer(patience)
		defer t.Stop()
		if x.current() == nil {
			t.Reset(s.Timeout)
		}
		select {
		case <-wait:
		case <-t.C:
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
	return nil, fault.New(fault.GenBusy, fault.Transient, "open generation", p.Generation, "it is being opened", "ask again in a moment")
}

func unknownIndex(name string) error {
	return fault.New(fault.UnknownIndex, fault.Bad, "query", name, "no index of that name is published", "build it with: unweaver index CORPUS --index "+name)
}

func (x *index) current() *retrieve.Generation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cur
}

// refresh starts to open what the pointer names, once, and gives a channel to wait on; nil when nothing is to be done.
func (x *index) refresh(s *Server, name string, p corpus.Pointer) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.opening != nil {
		return x.opening
	}
	if x.cur != nil && x.cur.Release >= p.Epoch {
		return nil
	}
	if x.failed != nil && time.Now().Before(x.retryAt) {
		return nil
	}
	done := make(chan struct{})
	x.opening = done
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		g, err := retrieve.Open(ctx, s.Artifacts, s.Cache, s.Vectors, name, p.Manifest, p.Epoch)
		x.mu.Lock()
		defer x.mu.Unlock()
		again := x.failed != nil && err != nil && x.failed.Error() == err.Error()
		x.opening, x.failed, x.retryAt = nil, err, time.Now().Add(retryOpen)
		if err == nil {
			old := x.cur
			x.cur = g
			if old != nil {
				old.Close()
			}
			s.metrics.generation.WithLabelValues(name).Set(float64(p.Epoch))
		} else if !again {
			s.log.Error("generation not opened", "index", name, "code", string(fault.CodeOf(err)))
		}
		close(done)
	})
	return done
}

// pin holds a generation by name; at most two besides the current one stay open.
func (s *Server) pin(ctx context.Context, name, gen string) (*retrieve.Generation, error) {
	g, err := s.acquire(ctx, name)
	if err != nil || gen == "" || g.Manifest.Generation == gen {
		return g, err
	}
	g.Close()
	art := artifact.Index{Store: s.Artifacts, Name: name}
	if !corpus.ValidSlug(gen) {
		return nil, fault.New(fault.UnknownGen, fault.Bad, "open generation", gen, "this is no generation's name", "list them at /v1/indexes/"+name+"/generations")
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
	g, err = retrieve.Open(ctx, s.Artifacts, s.Cache, s.Vectors, name, ref.Manifest, 0)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.GenCollected, fault.Bad, "open generation", gen, "it was collected", "query the current one")
	}
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	g.Hold() // one for the list, one for the caller
	x.pinned = append(x.pinned, g)
	if len(x.pinned) > maxPinned {
		x.pinned[0].Close()
		x.pinned = x.pinned[1:]
	}
	return g, nil
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
		if err := s.Classes.Lease(ctx, name, g, s.id, leaseTTL); err != nil {
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
		p, _, err := artifact.Index{Store: s.Artifacts, Name: name}.Current(ctx)
		if err != nil {
			return nil, err
		}
		if p.Manifest != "" {
			out = append(out, name)
		}
	}
}
