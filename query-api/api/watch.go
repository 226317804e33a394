package api

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/stream/par"
)

const (
	// watchEvery is the beat of the watcher.
	watchEvery = 250 * time.Millisecond
	// pollEvery is how often the artifact's pointer is read where there is no mirror, and pollMirrored where there is.
	pollEvery    = 500 * time.Millisecond
	pollMirrored = 3 * time.Second
	// pollTimeout bounds one reading of a pointer; another index must not wait for a store that hangs.
	pollTimeout = 5 * time.Second
	// listWidth is how many pointers are read at once.
	listWidth = 16
	// openAhead is how many indexes are opened at start where none are named, the first by name.
	openAhead = 64
	// leaseTTL of a reader's lease; it is renewed three times in that time.
	leaseTTL = 30 * time.Second
)

// watch opens the indexes that are asked for at start, then new generations before a query needs them, and renews the
// leases of those that are read. It runs until Shutdown.
func (s *Server) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var renewed time.Time
	for {
		s.list()
		renew := time.Since(renewed) > leaseTTL/3
		if renew {
			renewed = time.Now()
		}
		for name, x := range s.served() {
			s.poll(name, x)
			if renew {
				s.beside(func() { s.renew(name, x) })
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// list finds out which indexes there are and has the first of them opened, until it has succeeded once.
func (s *Server) list() {
	if s.listed.Load() {
		return
	}
	names, most := s.Warm, len(s.Warm)
	if len(names) == 0 {
		ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
		defer cancel()
		var err error
		if names, err = artifact.Names(ctx, s.Artifacts); err != nil {
			s.log.Warn("indexes not listed", "code", string(fault.CodeOf(err)))
			return
		}
		most = openAhead
	}
	ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
	defer cancel()
	first := names[:min(len(names), most)]
	if err := par.Each(ctx, len(first), listWidth, func(ctx context.Context, i int) error {
		return s.openFirst(ctx, first[i])
	}); err != nil {
		s.log.Warn("pointers not read", "code", string(fault.CodeOf(err)))
		return
	}
	for _, name := range names[len(first):] {
		s.serving(name)
	}
	s.listed.Store(true)
}

// openFirst opens an index that nobody asked for yet, where it is published and finds room.
func (s *Server) openFirst(ctx context.Context, name string) error {
	pointer, err := s.pointer(ctx, name)
	switch {
	case artifact.IsDamage(err): // of this index alone
		s.serving(name).fail(err)
		s.noteReady(name, false)
		s.log.Error("pointer cannot be read", "index", name, "code", string(fault.CodeOf(err)))
		return nil
	case err == nil && pointer.Manifest != "":
		x := s.serving(name)
		x.mu.Lock()
		x.asked, x.ahead = true, x.current == nil
		x.mu.Unlock()
		x.refresh(s, name, pointer)
	}
	return err
}

// aheadShare is how much may be opened at start: what is named all of the room, what is not named half of it.
func (s *Server) aheadShare() int64 {
	if len(s.Warm) > 0 {
		return s.room.limit
	}
	return s.room.limit / 2
}

// poll follows the pointer of an index, beside those of others.
func (s *Server) poll(name string, x *index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.polling || x.closed {
		return
	}
	x.polling = s.beside(func() {
		defer func() {
			x.mu.Lock()
			x.polling = false
			x.mu.Unlock()
		}()
		ctx, cancel := context.WithTimeout(s.ctx, pollTimeout)
		defer cancel()
		mirrored := s.mirrored(ctx, name)
		stored, known := x.stored(mirrored)
		every := pollEvery
		if mirrored.Manifest != "" && mirrored == stored {
			every = pollMirrored
		}
		if !known || x.age() >= every {
			began := time.Now()
			if pointer, _, err := (artifact.Index{Store: s.Artifacts, Name: name}).Current(ctx); err == nil {
				x.learn(pointer, mirrored, began)
			}
		}
		if pointer := x.last(); pointer.Manifest != "" {
			x.keep(s, name, pointer)
		} else if x.known() {
			x.gone()
		}
	})
}

// gone lets go of an index that nobody publishes any more.
func (x *index) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current != nil {
		x.retire(x.current)
		x.current, x.manifest, x.asked = nil, "", false
	}
}

// age of what the artifact said.
func (x *index) age() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return time.Since(x.readAt)
}

// renew the leases of all generations of an index that are read here.
func (s *Server) renew(name string, x *index) {
	for _, generation := range x.held() {
		s.lease(s.ctx, name, generation)
	}
}

// lease tells the collector that a generation is read here. A lease that fails costs nothing by itself.
func (s *Server) lease(ctx context.Context, name, generation string) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if err := s.Readers.Lease(ctx, name, generation, s.id, leaseTTL); err != nil && s.ctx.Err() == nil {
		s.log.Warn("reader lease not renewed", "index", name, "code", string(fault.CodeOf(err)))
	}
}
