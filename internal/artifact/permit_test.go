package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// frozen is a context whose deadline has passed once a process stood still, and whose timer has not gone off.
type frozen struct {
	context.Context
	stood *atomic.Bool
}

func (f frozen) Deadline() (time.Time, bool) {
	if f.stood.Load() {
		return time.Now().Add(-time.Second), true
	}
	return time.Now().Add(time.Hour), true
}

// standing is a store whose process stands still in the middle of its first request.
type standing struct {
	*artifacttest.Memory
	requests atomic.Int32
	stood    atomic.Bool
}

func (s *standing) DeleteAll(context.Context, []string) error {
	s.requests.Add(1)
	s.stood.Store(true)
	return nil
}

// What was in flight when the process stood still is done; nothing is asked for afterwards.
func TestNoRequestBeginsInAProcessThatStoodStill(t *testing.T) {
	store := &standing{Memory: artifacttest.New()}
	keys := make([]string, 20_000)
	for i := range keys {
		keys[i] = fmt.Sprint("docs/segments/", i)
	}
	err := artifact.DeleteAll(frozen{t.Context(), &store.stood}, store, keys)
	if requests := store.requests.Load(); !errors.Is(err, context.DeadlineExceeded) || requests > 4 {
		t.Errorf("%d requests, of which four may be in flight: %v", requests, err)
	}
}
