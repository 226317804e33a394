// Package fleet makes one of many processes: each reports every few seconds that it lives and what it can do, and gets
// its share of the limits of model servers.
package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

const (
	// Beat is how often a process reports itself, in a fleet of up to 200, while no limit that is shared is in use.
	Beat = 2 * time.Second
	// Lives is for how many of its beats a process counts.
	Lives = 3
	// longestBeat of a fleet that is larger. A beat costs the store some 9 µs for each process that lives (measured on
	// Redis with two limits), so beats of all cost it by the square: perPair keeps that at a fifth of a core up to 850
	// processes; 1,000 take less than a third.
	longestBeat = 30 * time.Second
	perPair     = 40 * time.Microsecond
	// quickest is how often a process of a small fleet beats while it uses a limit: what a process needs changes with
	// each batch, and its share follows two beats later, while calls take a fraction of a second. A fleet of more than
	// 40 does it less often, so that it costs the store a twentieth of a core (quickPair), and one of more than 110 no
	// more often than it does otherwise.
	quickest  = 250 * time.Millisecond
	quickPair = 4 * perPair
	// sooner is the part of such a beat after which a process beats that must be heard: it waits without any place, or
	// has given up places that others wait for. If all did so all the time, it would cost the store what perPair does.
	sooner = 4
	// leastRest is how many times as long as the last beat took the next is waited for: a store that answers slowly is
	// asked less.
	leastRest = 4
)

// Worker is what a worker process says of itself.
type Worker struct {
	Queue   string `json:"queue"`             // its task queue
	Version string `json:"version,omitempty"` // of its deployment; empty: it has none
	Slots   int    `json:"slots"`             // activities at once of that queue; 0: it takes none of them
	CPU     int    `json:"cpu"`               // activities at once that fill a core
	Apart   bool   `json:"apart,omitempty"`   // it polls the queue of those that fill a core, too
}

// Size is what the workers of a queue can do together.
type Size struct {
	Workers   int // that take from the queue itself
	Slots     int // of them
	CPU       int // of their slots, those that may fill a core
	Computing int // places at the queue beside it, of activities that fill a core
}

// Measure adds up the workers that live and take from the same queue as one like this, in the same version.
func Measure(ctx context.Context, store coordination.Fleet, like Worker) (Size, error) {
	all, err := store.ListMembers(ctx)
	if err != nil {
		return Size{}, err
	}
	var size Size
	for _, value := range all {
		var one Worker
		if json.Unmarshal(value, &one) != nil || one.Queue != like.Queue || one.Version != like.Version {
			continue // not a worker, or one that does other work
		}
		if one.Apart {
			size.Computing += max(one.CPU, 0)
		}
		if one.Slots > 0 {
			size.Workers++
			size.Slots += one.Slots
			size.CPU += max(one.CPU, 0)
		}
	}
	return size, nil
}

// Member is this process in the fleet.
type Member struct {
	store     coordination.Fleet
	name      string
	value     []byte
	log       *slog.Logger
	now, soon chan struct{} // a gate waits for its first share; or for more than none
	end       context.CancelFunc
	ended     chan struct{}

	mu    sync.Mutex
	gates map[string]*limits.Gate

	// Of the loop alone.
	interval time.Duration // of beats that tell that the process lives; its entry's time to live is a multiple of it
	quick    time.Duration // of beats while a limit is used
	used     bool          // a limit was used when the last beat was sent
	silent   bool          // the store did not answer the last beat
}

// Join begins to tell of a worker, until Leave.
func Join(store coordination.Fleet, worker Worker, log *slog.Logger) *Member {
	value, err := json.Marshal(worker)
	if err != nil { // strings and numbers
		panic(err)
	}
	m := &Member{
		store: store, name: newIdentity(), value: value, log: log,
		now: make(chan struct{}, 1), soon: make(chan struct{}, 1), ended: make(chan struct{}),
		gates: map[string]*limits.Gate{}, interval: Beat, quick: quickest,
	}
	var ctx context.Context
	ctx, m.end = context.WithCancel(context.Background())
	go func() {
		defer close(m.ended)
		m.runBeats(ctx)
	}()
	return m
}

// newIdentity returns an identity of this process: no other has it, nor this one when it is started again.
func newIdentity() string {
	var unique [8]byte
	_, _ = rand.Read(unique[:]) // never fails
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(unique[:]))
}

// ShareGate has a gate share its concurrency with all that name the same limit.
func (m *Member) ShareGate(limit string, gate *limits.Gate) {
	m.mu.Lock()
	m.gates[limit] = gate
	m.mu.Unlock()
	gate.Join(Lives*Beat, func(urgent bool) {
		to := m.soon
		if urgent {
			to = m.now
		}
		select {
		case to <- struct{}{}:
		default: // it is signalled already
		}
	})
}

// Leave ends what Join began: the share goes to the others at once, and gates go back to the whole of their
// concurrency. ctx bounds how long the store is asked.
func (m *Member) Leave(ctx context.Context) error {
	m.end()
	<-m.ended
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.gates))
	for name, gate := range m.gates {
		names = append(names, name)
		gate.LeaveFleet()
	}
	return m.store.Leave(ctx, m.name, names)
}

func (m *Member) runBeats(ctx context.Context) {
	for ctx.Err() == nil {
		began, within := time.Now(), m.interval // as long as this beat's time to live was measured by
		m.sendBeat(ctx)
		if m.used {
			within = min(max(m.quick, leastRest*time.Since(began)), within)
		}
		m.awaitBeat(ctx, began, within)
	}
}

// awaitBeat ends when the next beat is due.
func (m *Member) awaitBeat(ctx context.Context, began time.Time, within time.Duration) {
	due := time.NewTimer(time.Until(began.Add(within)))
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.now:
			return
		case <-due.C:
			return
		case <-m.soon:
			if early := time.Until(began.Add(within / sooner)); early > 0 {
				due.Reset(early)
				continue
			}
			return
		}
	}
}

// sendBeat reports this process and takes its shares.
func (m *Member) sendBeat(ctx context.Context) {
	m.mu.Lock()
	gates := make(map[string]*limits.Gate, len(m.gates))
	wants := make(map[string]coordination.Want, len(m.gates))
	for name, gate := range m.gates {
		gates[name] = gate
		if want, used := gate.ReportWant(); used {
			wants[name] = want
		}
	}
	m.mu.Unlock()
	m.used = len(wants) > 0
	sent, ttl := time.Now(), Lives*m.interval
	asked, end := context.WithTimeout(ctx, m.interval)
	defer end()
	shares, living, err := m.store.Beat(asked, m.name, m.value, wants, ttl)
	if err != nil {
		if !m.silent && ctx.Err() == nil {
			m.log.Warn("the coordination store does not take this process's beat: it keeps its share of model concurrency "+
				"for a while, then one call at a time", "code", string(fault.CodeOf(err)))
		}
		m.silent = true
		for _, gate := range gates {
			gate.NoteUnsent()
		}
		return
	}
	m.silent = false
	for name, places := range shares {
		gates[name].SetShare(places, sent.Add(ttl)) // by the store's clock it counts longer
	}
	pairs := time.Duration(living * living)
	m.interval = min(max(Beat, pairs*perPair), longestBeat)
	m.quick = min(max(quickest, pairs*quickPair), m.interval)
}
