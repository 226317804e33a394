package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

func TestACourseStaysBoundedAndOfTheWholeRun(t *testing.T) {
	var course []core.Moment
	for second := range 5000 {
		course = core.MergeMoments(course, core.Moment{Seconds: float64(second), Share: float64(second) / 5000})
		require.True(t, len(course) <= 240, "%d moments after %d", len(course), second)
	}
	first, last := course[0], course[len(course)-1]
	assert.True(t, first.Seconds == 0 && last.Seconds == 4999, "from %v to %v", first.Seconds, last.Seconds)
	for i := 1; i < len(course); i++ {
		require.True(t, course[i].Seconds > course[i-1].Seconds, "moment %d: %v after %v", i, course[i].Seconds,
			course[i-1].Seconds)
	}
	again := core.MergeMoments(course, course...)
	assert.Len(t, again, len(course), "reported twice")
}

func TestMomentsOfALongRunAreFewer(t *testing.T) {
	for sofar, want := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, 10 * time.Minute: 5 * time.Second, 12 * time.Hour: 6 * time.Minute,
	} {
		assert.Equal(t, want, core.MomentEvery(sofar), "after %s every", sofar)
	}
}

func TestWhatANightComesTo(t *testing.T) {
	report := core.Report{
		Run: "docs/a", Documents: 98, Seconds: 60, IdleSeconds: 20, Calls: core.Calls{Extract: 8, Embed: 2},
		Tokens: core.Tokens{Prompt: 70, Completion: 30}, Cost: 2,
		Diff: core.Diff{Added: 1, Changed: 5, Removed: 3},
		Planned: &core.Estimate{
			Extract: core.Range{Low: 5, High: 6}, Embed: core.Range{Low: 1, High: 2},
			Tokens: core.Range{Low: 90, High: 110},
			Cost:   core.Range{Low: 3, High: 4}, Seconds: core.Range{Low: 10, High: 20},
		},
	}
	night := report.ToNight()
	assert.True(t, night.Changed == 9 && night.Share == 9.0/101 && night.Seconds == 40 && night.Calls == 10 &&
		night.Tokens == 100, "%+v", night)
	want := (core.Missed{Calls: 0.2, Tokens: 0, Cost: -1.0 / 3, Seconds: 0.5})
	assert.True(t, *night.Planned == want, "missed by %+v, want %+v", *night.Planned, want)
}

func TestNightsHoldEachRunOnceAndLetTheOldestGo(t *testing.T) {
	began := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	var nights core.Nights
	for number := range core.MostNights + 5 {
		run := began.AddDate(0, 0, number)
		nights.Add(core.Night{Run: run.Format("docs/20060102"), RunID: "one", Started: run})
	}
	newest := nights.Nights[len(nights.Nights)-1]
	newest.Status = core.StatusHeld
	nights.Add(newest)
	assert.True(t, len(nights.Nights) == core.MostNights && nights.Nights[0].Run == "docs/20260106" &&
		nights.Nights[len(nights.Nights)-1].Status == core.StatusHeld, "%d nights, from %s", len(nights.Nights),
		nights.Nights[0].Run)
}
