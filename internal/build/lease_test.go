package build_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	blobmemory "github.com/unweaver/unweaver/internal/store/blob/memory"
)

// engine says which holders are closed.
type engine map[build.Holder]bool

func (e engine) closed(_ context.Context, holder build.Holder) (bool, error) { return e[holder], nil }

var (
	one = build.Holder{Workflow: "build/docs/one", Run: "1"}
	two = build.Holder{Workflow: "build/docs/two", Run: "2"}
)

func TestTheLeasePassesOnOnlyWhenItsHolderIsClosed(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	known := engine{}
	first, err := build.TakeLease(t.Context(), index, one, known.closed)
	if err != nil || first != 1 {
		t.Fatal(first, err)
	}
	if again, err := build.TakeLease(t.Context(), index, one, known.closed); err != nil || again != first {
		t.Errorf("taken twice: fence %d, %v", again, err)
	}
	_, err = build.TakeLease(t.Context(), index, two, known.closed)
	if !fault.Is(err, fault.LeaseHeld) || !strings.Contains(err.Error(), "docs/one") {
		t.Errorf("held by one: %v", err)
	}
	known[one] = true
	second, err := build.TakeLease(t.Context(), index, two, known.closed)
	if err != nil || second <= first {
		t.Errorf("fence %d after %d, %v", second, first, err)
	}
	if err := build.GiveLease(t.Context(), index, one); err != nil { // it is not its any more
		t.Fatal(err)
	}
	if _, err = build.TakeLease(t.Context(), index, one, engine{}.closed); !fault.Is(err, fault.LeaseHeld) {
		t.Errorf("a lease was given back by a run that did not hold it: %v", err)
	}
	if err := build.GiveLease(t.Context(), index, two); err != nil {
		t.Fatal(err)
	}
	third, err := build.TakeLease(t.Context(), index, one, engine{}.closed)
	if err != nil || third <= second {
		t.Errorf("the fence fell from %d to %d, %v", second, third, err)
	}
}

func TestOneOfManyAtOnceGetsTheLease(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	var group sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 16 {
		group.Go(func() {
			holder := build.Holder{Workflow: "build/docs/x", Run: string(rune('a' + i))}
			_, err := build.TakeLease(t.Context(), index, holder, engine{}.closed)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !fault.Is(err, fault.LeaseHeld) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won != 1 {
		t.Errorf("%d runs have the lease", won)
	}
}

func TestALeaseThatCannotBeReadOrAskedAboutIsNotTaken(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	if _, err := blob.Write(t.Context(), index.Store, index.LeaseKey(), []byte("{"), blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	if _, err := build.TakeLease(t.Context(), index, one, engine{}.closed); err == nil ||
		!strings.Contains(err.Error(), "lease.json") {
		t.Errorf("a damaged lease: %v", err)
	}
	if err := index.Store.Delete(t.Context(), index.LeaseKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := build.TakeLease(t.Context(), index, one, engine{}.closed); err != nil {
		t.Fatal(err)
	}
	away := errors.New("the engine is away")
	ask := func(context.Context, build.Holder) (bool, error) { return false, away }
	if _, err := build.TakeLease(t.Context(), index, two, ask); !errors.Is(err, away) {
		t.Errorf("an engine that does not answer: %v", err)
	}
}
