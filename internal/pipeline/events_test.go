package pipeline_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
)

func TestAReportKeepsWhatHappenedAndTheRunLogReadsIt(t *testing.T) {
	s := newSite(t, sample(6))
	job, holder := s.job(t)
	step := func(stage string, do func(ctx context.Context, work *upkeep.Run) error) {
		t.Helper()
		require.NoError(t, s.unit(t.Context(), job, stage, do))
	}
	step("plan", func(ctx context.Context, work *upkeep.Run) error { return work.BeginStage(ctx, holder, "plan", 1) })
	step("plan", func(ctx context.Context, work *upkeep.Run) error {
		if _, err := work.Plan(ctx); err != nil {
			return err
		}
		return work.BeginStage(ctx, holder, "chunk", 6)
	})
	source := runlog.Source{Artifacts: s.Artifacts, Runs: s.Coordination}
	live, err := source.Read(t.Context(), "docs", "g001")
	require.True(t, err == nil && live.Documents == 6 && live.Unit == "documents" && live.Stage == "chunk",
		"documents are known while chunks are cut: %+v, %v", live, err)
	pause := run.Ending{Status: core.StatusPaused, Reason: "budget_spent", Detail: "all is spent"}
	for range 2 { // the second is a repeated attempt
		step("end", func(ctx context.Context, work *upkeep.Run) error { return work.End(ctx, holder, pause) })
	}
	step("steer", func(ctx context.Context, work *upkeep.Run) error { return work.ClearPause(ctx) })
	bytes := func() int64 {
		var state core.RunState
		raw, err := s.Coordination.ReadState(t.Context(), job.Name())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &state))
		return state.Bytes
	}
	before := bytes()
	step("chunk", func(ctx context.Context, work *upkeep.Run) error { return work.BeginStage(ctx, holder, "chunk", 6) })
	assert.True(t, before > 0 && bytes() == before, "a stage that begins again has as much to do: %d, %d", before, bytes())
	step("chunk", func(ctx context.Context, work *upkeep.Run) error {
		work.ShowProblem(ctx, "chunk/1", core.Problem{Code: "store_unavailable", Object: "chunk", Detail: "no answer"})
		work.Progress.SetDone(2)
		return work.Flush(ctx)
	})
	step("end", func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, holder, run.Ending{Status: core.StatusCancelled, Reason: "cancelled"})
	})
	over, err := source.Read(t.Context(), "docs", "g001")
	require.NoError(t, err)
	var kinds []string
	for _, event := range over.Events {
		kinds = append(kinds, event.Kind+" "+event.Stage+event.Code)
	}
	want := []string{
		"started ", "stage plan", "stage chunk", "paused chunkbudget_spent", "resumed ", "ended cancelled",
	}
	require.Len(t, kinds, len(want), "%q, want %q", kinds, want)
	for i := range want {
		assert.Equal(t, want[i], kinds[i], "event %d", i)
	}
	if last := over.Stages[len(over.Stages)-1]; last.Name != "chunk" || last.Done == last.Total || last.Total != 6 {
		t.Errorf("a cancelled stage is not done: %+v", last)
	}
	assert.True(t, len(over.Retries) == 1 && over.Retries[0].Code == "store_unavailable" && over.Version != "",
		"retries %+v, version %q", over.Retries, over.Version)
	runs, err := source.List(t.Context(), "docs", 0)
	assert.True(t, err == nil && len(runs) == 1 && runs[0].Status == core.StatusCancelled, "%+v, %v", runs, err)
}

func TestACardShowsWhatIsServedAndTheRunThatEndedLast(t *testing.T) {
	s := newSite(t, sample(6))
	s.night(t)
	s.night(t) // unchanged
	source := runlog.Source{Artifacts: s.Artifacts, Runs: s.Coordination}
	cards, err := source.ListCards(t.Context())
	require.True(t, err == nil && len(cards) == 1, "%+v, %v", cards, err)
	card := cards[0]
	if card.State != runlog.StatePublished || card.Documents != 6 || card.Bytes == 0 || card.Generation != "g001" ||
		card.Published == nil || card.LastRun == nil || card.LastRun.Run != "docs/g002" || !card.LastRun.Unchanged {
		t.Errorf("%+v", card)
	}
	runs, err := source.List(t.Context(), "docs", 1)
	assert.True(t, err == nil && len(runs) == 1 && runs[0].Run == "docs/g002", "the newest run: %+v, %v", runs, err)
}
