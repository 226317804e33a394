package chunk

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A document that has a whole process die is found by a note beside the unit: which document was being read. Writing
// it takes a round trip, so it is written for documents that take long, and for every one before it is read once a unit
// was tried so often without a document being named. An attempt that ends, however it does, takes its note back: one
// that is found was left by a process that died.
const (
	noteAfter    = time.Second
	carefulAfter = 2 // attempts
	maxDeaths    = 2 // with the same document, after which it is not tried any more in this run
	noteDeadline = 5 * time.Second
)

// note is what is stored. Documents are told by their number in the unit, from 1.
type note struct {
	Document int64         `json:"document,omitempty"` // that is being read; 0: none
	Deaths   map[int64]int `json:"deaths,omitempty"`   // of processes, by the document that each was reading
}

// suspects keeps the note of a unit. Its own errors are not told: a store that takes no note takes no result either.
type suspects struct {
	store   blob.Store
	key     string
	careful bool

	mu   sync.Mutex
	note note
	now  int64 // the document that is being read; 0: none
}

func openSuspects(ctx context.Context, in In) (*suspects, error) {
	s := &suspects{
		store: in.Artifacts.Store, key: fmt.Sprintf("%s/chunk-%05d-reading.json", in.Scratch, in.Unit),
		careful: in.Tries > carefulAfter,
	}
	_, err := blob.ReadJSON(ctx, s.store, s.key, &s.note)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if s.note.Document > 0 {
		if s.note.Deaths == nil {
			s.note.Deaths = map[int64]int{}
		}
		s.note.Deaths[s.note.Document]++
		s.note.Document = 0
		s.write(ctx, 0)
	}
	return s, nil
}

// write writes down which document is being read. The caller holds the lock, or is alone.
func (s *suspects) write(ctx context.Context, document int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteDeadline)
	defer cancel()
	s.note.Document = document
	_, _ = blob.WriteJSON(ctx, s.store, s.key, s.note, blob.Cond{})
}

// begin notes that a document is being read, until end.
func (s *suspects) begin(ctx context.Context, document int64) (end func()) {
	s.mu.Lock()
	s.now = document
	if s.careful {
		s.write(ctx, document)
	}
	s.mu.Unlock()
	if s.careful { // the next one's note takes its place
		return func() {}
	}
	timer := time.AfterFunc(noteAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.now == document {
			s.write(ctx, document)
		}
	})
	return func() {
		timer.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now = 0
		if s.note.Document == document {
			s.write(ctx, 0)
		}
	}
}

// close takes the note back.
func (s *suspects) close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now = 0; s.note.Document > 0 {
		s.write(ctx, 0)
	}
}

// watched chunks one document, unless processes died while they read it.
func (b *builder) watched(ctx context.Context, key string, plan rows.Plan) error {
	number := b.res.Listed + 1
	if deaths := b.suspects.note.Deaths[number]; deaths >= maxDeaths && plan.Problem == "" {
		return b.unusable(ctx, key, plan, fault.Quarantined.At("read", key).
			Because(fmt.Sprintf("%d times the program that read it was killed or fell meanwhile", deaths)).
			Advise("it is tried again by the next run; if that fails too, remove it or convert it to text"))
	}
	defer b.suspects.begin(ctx, number)()
	return b.document(ctx, key, plan)
}
