package corpus_test

import (
	"math"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
)

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.01*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

func TestTimeLeftGoesByWhatWasMeasured(t *testing.T) {
	state := corpus.RunState{Stage: corpus.StageChunk}
	if _, left := state.Overall(corpus.Pace{Share: 0.5, Seconds: 60}); left != 0 {
		t.Errorf("a first build that still cuts chunks: %g s left, of stages that nobody has seen", left)
	}
	state = corpus.RunState{Stage: corpus.StageExtract, Paid: true}
	share, left := state.Overall(corpus.Pace{Share: 0.5, Seconds: 70})
	about(t, "half of extraction", share, 0.39)
	about(t, "its other half, and 26 hundredths of all after it", left, 70+26*140/70.0)
	state.Stage = corpus.StageLoad
	state.Report.Stages = []corpus.StageProgress{{Name: corpus.StageExtract, Seconds: 140}}
	_, left = state.Overall(corpus.Pace{Share: 0.5, Seconds: 3})
	about(t, "after extraction, by its pace", left, 3+4*140/70.0)
}

func TestTimeLeftGoesByTheRunBeforeScaledByChunks(t *testing.T) {
	state := corpus.RunState{
		Stage: corpus.StageChunk, ExpectedChunks: 100,
		Expected: []corpus.StageProgress{
			{Name: corpus.StagePlan, Seconds: 10}, {Name: corpus.StageChunk, Seconds: 30},
			{Name: corpus.StageExtract, Seconds: 50}, {Name: corpus.StageLoad, Seconds: 10},
		},
	}
	share, left := state.Overall(corpus.Pace{Share: 0.5, Seconds: 20})
	about(t, "share by seconds", share, 0.25)
	about(t, "left", left, 20+60)
	state.Report.Chunks = 300
	_, left = state.Overall(corpus.Pace{Share: 0.5, Seconds: 20})
	about(t, "left of three times as many chunks", left, 20+180)
	stopped := time.Now()
	state.Stopped = &stopped
	if _, left := state.Overall(corpus.Pace{Share: 0.5, Seconds: 20}); left != 0 {
		t.Errorf("a run that pauses: %g s left", left)
	}
	if _, left := state.Overall(corpus.Pace{Share: 0.5}); left != 0 {
		t.Errorf("nothing moves: %g s left", left)
	}
}

func TestARestoreIsAsFarAsItsParts(t *testing.T) {
	state := corpus.RunState{Stage: corpus.StageRestore}
	if share, left := state.Overall(corpus.Pace{Share: 0.25, Seconds: 30}); share != 0.25 || left != 30 {
		t.Errorf("%g, %g s left", share, left)
	}
}

func TestPausesDoNotCountAndAStageThatWasCancelledIsNotDone(t *testing.T) {
	begin := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	state := corpus.RunState{Stage: corpus.StageExtract, Total: 100, StageAt: begin}
	state.Stop(begin.Add(10 * time.Second))
	state.Stop(begin.Add(20 * time.Second)) // told again
	if run, _ := state.Idle(begin.Add(40 * time.Second)); run != 30 {
		t.Errorf("idle for %g s so far", run)
	}
	state.GoOn(begin.Add(70 * time.Second))
	state.GoOn(begin.Add(80 * time.Second))
	state.Close(begin.Add(90*time.Second), 37)
	want := corpus.StageProgress{Name: corpus.StageExtract, Done: 37, Total: 100, Seconds: 30}
	if got := state.Report.Stages[0]; got != want || state.Report.IdleSeconds != 60 {
		t.Errorf("%+v, idle for %g s; want %+v", got, state.Report.IdleSeconds, want)
	}
}

func TestEventsThatAreToldAgainAreOneAndTheFirstAndLastOfManyStay(t *testing.T) {
	var report corpus.Report
	report.Note(corpus.Event{Kind: corpus.EventStarted})
	for tries := range 5 {
		report.Note(corpus.Event{Kind: corpus.EventWaiting, Code: "store_unavailable", Count: tries + 1})
	}
	if len(report.Events) != 2 || report.Events[1].Count != 5 {
		t.Errorf("%+v", report.Events)
	}
	for range 300 {
		report.Note(corpus.Event{Kind: corpus.EventPaused})
		report.Note(corpus.Event{Kind: corpus.EventResumed})
	}
	report.Note(corpus.Event{Kind: corpus.EventEnded})
	n := len(report.Events)
	if n > 200 || report.Events[0].Kind != corpus.EventStarted || report.Events[n-1].Kind != corpus.EventEnded {
		t.Errorf("%d events, the first %+v, the last %+v", n, report.Events[0], report.Events[n-1])
	}
}
