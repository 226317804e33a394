package chunk

import (
	"bytes"
	"context"
	"io"
	"iter"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Small objects are read while the ones before them are parsed: at a distance, requests one after another take longer
// than all that is done with what they bring. What waits is bounded by number, and by the bytes of objects and records.
const (
	aheadReaders = 16
	aheadBytes   = 256 << 10 // a larger object is not read ahead
	aheadRoom    = 4 << 20   // a larger record waits for none behind it
)

// upcoming is a document of the plan, and what was read of its object, nil where nothing was.
type upcoming struct {
	key  string
	plan rows.Plan
	room int64 // that it takes
	read *firstRead
	tagged
}

// streamUpcoming gives the documents of a plan as room comes free for them. It ends with ctx.
func streamUpcoming(
	ctx context.Context, plan iter.Seq2[artifact.Row, error], room *semaphore.Weighted,
) iter.Seq2[upcoming, error] {
	return func(yield func(upcoming, error) bool) {
		for row, err := range plan {
			next := upcoming{key: string(row.Key), room: 1}
			if err == nil {
				next.plan, err = rows.DecodePlan(row.Value)
			}
			if err == nil && (next.plan.IsNested() || next.plan.Size <= aheadBytes) {
				next.room = min(max(1, next.plan.Size), aheadRoom)
			}
			if err == nil {
				err = room.Acquire(ctx, next.room)
			}
			if !yield(next, err) || err != nil {
				return
			}
		}
	}
}

// firstRead is an object that was read whole: content, then the error that reading ended with, nil at its end.
type firstRead struct {
	info    blob.Info
	content []byte
	open    error // of a reading that never began
	err     error
}

// readAhead reads the object of a document where that is small, and its tags.
func (b *builder) readAhead(ctx context.Context, next upcoming) (upcoming, error) {
	switch labels := b.Spec.ReadAs().Labels.Field != ""; {
	case next.plan.IsNested() && labels:
		next.tagged = b.readHeldTags(ctx, next.plan)
		return next, nil
	case next.plan.Problem != "" && labels:
		next.tagged = b.readTags(ctx, next.plan)
		return next, nil
	case next.plan.Problem != "" || next.plan.IsNested():
		return next, nil
	}
	err := parallel.RunTogether(ctx, func(ctx context.Context) error {
		next.tagged = b.readTags(ctx, next.plan)
		return nil
	}, func(ctx context.Context) error {
		if next.plan.Size <= aheadBytes {
			next.read = b.readWhole(ctx, next.plan)
		}
		return nil
	})
	return next, err
}

// readWhole reads the object of a document; nil: it is longer than listed, and is read as it comes.
func (b *builder) readWhole(ctx context.Context, plan rows.Plan) *firstRead {
	body, info, err := b.Corpus.Get(ctx, plan.Object, blob.Range{Length: -1, Match: plan.ETag})
	if err != nil {
		return &firstRead{open: err}
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(io.LimitReader(body, aheadBytes+1))
	if len(content) > aheadBytes { // another version, or a store that lies
		return nil
	}
	return &firstRead{info: info, content: content, err: err}
}

// aheadStore is a corpus of which one object was read already. That reading is given once; a second reader, because
// the object was written to meanwhile, reads the store.
type aheadStore struct {
	blob.Store
	mu   sync.Mutex
	key  string
	etag string
	read *firstRead
}

// expectObject says which object is asked for next.
func (s *aheadStore) expectObject(next upcoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.etag, s.read = next.plan.Object, next.plan.ETag, next.read
}

func (s *aheadStore) takeRead(key string, part blob.Range) *firstRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read == nil || s.key != key || part.Offset != 0 || part.Length >= 0 || part.Match != s.etag {
		return nil
	}
	read := s.read
	s.read = nil
	return read
}

// Get implements blob.Store.
func (s *aheadStore) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	read := s.takeRead(key, part)
	switch {
	case read == nil:
		return s.Store.Get(ctx, key, part)
	case read.open != nil:
		return nil, blob.Info{}, read.open
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(read.content), ending{read.err})), read.info, nil
}

// ending is the end of a reading.
type ending struct{ err error }

func (e ending) Read([]byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	return 0, io.EOF
}
