package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

// The control record is looked at before each call, also by a process that has just had one admitted.
func TestACallOfARunThatIsStoppedIsRefused(t *testing.T) {
	for command, code := range map[string]fault.Code{CommandPause: fault.Paused, CommandCancel: fault.Cancelled} {
		isolated(t, command, func(t *testing.T) {
			store := memory.New()
			through := worker(t, store, core.Spec{})
			for _, stopped := range []bool{false, true} {
				if stopped {
					_, err := Steer(t.Context(), store, "i/g", command, nil)
					require.NoError(t, err)
				}
				end, err := through.Begin(t.Context(), model.Extract, 100)
				assert.True(t, fault.Is(err, code) == stopped && (err != nil) == stopped, "stopped %t: %v", stopped, err)
				if err == nil {
					end(model.Usage{}, false)
				}
			}
			assert.Zero(t, through.Mine.InFlight.Sum(), "%+v in flight", through.Mine.InFlight)
		})
	}
}

// A model that other calls of the run reach is not away, however long one unit fails.
func TestAModelIsAwayOnceNothingIsAnsweredForAWhile(t *testing.T) {
	store := memory.New()
	here, there := worker(t, store, core.Spec{}), worker(t, store, core.Spec{})
	there.Worker = "another process"
	now := time.Now()
	here.Clock = func() time.Time { return now }
	answer := func(through *Book) {
		through.Change(func(account *Account) { account.Calls.Extract++ })
		require.NoError(t, through.Flush(t.Context()))
		require.NoError(t, here.Flush(t.Context()))
	}
	fails := func(passed time.Duration, away bool) {
		t.Helper()
		now = now.Add(passed)
		assert.Equal(t, away, here.ModelAway())
	}
	fails(0, false)
	fails(awayFor-1, false)
	answer(here)
	fails(1, false)
	fails(awayFor-1, false)
	answer(there)
	fails(1, false)
	fails(awayFor, true)
	fails(10*time.Minute, true) // after a wait
}
