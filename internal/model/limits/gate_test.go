package limits_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/limits"
)

func refused(after time.Duration) error {
	err := fault.ModelRateLimited.At("call", "m")
	err.RetryAfter = after
	return err
}

// gate returns a gate of one owner.
func gate(concurrency int) *limits.Gate {
	made := limits.NewGate()
	made.SetLimit("index", concurrency)
	return made
}

// crowd sends n calls of one second through a gate, in a bubble of synctest where that takes no time, and gives the
// largest number in flight.
func crowd(t *testing.T, gate *limits.Gate, n int, outcome error) int {
	t.Helper()
	var mu sync.Mutex
	inflight, most := 0, 0
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := gate.Enter(t.Context()); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inflight++
			most = max(most, inflight)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inflight--
			mu.Unlock()
			gate.Leave(outcome)
		})
	}
	wg.Wait()
	return most
}

// refuse narrows a gate by one halving.
func refuse(t *testing.T, gate *limits.Gate, after time.Duration) {
	t.Helper()
	require.NoError(t, gate.Enter(t.Context()))
	gate.Leave(refused(after))
}

func TestNoMoreThanTheWidthAreInFlight(t *testing.T) {
	for name, c := range map[string]struct{ concurrency, want int }{
		"configured": {8, 8}, "one at a time": {1, 1}, "not configured": {0, 64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { assert.Equal(t, c.want, crowd(t, gate(c.concurrency), 400, nil)) })
		})
	}
}

func TestRefusalsNarrowTheGateAndSuccessWidensIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		refuse(t, gate, 0)
		assert.Equal(t, 8, crowd(t, gate, 40, errors.New("other")), "after a refusal")
		crowd(t, gate, 400, nil)
		assert.Equal(t, 16, crowd(t, gate, 200, nil), "after successes")
	})
}

func TestRefusalsAtOnceHalveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		crowd(t, gate, 16, refused(0)) // they all come back in the same second
		assert.Equal(t, 8, crowd(t, gate, 40, errors.New("other")))
		for range 10 {
			time.Sleep(2 * time.Second)
			refuse(t, gate, 0)
		}
		assert.Equal(t, 1, crowd(t, gate, 4, errors.New("other")), "a gate never closes")
	})
}

func TestRefusalsInARowStopEveryoneForTheAskedTime(t *testing.T) {
	for name, c := range map[string]struct {
		refusals  int
		ask, want time.Duration
	}{
		"two refusals":        {2, time.Minute, 0},
		"three refusals":      {3, time.Minute, time.Minute},
		"no wish":             {3, 0, 0},
		"an unreasonable one": {3, 24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := gate(64)
				for range c.refusals {
					refuse(t, gate, c.ask)
				}
				begin := time.Now()
				crowd(t, gate, 3, nil)
				assert.Equal(t, c.want, time.Since(begin)-time.Second, "admitted after")
			})
		})
	}
}

func TestAWaiterThatGivesUpLeavesNoPlaceTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(1)
		require.NoError(t, gate.Enter(t.Context()))
		gaveUp := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%5+1)*time.Second)
			wg.Go(func() {
				defer cancel()
				if gate.Enter(ctx) != nil {
					mu.Lock()
					gaveUp++
					mu.Unlock()
					return
				}
				gate.Leave(nil)
			})
		}
		time.Sleep(3 * time.Second)
		gate.Leave(nil) // at the very moment at which ten others give up
		wg.Wait()
		assert.True(t, gaveUp >= 20, "%d gave up, want at least 20", gaveUp)
		assert.Equal(t, 1, crowd(t, gate, 5, nil))
	})
}

// The waiter has chosen to give up when its place comes free, and must hand it on.
func TestAWaiterThatIsAdmittedAsItGivesUpHandsItsPlaceOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			gate := gate(1)
			require.NoError(t, gate.Enter(t.Context()))
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if gate.Enter(ctx) == nil {
					gate.Leave(nil)
				}
			})
			synctest.Wait()
			cancel()
			gate.Leave(nil)
			wg.Wait()
			late, stop := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, gate.Enter(late), "the place is lost")
			stop()
		}
	})
}

func TestADeadContextIsNotAdmitted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, gate(1).Enter(ctx), context.Canceled)
}

func TestIndexesThatShareAnEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		gate.SetLimit("other", 4)
		assert.Equal(t, 4, crowd(t, gate, 40, nil))
		for range 3 { // each activity and each query says its own again
			gate.SetLimit("other", 4)
			gate.SetLimit("index", 16)
		}
		assert.Equal(t, 4, crowd(t, gate, 40, nil))
		gate.SetLimit("other", 12) // its configuration was changed
		assert.Equal(t, 12, crowd(t, gate, 40, nil))
		time.Sleep(11 * time.Minute) // the other index is not used any more
		gate.SetLimit("index", 16)
		assert.Equal(t, 16, crowd(t, gate, 40, nil))
	})
}

func TestWhatTheGateLearnedOutlivesItsConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := gate(16)
		refuse(t, gate, 0) // 8
		for range 5 {
			gate.SetLimit("other", 32)
			gate.SetLimit("index", 16)
		}
		assert.Equal(t, 8, crowd(t, gate, 40, errors.New("other")))
		gate.SetLimit("index", 5)
		gate.SetLimit("index", 16)
		most := crowd(t, gate, 40, errors.New("other"))
		assert.True(t, most <= 8, "%d in flight: a configuration widened what refusals narrowed", most)
	})
}
