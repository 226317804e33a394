package limits_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/limits"
)

func refused(after time.Duration) error {
	e := fault.ModelRateLimited.At("call", "m")
	e.RetryAfter = after
	return e
}

// most runs n calls through a gate and gives the largest number in flight.
func most(t *testing.T, gate *limits.Gate, n int, outcome error) int64 {
	t.Helper()
	var in, top atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := gate.Enter(t.Context()); err != nil {
				t.Error(err)
				return
			}
			k := in.Add(1)
			for {
				m := top.Load()
				if k <= m || top.CompareAndSwap(m, k) {
					break
				}
			}
			time.Sleep(time.Millisecond)
			in.Add(-1)
			gate.Leave(outcome)
		})
	}
	wg.Wait()
	return top.Load()
}

func TestNoMoreThanTheWidthAreInFlight(t *testing.T) {
	if m := most(t, limits.NewGate(8), 400, nil); m != 8 {
		t.Errorf("%d were in flight, want 8", m)
	}
}

func TestRefusalsNarrowTheGateAndSuccessWidensIt(t *testing.T) {
	gate := limits.NewGate(16)
	most(t, gate, 1, refused(0))
	if m := most(t, gate, 40, errors.New("other")); m != 8 {
		t.Errorf("after a refusal %d were in flight, want 8", m)
	}
	most(t, gate, 400, nil)
	if m := most(t, gate, 200, nil); m != 16 {
		t.Errorf("after successes %d were in flight, want 16", m)
	}
}

func TestRefusalsInARowStopEveryoneForTheAskedTime(t *testing.T) {
	gate := limits.NewGate(4)
	for range 3 {
		most(t, gate, 1, refused(150*time.Millisecond))
	}
	begin := time.Now()
	most(t, gate, 3, nil)
	if d := time.Since(begin); d < 120*time.Millisecond {
		t.Errorf("admitted after %s", d)
	}
}

func TestACancelledWaiterLeavesNoPlaceTaken(t *testing.T) {
	gate := limits.NewGate(1)
	if err := gate.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		wg.Go(func() {
			defer cancel()
			if gate.Enter(ctx) == nil {
				gate.Leave(nil)
			}
		})
	}
	time.Sleep(4 * time.Millisecond)
	gate.Leave(nil)
	wg.Wait()
	if m := most(t, gate, 5, nil); m != 1 {
		t.Errorf("%d in flight", m)
	}
}
