package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// paid holds a run's account to what the model server counted.
func paid(t *testing.T, when string, report core.Report, server *modeltest.Server) {
	t.Helper()
	stats := server.Stats()
	if got := report.Calls.Extract + report.Calls.Shorten; got != stats.Chat || report.Calls.Embed != stats.Embed {
		t.Errorf("%s: the report says %+v, the server answered %d chat and %d embedding requests",
			when, report.Calls, stats.Chat, stats.Embed)
	}
	want := core.Tokens{Prompt: stats.PromptTokens, Completion: stats.CompletionTokens, Embedding: stats.EmbedTokens}
	assert.Equal(t, want, report.Tokens, "%s: the report says", when)
}

// onward waits until a resumed run ends or pauses again.
func onward(t *testing.T, run string) control.Status {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(30 * time.Millisecond) {
		if status := wait(t, shared.Control, run); status.Status != core.StatusPaused {
			return status
		}
	}
	t.Fatal("it did not go on")
	return control.Status{}
}

// Promises: 22, 23.
func TestABudgetIsNeverOvershotAndASpentOneNeedsANewOne(t *testing.T) {
	server := serve(t, modeltest.Options{Latency: 20 * time.Millisecond})
	sp := spec(t, "budget", copySample(t), server, "indexes.budget.chunking.strategy=document",
		"models.limits.concurrency=64", "indexes.budget.budget.calls=20", "models.embedding.dimension=256")
	status := index(t, shared.Control, sp)
	require.True(t, status.Status == core.StatusPaused && status.Reason == string(fault.BudgetSpent), "%+v", status.Report)
	calls := func() int64 { stats := server.Stats(); return stats.Chat + stats.Embed }
	assert.Equal(t, int64(20), calls())
	paid(t, "paused", status.Report, server)
	err := shared.Control.ResumeRun(t.Context(), status.Run, nil)
	assert.True(t, err != nil && strings.Contains(err.Error(), "--budget-calls"), "resumed without a budget: %v", err)
	err = shared.Control.ResumeRun(t.Context(), status.Run, &core.Budget{Calls: 10})
	assert.Error(t, err, "resumed with a budget that is spent already")
	require.NoError(t, shared.Control.ResumeRun(t.Context(), status.Run, &core.Budget{Calls: 50}))
	until(t, "calls", func() bool { return calls() >= 50 })
	if status = wait(t, shared.Control, status.Run); status.Reason != string(fault.BudgetSpent) || calls() != 50 {
		t.Errorf("%s %s after %d calls, the new budget is 50", status.Status, status.Reason, calls())
	}
	require.NoError(t, shared.Control.ResumeRun(t.Context(), status.Run, &core.Budget{Calls: 10_000}))
	status = completed(t, onward(t, status.Run))
	paid(t, "completed", status.Report, server)
	if stats := server.Stats(); stats.Duplicates != 0 || stats.EmbedTwice != 0 {
		t.Errorf("%d answers and %d texts were paid twice", stats.Duplicates, stats.EmbedTwice)
	}
}

// Promises: 21.
func TestNoCallStartsAfterPauseOrCancelAndTheAccountIsTrue(t *testing.T) {
	server := serve(t, modeltest.Options{Latency: 150 * time.Millisecond})
	sp := spec(t, "binds", copySample(t), server, "indexes.binds.chunking.strategy=document",
		"models.limits.concurrency=8", "models.embedding.dimension=256")
	begun := must(shared.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t)
	again, err := shared.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp})
	assert.True(t, err == nil && again.Attached && again.Run == begun.Run, "a second start: %+v %v", again, err)
	quiet := func(what string, mark time.Time) {
		t.Helper()
		time.Sleep(1500 * time.Millisecond)
		n := server.StartedSince(mark)
		assert.True(t, n == 0, "%d calls started after %s was acknowledged", n, what)
	}
	for round := range 2 {
		until(t, "calls", func() bool { return server.Stats().Chat >= int64(10+20*round) })
		_, err := shared.Control.PauseRun(t.Context(), begun.Run)
		require.NoError(t, err)
		quiet("pause", time.Now())
		status := wait(t, shared.Control, begun.Run)
		paid(t, "paused", status.Report, server)
		_, err = shared.Control.PauseRun(t.Context(), begun.Run)
		assert.Error(t, err, "a paused run was paused again without a word")
		require.NoError(t, shared.Control.ResumeRun(t.Context(), begun.Run, nil))
	}
	until(t, "calls", func() bool { return server.Stats().Chat >= 60 })
	two, asked := 2, time.Now()
	limit := control.LimitRequest{Run: begun.Run, Limits: &core.LiveLimits{Concurrency: &two}}
	require.NoError(t, shared.Control.LimitRun(t.Context(), limit))
	last := time.Duration(0)
	for time.Since(asked) < 2*time.Second {
		if server.Stats().ChatInFlight > 2 {
			last = time.Since(asked)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("concurrency 8 to 2: more were in flight until %s after", last.Round(time.Millisecond))
	for from := server.Stats().Chat; server.Stats().Chat < from+6 && time.Since(asked) < time.Minute; {
		n := server.Stats().ChatInFlight
		require.True(t, n <= 2, "%d calls are in flight, the limit is 2", n)
		time.Sleep(5 * time.Millisecond)
	}
	asked = time.Now()
	stopped, err := shared.Control.CancelRun(t.Context(), begun.Run)
	require.True(t, err == nil && stopped.InFlight != nil && *stopped.InFlight <= 2, "%+v %v", stopped, err)
	t.Logf("cancel: %s, %d in flight", time.Since(asked).Round(time.Millisecond), *stopped.InFlight)
	quiet("cancel", time.Now())
	status := wait(t, shared.Control, begun.Run)
	require.True(t, status.Status == core.StatusCancelled, "%s %s", status.Status, status.Reason)
	paid(t, "cancelled", status.Report, server)
	_, err = shared.Control.PauseRun(t.Context(), begun.Run)
	assert.Error(t, err, "a run that ended was paused")
	assert.Zero(t, server.Stats().Duplicates)
}
