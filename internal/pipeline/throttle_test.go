package pipeline_test

import (
	"context"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// throttled is a store that takes few requests a second for a while, and answers 503 SlowDown to the others, as a
// bucket does that is asked too much. Every kind of request counts.
type throttled struct {
	blob.Store
	mu            sync.Mutex
	from, until   time.Time
	second        time.Time // that is counted
	taken         int       // in it
	served, asked int       // while it lasts
}

const throttledTo = 20 // requests a second

func (s *throttled) admit(verb, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.from) || !now.Before(s.until) {
		return nil
	}
	s.asked++
	if now.Sub(s.second) >= time.Second {
		s.second, s.taken = now, 0
	}
	if s.taken >= throttledTo {
		return fault.StoreDown.At(verb, key).Because("503 SlowDown: please reduce your request rate")
	}
	s.taken++
	s.served++
	return nil
}

func (s *throttled) refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked - s.served
}

// begin throttles from now on, if it has not begun.
func (s *throttled) begin(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from.IsZero() {
		s.from, s.until = time.Now(), time.Now().Add(lasts)
	}
}

func (s *throttled) Put(
	ctx context.Context, key string, body io.Reader, size int64, condition blob.Cond,
) (blob.Info, error) {
	if err := s.admit("write", key); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Put(ctx, key, body, size, condition)
}

func (s *throttled) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := s.admit("read", key); err != nil {
		return nil, blob.Info{}, err
	}
	return s.Store.Get(ctx, key, part)
}

func (s *throttled) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := s.admit("stat", key); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s *throttled) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

func (s *throttled) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	if err := s.admit("list", prefix); err != nil {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, err) }
	}
	return s.Store.ListRange(ctx, prefix, after, until)
}

func (s *throttled) DeleteAll(ctx context.Context, keys []string) error {
	if err := s.admit("delete", ""); err != nil {
		return err
	}
	return s.Store.DeleteAll(ctx, keys)
}

func (s *throttled) Delete(ctx context.Context, key string) error {
	return s.DeleteAll(ctx, []string{key})
}

// A store throttles for minutes from the middle of a stage on: what is tried again every half a minute, as by an engine
// that waits for an outage, comes to the same index without a person, and nothing is lost or paid for twice.
func TestAStoreThatThrottlesForMinutesCostsTimeAlone(t *testing.T) {
	undisturbed, _ := fillingSite(t, func(string) error { return nil })
	undisturbed.write(t, sample(60))
	built(t, undisturbed, func(err error, _ func() error) { t.Fatal(err) })
	want := hashesOf(t, undisturbed)
	for _, stage := range []string{"chunk", "extract", "embed", "load", "publish"} {
		t.Run(stage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testThrottled(t, stage, want) })
		})
	}
}

func testThrottled(t *testing.T, stage string, want core.Hashes) {
	const lasts, wait = 4 * time.Minute, 30 * time.Second
	s, owed := fillingSite(t, func(string) error { return nil })
	s.write(t, sample(60))
	s.width = 8
	store := &throttled{Store: s.Artifacts}
	s.Artifacts = store
	s.Ledger = ledger.New(s.Artifacts, s.Coordination)
	var units atomic.Int64
	s.before = func(now string) {
		if now == stage && (units.Add(1) == 2 || stage == "publish") {
			store.begin(lasts)
		}
	}
	begun, halts := time.Now(), 0
	built(t, s, func(err error, _ func() error) {
		if halts++; !fault.Is(err, fault.StoreDown) || halts > 100 {
			t.Fatalf("halt %d: %v", halts, err)
		}
		time.Sleep(wait)
	})
	took, refused := time.Since(begun), store.refused()
	t.Logf("%d requests were refused, the build halted %d times and took %s", refused, halts, took)
	assert.True(t, refused != 0 && halts != 0, "%d requests were refused, and the build halted %d times", refused, halts)
	assert.True(t, took <= lasts+2*time.Minute, "it took %s of a store that throttles for %s", took, lasts)
	if err := s.Ledger.Drain(t.Context()); err != nil || s.Ledger.FindTrouble() != nil {
		t.Errorf("something is still held: %v, %v", err, s.Ledger.FindTrouble())
	}
	if got := hashesOf(t, s); got != want || owed.twice != 0 {
		t.Errorf("same hashes %v, paid for twice: %d", got == want, owed.twice)
	}
}
