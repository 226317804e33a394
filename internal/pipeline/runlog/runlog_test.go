package runlog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var index = artifact.Index{Name: "docs"}

func source() runlog.Source {
	return runlog.Source{Artifacts: blobmemory.New(), Runs: coordmemory.New()}
}

func put(t *testing.T, s runlog.Source, key, text string) {
	musttest.Get(s.Artifacts.Put(t.Context(), key, strings.NewReader(text), int64(len(text)), blob.Cond{}))(t)
}

// report returns the report of a run of docs that began at a minute.
func report(generation, status string, minute int) core.Report {
	return core.Report{
		Index: "docs", Generation: generation, Run: "docs/" + generation, RunID: "id-" + generation, Status: status,
		Started: time.Date(2026, time.March, 1, 2, minute, 0, 0, time.UTC),
	}
}

func ended(t *testing.T, s runlog.Source, of core.Report) {
	raw := musttest.Get(json.Marshal(of))(t)
	put(t, s, index.GenerationKey(of.Generation, "report.json"), string(raw))
}

func running(t *testing.T, s runlog.Source, of core.Report) {
	raw := musttest.Get(json.Marshal(core.RunState{Report: of, RunID: of.RunID, Stage: "extract", Total: 10}))(t)
	for key, value := range map[string][]byte{of.Run: raw, runlog.LatestBuild("docs"): []byte(of.Run)} {
		require.NoError(t, s.Runs.SetState(t.Context(), key, value))
	}
}

func TestARunIsReadFromItsReportOrFromItsState(t *testing.T) {
	s := source()
	ended(t, s, report("g1", core.StatusCompleted, 1))
	running(t, s, report("g2", core.StatusRunning, 2))
	problem := []byte(`{"code":"model_auth","detail":"401"}`)
	require.NoError(t, s.Runs.SetProblem(t.Context(), "docs/g2", "unit", problem))
	over := musttest.Get(s.Read(t.Context(), "docs", "g1"))(t)
	assert.True(t, over.Status == core.StatusCompleted && over.Overall == 1 && over.Stage == "", "%+v", over)
	places := 8
	limits, budget := core.LiveLimits{Concurrency: &places}, core.Budget{Calls: 90}
	require.NoError(t, run.WriteLimits(t.Context(), s.Runs, "docs/g2", &budget, &limits))
	live, err := s.Read(t.Context(), "docs", "g2")
	assert.True(t, err == nil && live.Status == core.StatusRunning && live.Stage == "extract" && live.Unit != "" &&
		live.Overall < 1 && len(live.Problems) == 1 && live.Problems[0].Code == "model_auth", "%+v, %v", live, err)
	assert.True(t, live.Limits != nil && live.Limits.String() == limits.String() && live.Budget != nil &&
		*live.Budget == budget, "it was given %+v and %+v", live.Limits, live.Budget)
}

// Why a run does not get on is shown while its calls are repeated in place, and no longer than that lasts.
func TestAnOutageIsShownAsLongAsNothingIsDone(t *testing.T) {
	at := time.Date(2026, time.March, 1, 2, 3, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		code  fault.Code
		moved time.Time
		shown int
	}{
		"nothing done yet":      {fault.ModelUnavailable, time.Time{}, 1},
		"nothing done since":    {fault.ModelUnavailable, at.Add(-time.Second), 1},
		"something done since":  {fault.ModelUnavailable, at.Add(time.Second), 0},
		"a server that is busy": {fault.ModelRateLimited, time.Time{}, 0},
	} {
		s := source()
		running(t, s, report("g2", core.StatusRunning, 2))
		raw := musttest.Get(json.Marshal(run.Account{Moved: c.moved, Retries: map[string]core.Retry{
			"transcribe/x": {Stage: "transcribe", Code: string(c.code), Last: at, Detail: "http://m/v1: connection refused"},
		}}))(t)
		_, _, err := s.Runs.ExchangeAccount(t.Context(), "docs/g2", "worker", raw)
		require.NoError(t, err)
		live := musttest.Get(s.Read(t.Context(), "docs", "g2"))(t)
		require.Len(t, live.Problems, c.shown, name)
		if c.shown > 0 {
			want := core.Problem{
				Code: "model_unavailable", Object: "extract", Detail: "http://m/v1: connection refused; it is tried again",
			}
			assert.Equal(t, want, live.Problems[0], name)
			require.NoError(t, s.Runs.SetProblem(t.Context(), "docs/g2", "unit", musttest.Get(json.Marshal(want))(t)))
			assert.Len(t, musttest.Get(s.Read(t.Context(), "docs", "g2"))(t).Problems, 1, "its unit failed, too")
		}
	}
}

func TestWhatIsNoRunIsSaid(t *testing.T) {
	s := source()
	for generation, code := range map[string]fault.Code{"g9": fault.RunNotFound, "../x": fault.InvalidParam} {
		musttest.Code(t, musttest.Err(s.Read(t.Context(), "docs", generation)), code, generation)
	}
	require.NoError(t, s.Runs.SetState(t.Context(), "docs/g3", []byte("{half")))
	musttest.Code(t, musttest.Err(s.Read(t.Context(), "docs", "g3")), fault.SegmentDamage, "a state that cannot be read")
	musttest.Code(t, musttest.Err(s.List(t.Context(), "../x", 0)), fault.InvalidParam, "no index")
}

func TestRunsAreListedNewestFirstWithThoseThatGoOnAndThoseThatAreDamaged(t *testing.T) {
	s := source()
	ended(t, s, report("g1", core.StatusCompleted, 1))
	ended(t, s, report("g2", core.StatusErrors, 2))
	running(t, s, report("g3", core.StatusRunning, 3))
	list := musttest.Get(s.List(t.Context(), "docs", 0))(t)
	assert.Equal(t, "g3 running, g2 completed_with_errors, g1 completed", shown(list))
	put(t, s, index.GenerationKey("g2", "report.json"), "{half")
	list, err := s.List(t.Context(), "docs", 0)
	assert.True(t, err == nil && strings.Contains(shown(list), "g2 damaged"), "%s, %v", shown(list), err)
	list, err = s.List(t.Context(), "docs", 1)
	assert.True(t, err == nil && len(list) == 1, "a bound: %s, %v", shown(list), err)
}

func shown(list []runlog.Summary) string {
	var out []string
	for _, work := range list {
		out = append(out, work.Generation+" "+work.Status)
	}
	return strings.Join(out, ", ")
}

// A build whose report is gone is listed with what is kept of it, for as long as the trends count it.
func TestRunsAndTrendsAreOfTheSameBuilds(t *testing.T) {
	s := source()
	kept, gone := report("g2", core.StatusCompleted, 2), report("g1", core.StatusHeld, 1)
	kept.Seconds, kept.IdleSeconds, gone.Seconds = 33, 28, 7
	gone.Problems, gone.ProblemsTotal, kept.Problems = make([]core.Problem, 2), 3, make([]core.Problem, 2)
	ended(t, s, kept)
	nights := core.Nights{Nights: []core.Night{gone.ToNight(), kept.ToNight()}}
	raw := musttest.Get(json.Marshal(nights))(t)
	put(t, s, index.NightsKey(), string(raw))
	trends := musttest.Get(s.ReadTrends(t.Context(), "docs", 30))(t)
	for _, limit := range []int{0, 2} {
		runs := musttest.Get(s.List(t.Context(), "docs", limit))(t)
		require.Len(t, runs, len(trends.Nights))
		for i, run := range runs {
			night := trends.Nights[len(runs)-1-i]
			assert.Equal(t, []any{night.Run, night.Seconds, night.Status, int64(2 + i), night.Run == "docs/g1"},
				[]any{run.Run, run.Seconds, run.Status, run.Problems, run.Gone})
		}
	}
	put(t, s, index.NightsKey(), "{") // damaged: the reports are left
	assert.Len(t, musttest.Get(s.List(t.Context(), "docs", 0))(t), 1)
}

func TestALogHasWhatTheStoresHoldAndAsMuchAsIsRead(t *testing.T) {
	s := source()
	var lines strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&lines, `{"code":"unreadable_document","object":"%d.pdf","detail":"cut off"}`+"\n", i)
	}
	put(t, s, index.GenerationKey("g1", "problems.jsonl"), "no JSON\n"+lines.String())
	put(t, s, index.GenerationKey("g1", "dead-letters/one.json"),
		`{"document":"a.md","ordinal":2,"chunk":"c0ffee","reason":"no JSON"}`)
	put(t, s, index.GenerationKey("g1", "dead-letters/two.json"), "{half")
	log, err := s.ReadLog(t.Context(), runlog.NewEnded(report("g1", core.StatusErrors, 1)))
	require.True(t, err == nil && len(log.Listed) == 1000 && log.Listed[0].Object == "0.pdf" && len(log.Letters) == 2 &&
		log.LettersPath != "", "%d listed, %+v, %v", len(log.Listed), log.Letters, err)
	assert.True(t, log.Letters[0].Object == "a.md, chunk 3 (c0ffee)" && log.Letters[1].Code == string(fault.SegmentDamage),
		"%+v", log.Letters)
	none, err := s.ReadLog(t.Context(), runlog.NewEnded(report("g2", core.StatusCompleted, 2)))
	assert.True(t, err == nil && len(none.Listed)+len(none.Letters) == 0, "%+v, %v", none, err)
}

func TestACardTellsAnIndexThatIsNotPublishedFromOneThatIsDamaged(t *testing.T) {
	s := source()
	ended(t, s, report("g1", core.StatusFailed, 1))
	running(t, s, report("g2", core.StatusRunning, 2))
	card, err := s.ReadCard(t.Context(), "docs")
	assert.True(t, err == nil && card.State == runlog.StateEmpty && card.LastRun != nil &&
		card.LastRun.Generation == "g1" && card.Running != nil && card.Running.Generation == "g2", "%+v, %v", card, err)
	put(t, s, index.LeaseKey(), `{"fence":1,"run":"r","workflow":"build/docs/`+run.DeletionGeneration+`20261129t000000z"}`)
	card, err = s.ReadCard(t.Context(), "docs")
	assert.True(t, err == nil && card.State == runlog.StateDeleting && strings.Contains(card.Detail, "unweaver delete docs"),
		"%+v, %v", card, err)
	put(t, s, artifact.LineKey("docs"), `{"base":"whole"}`)
	card, err = s.ReadCard(t.Context(), "docs")
	assert.True(t, err == nil && strings.Contains(card.Detail, "unweaver delete whole"), "a branch: %+v, %v", card, err)
	require.NoError(t, s.Artifacts.Delete(t.Context(), index.LeaseKey()))
	put(t, s, artifact.Index{Name: "whole"}.BranchKey("docs"), `{"state":"deleted"}`)
	cards, err := s.ListCards(t.Context())
	assert.True(t, err == nil && len(cards) == 1 && cards[0].Index == "whole", "a deleted branch: %+v, %v", cards, err)
	put(t, s, index.CurrentKey(), "{half")
	card, err = s.ReadCard(t.Context(), "docs")
	assert.True(t, err == nil && card.State == runlog.StateDamaged && card.Detail != "", "%+v, %v", card, err)
}
