package chunk

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A document that has a whole process die is found by a note beside the unit: which document was being read. Writing
// it takes a round trip, so it is written for documents that take long, and for every one before it is read once a unit
// was tried so often without a document being named. An attempt that ends, however it does, takes its note back, and
// one that goes on renews it: an attempt that the engine gave up may still be reading. One that is found and is not
// renewed was left by a process that died.
//
// What a process died of is one of all documents that it was reading then, perhaps for other units: a document that was
// the only one weighs more than one of many.
const (
	carefulAfter = 2 // attempts
	weighsAlone  = 2
	weighsAmong  = 1
	maxWeight    = 4 // of a document, from which on it is not tried any more in this run
	noteDeadline = 5 * time.Second
)

// pace is how notes are kept. Tests of many deaths have one of their own.
type pace struct {
	process    string        // whose notes these are
	noteAfter  time.Duration // of reading a document
	renewEvery time.Duration
	staleAfter time.Duration // by the clock of who finds it
}

var notes = pace{
	process: rand.Text(), noteAfter: time.Second, renewEvery: 10 * time.Second, staleAfter: 30 * time.Second,
}

// noted counts the documents of this process whose notes are written.
var noted atomic.Int64

// note is what is stored. Documents are reported by their number in the unit, from 1.
type note struct {
	Process  string        `json:"process,omitempty"`
	Document int64         `json:"document,omitempty"` // that is being read; 0: none
	Alone    bool          `json:"alone,omitempty"`    // no other one is, in the process
	Renewed  int64         `json:"renewed,omitempty"`  // how often, so that each writing is another
	Deaths   map[int64]int `json:"deaths,omitempty"`   // weights, by the document that was being read
}

// suspects keeps the note of a unit. Its errors are not reported: a store that takes no note takes no result either.
type suspects struct {
	pace
	store   blob.Store
	key     string
	careful bool

	mu   sync.Mutex
	note note
	cond blob.Cond // the note is as this attempt left it
	lost bool      // another attempt writes it now
	now  int64     // the document that is being read; 0: none
}

func openSuspects(ctx context.Context, in In) (*suspects, error) {
	s := &suspects{
		pace: notes, store: in.Artifacts.Store, careful: in.Tries > carefulAfter,
		key: fmt.Sprintf("%s/chunk-%05d-reading.json", in.Scratch, in.Unit),
	}
	found, dead, err := s.readNote(ctx)
	if err != nil {
		return nil, err
	}
	s.note = note{Process: s.process, Deaths: found.Deaths}
	if found.Document > 0 { // it is this attempt's from now on
		if dead {
			if s.note.Deaths == nil {
				s.note.Deaths = map[int64]int{}
			}
			weight := weighsAmong
			if found.Alone {
				weight = weighsAlone
			}
			s.note.Deaths[found.Document] += weight
		}
		s.writeNote(ctx, 0)
	}
	return s, nil
}

// readNote reads the note. Dead says that it names a document and was left: it is another process's, and is not
// renewed.
func (s *suspects) readNote(ctx context.Context) (found note, dead bool, err error) {
	for begun := time.Now(); ; {
		var read note
		info, err := blob.ReadJSON(ctx, s.store, s.key, &read)
		if fault.Is(err, fault.NotFound) {
			s.cond = blob.Cond{Absent: true}
			return read, false, nil
		}
		if err != nil {
			return read, false, err
		}
		renewed := s.cond.Match != "" && s.cond.Match != info.ETag
		s.cond = blob.Cond{Match: info.ETag}
		if renewed || read.Document == 0 || read.Process == s.process {
			return read, false, nil
		}
		if time.Since(begun) > s.staleAfter {
			return read, true, nil
		}
		select {
		case <-ctx.Done():
			return read, false, ctx.Err()
		case <-time.After(s.staleAfter/10 + time.Millisecond):
		}
	}
}

// writeNote writes down which document is being read. The caller holds the lock, or is alone.
func (s *suspects) writeNote(ctx context.Context, document int64) {
	if s.lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteDeadline)
	defer cancel()
	switch was := s.note.Document > 0; {
	case was && document == 0:
		noted.Add(-1)
	case !was && document > 0:
		noted.Add(1)
	}
	s.note.Document, s.note.Alone = document, document > 0 && noted.Load() == 1
	s.note.Renewed++
	info, err := blob.WriteJSON(ctx, s.store, s.key, s.note, s.cond)
	switch {
	case err == nil:
		s.cond = blob.Cond{Match: info.ETag}
	case fault.Is(err, fault.Precondition):
		s.forgetNote()
	}
}

// forgetNote leaves the note to another attempt.
func (s *suspects) forgetNote() {
	if s.lost = true; s.note.Document > 0 {
		s.note.Document = 0
		noted.Add(-1)
	}
}

// renewNote notes from time to time that this process lives, until a document is read.
func (s *suspects) renewNote(ctx context.Context, document int64, read <-chan struct{}) {
	wait := s.noteAfter
	if s.careful {
		wait = s.renewEvery
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-read:
			return
		case <-ctx.Done(): // a stop of this process may not wait until the document is given up
			s.close(ctx)
			return
		case <-timer.C:
		}
		s.mu.Lock()
		if s.now == document {
			s.writeNote(ctx, document)
		}
		s.mu.Unlock()
		timer.Reset(s.renewEvery)
	}
}

// beginReading notes that a document is being read, until end.
func (s *suspects) beginReading(ctx context.Context, document int64) (end func()) {
	s.mu.Lock()
	s.now = document
	if s.careful {
		s.writeNote(ctx, document)
	}
	s.mu.Unlock()
	read := make(chan struct{})
	go s.renewNote(ctx, document, read)
	return func() {
		close(read)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now = 0
		if s.note.Document == document && !s.careful { // careful: the next one's note takes its place
			s.writeNote(ctx, 0)
		}
	}
}

// close takes the note back.
func (s *suspects) close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now = 0; s.note.Document > 0 {
		s.writeNote(ctx, 0)
	}
}

// chunkWatched chunks one document, unless processes died while they read it.
func (b *builder) chunkWatched(ctx context.Context, key string, plan rows.Plan) error {
	number := b.res.Listed + 1
	if b.suspects.note.Deaths[number] >= maxWeight && plan.Problem == "" {
		return b.addUnusable(ctx, key, &draft{plan: plan}, fault.Quarantined.At("read", key).
			Because("workers repeatedly crashed or were killed while reading it").
			Advise("the next run tries again; if that fails too, remove it or convert it to text"))
	}
	defer b.suspects.beginReading(ctx, number)()
	return b.chunkDocument(ctx, key, plan)
}
