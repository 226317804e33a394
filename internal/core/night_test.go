package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

func TestWhatBuildsOfHintsPaidIsOneEntryADay(t *testing.T) {
	var nights core.Nights
	add := func(generation, run string, calls int64) {
		nights.Add(core.Night{
			Run: "docs/" + generation, RunID: run, Generation: generation, Calls: calls, Cost: float64(calls), Changed: 1,
			Started: time.Date(2026, 5, 4, 7, int(calls), 0, 0, time.UTC),
		})
	}
	add("g1", "a", 0)
	add("hints-1", "b", 3)
	add("hints-2", "c", 4)
	add("hints-2", "c", 4) // its end is repeated
	add("hints-3", "d", 0)
	last := nights.Nights[len(nights.Nights)-1]
	assert.True(t, len(nights.Nights) == 2 && last.Run == "docs/hints-20260504" && last.Calls == 7 && last.Cost == 7 &&
		last.Changed == 2, "%+v", nights)
}
