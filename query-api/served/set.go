// Package served keeps open what a replica of query-api serves: of each index the generation that is published, and
// those that requests ask for by name. A query sees one generation; the next one is opened before the one before is let
// go of.
//
//	set.go, indexes.go     the set, its indexes and their current generations; pin.go those that are asked for by name
//	opening.go, room.go    how a generation is opened, and which idle one is closed for it
//	watch.go               follows the pointers, opens ahead, renews the leases of readers
//	labels.go              who may read which generation of an index whose documents have labels
//	catalogue.go, ready.go what is published, and what of it this replica has open
package served

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/telemetry"
)

// Config of a set. Stores stay the caller's to close.
type Config struct {
	Artifacts blob.Store
	Records   records.Store
	Readers   coordination.Readers
	Runs      coordination.Runs // of builds that go on
	Vectors   vectors.Store
	Cache     *localfile.Cache
	Log       *slog.Logger
	Timeout   time.Duration      // of an opening that a request waits for
	Warm      []string           // indexes to open at start; none: the first by name, within half of OpenBytes
	OpenBytes int64              // that open generations may hold; 0: half of this process's memory
	Telemetry *telemetry.Process // what is counted
	Patience  time.Duration      // of a query with a new generation; 0: half a second
}

// Set is the indexes that this replica serves, with their open generations. Make it with New, end it with Close.
type Set struct {
	Config
	log     *slog.Logger
	id      string          // of this replica, in reader leases
	ctx     context.Context //nolint:containedctx // what runs beside requests ends with Close
	stop    context.CancelFunc
	mu      sync.Mutex
	indexes map[string]*index
	listed  atomic.Bool // the indexes to open at start are known
	mirrors string      // version of those that the watcher knows
	room    *room
	wg      sync.WaitGroup
}

// New makes a set and starts to watch for new generations.
func New(config Config) *Set {
	if config.Patience == 0 {
		config.Patience = patience
	}
	if config.OpenBytes == 0 {
		config.OpenBytes = hostinfo.Memory() / 2
	}
	set := &Set{
		Config:  config,
		log:     config.Log,
		id:      rand.Text(),
		indexes: map[string]*index{},
		room:    newRoom(config.OpenBytes, config.Telemetry),
	}
	set.ctx, set.stop = context.WithCancel(context.Background())
	set.runBeside(func() {
		for set.ctx.Err() == nil { // a round that fell is followed by others
			set.runSafely(set.watchIndexes)
		}
	})
	return set
}

// Close ends openings that still run, waiting for them until ctx is done, and lets go of every generation. Files that a
// request still reads are unmapped when it ends.
func (s *Set) Close(ctx context.Context) (err error) {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done(): // a store that does not answer; what it still opens closes itself
		err = ctx.Err()
	}
	for _, x := range s.listServed() {
		x.close()
	}
	return err
}

// AreListed reports whether the indexes to open at start are known.
func (s *Set) AreListed() bool { return s.listed.Load() }

// runBeside runs something that Shutdown waits for; false once that has begun.
func (s *Set) runBeside(run func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(func() { s.runSafely(run) })
	return true
}

// runSafely runs something whose panic must not take every index away.
func (s *Set) runSafely(run func()) {
	var err error
	defer func() {
		if err != nil {
			s.log.Error("a background task failed", "error", err.Error())
			time.Sleep(watchEvery)
		}
	}()
	defer parallel.CatchPanic(&err)
	run()
}

// noteReady notes whether an index has a generation open.
func (s *Set) noteReady(index string, open bool) {
	value := 0.0
	if open {
		value = 1
	}
	s.Telemetry.Set(telemetry.IndexReady, value, index)
}
