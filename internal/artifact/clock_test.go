package artifact_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// One look after the other, of which each is kept: how far the clock goes when the machine's goes so far.
// Promises: 113.
func TestAClockFollowsTheMachinesByBoundedSteps(t *testing.T) {
	const day = 24 * time.Hour
	for name, looks := range map[string][]struct{ machine, clock time.Duration }{ // since the first look
		"every night":         {{day, day}, {2 * day, 2 * day}, {3 * day, 3 * day}},
		"a year ahead once":   {{day, day}, {365 * day, 3 * day}, {3 * day, 3 * day}, {4 * day, 4 * day}},
		"ahead from now on":   {{365 * day, day}, {366 * day, 3 * day}, {367 * day, 7 * day}, {368 * day, 15 * day}},
		"an hour back":        {{day, day}, {day - time.Hour, day}, {2 * day, 2 * day}},
		"a year back once":    {{day, day}, {-365 * day, day}, {2 * day, 2 * day}},
		"a year back for two": {{day, day}, {-365 * day, day}, {-364 * day, day}, {2 * day, 2 * day}},
		"back from now on":    {{day, day}, {-365 * day, day}, {-364 * day, day}, {-363 * day, -363 * day}},
	} {
		store, began := blobmemory.New(), time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
		look := func(machine time.Duration) time.Duration {
			t.Helper()
			clock, err := artifact.ReadClock(t.Context(), store, "docs/clock.json", began.Add(machine), day)
			if err == nil {
				err = clock.Save(t.Context(), store, "docs/clock.json")
			}
			require.NoError(t, err)
			return clock.At.Sub(began)
		}
		look(0)
		for i, want := range looks {
			assert.Equal(t, want.clock, look(want.machine), "%s, look %d at %s: the clock is at", name, i, want.machine)
		}
		must(blob.Write(t.Context(), store, "docs/clock.json", []byte("{"), blob.Cond{}))
		assert.Equal(t, 500*day, look(500*day), "%s: one that is damaged is at", name)
	}
}
