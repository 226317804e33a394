package run

import (
	"testing"

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
