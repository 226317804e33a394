package core_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	assert.False(t, math.Abs(got-want) > 0.01*math.Max(1, math.Abs(want)), "%s: %g, want %g", what, got, want)
}

func TestTimeLeftGoesByWhatWasMeasured(t *testing.T) {
	state := core.RunState{Stage: core.StageChunk}
	if _, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 60}); left != 0 {
		t.Errorf("a first build that still cuts chunks: %g s left, of stages that were not seen", left)
	}
	state = core.RunState{Stage: core.StageExtract, Paid: true}
	share, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 70})
	about(t, "half of extraction", share, 0.39)
	about(t, "its other half, and 26 hundredths of all after it", left, 70+26*140/70.0)
	state.Stage = core.StageLoad
	state.Report.Stages = []core.StageProgress{{Name: core.StageExtract, Seconds: 140}}
	_, left = state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 3})
	about(t, "after extraction, by its pace", left, 3+4*140/70.0)
}

// An embedder inside takes most of a build, which stays far from its end until that has embedded.
func TestABuildIsAsFarAsItsEmbedderInside(t *testing.T) {
	state := core.RunState{Stage: core.StageEmbed, Inside: true}
	share, _ := state.EstimateProgress(core.Pace{})
	later, _ := state.EstimateProgress(core.Pace{Share: 0.5})
	assert.True(t, share < 0.2 && later > 0.4 && later < 0.6, "%.2f, half embedded %.2f", share, later)
}

func TestTimeLeftGoesByTheRunBeforeScaledByChunks(t *testing.T) {
	state := core.RunState{
		Stage: core.StageChunk, ExpectedChunks: 100,
		Expected: []core.StageProgress{
			{Name: core.StagePlan, Seconds: 10}, {Name: core.StageChunk, Seconds: 30},
			{Name: core.StageExtract, Seconds: 50}, {Name: core.StageLoad, Seconds: 10},
		},
	}
	share, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 20})
	about(t, "share by seconds", share, 0.25)
	about(t, "left", left, 20+60)
	state.Report.Chunks = 300
	_, left = state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 20})
	about(t, "left of three times as many chunks", left, 20+180)
	stopped := time.Now()
	state.Stopped = &stopped
	if _, left := state.EstimateProgress(core.Pace{Share: 0.5, Seconds: 20}); left != 0 {
		t.Errorf("a run that pauses: %g s left", left)
	}
	if _, left := state.EstimateProgress(core.Pace{Share: 0.5}); left != 0 {
		t.Errorf("nothing moves: %g s left", left)
	}
}

func TestARestoreIsAsFarAsItsParts(t *testing.T) {
	state := core.RunState{Stage: core.StageRestore}
	share, left := state.EstimateProgress(core.Pace{Share: 0.25, Seconds: 30})
	assert.True(t, share == 0.25 && left == 30, "%g, %g s left", share, left)
}

func TestPausesDoNotCountAndAStageThatWasCancelledIsNotDone(t *testing.T) {
	begin := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	state := core.RunState{Stage: core.StageExtract, Total: 100, StageAt: begin}
	state.Stop(begin.Add(10 * time.Second))
	state.Stop(begin.Add(20 * time.Second)) // reported again
	run, _ := state.IdleSeconds(begin.Add(40 * time.Second))
	assert.True(t, run == 30, "idle for %g s so far", run)
	state.GoOn(begin.Add(70 * time.Second))
	state.GoOn(begin.Add(80 * time.Second))
	state.Close(begin.Add(90*time.Second), 37)
	want := core.StageProgress{Name: core.StageExtract, Done: 37, Total: 100, Seconds: 30}
	if got := state.Report.Stages[0]; got != want || state.Report.IdleSeconds != 60 {
		t.Errorf("%+v, idle for %g s; want %+v", got, state.Report.IdleSeconds, want)
	}
}

func TestEventsThatAreToldAgainAreOneAndTheFirstAndLastOfManyStay(t *testing.T) {
	var report core.Report
	report.AddEvent(core.Event{Kind: core.EventStarted})
	for tries := range 5 {
		report.AddEvent(core.Event{Kind: core.EventWaiting, Code: "store_unavailable", Count: tries + 1})
	}
	assert.True(t, len(report.Events) == 2 && report.Events[1].Count == 5, "%+v", report.Events)
	for range 300 {
		report.AddEvent(core.Event{Kind: core.EventPaused})
		report.AddEvent(core.Event{Kind: core.EventResumed})
	}
	report.AddEvent(core.Event{Kind: core.EventEnded})
	n := len(report.Events)
	assert.True(t, n <= 200 && report.Events[0].Kind == core.EventStarted && report.Events[n-1].Kind == core.EventEnded,
		"%d events, the first %+v, the last %+v", n, report.Events[0], report.Events[n-1])
}
