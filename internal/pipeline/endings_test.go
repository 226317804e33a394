package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// ending is a way in which a run comes to its end.
type ending struct {
	name    string
	status  string
	kills   []int64          // at these requests the process dies
	drain   int64            // at this request the process is asked to stop
	steer   map[int64]string // at these requests a person gives a command
	rubbish int              // so many chunks are answered with nonsense, whatever is asked
	lose    string           // before this stage what it reads is lost
	budget  int64            // calls; a person gives more when they are spent
	share   float64          // of chunks that may fail
}

var endings = []ending{
	{name: "completed", status: core.StatusCompleted},
	{name: "completed with errors", status: core.StatusErrors, rubbish: 3, share: 0.5},
	{name: "held", status: core.StatusHeld, rubbish: 10},
	{name: "failed", status: core.StatusFailed, lose: "reduce"},
	{name: "cancelled", status: core.StatusCancelled, steer: map[int64]string{30: run.CommandCancel}},
	{
		name: "paused and resumed three times", status: core.StatusCompleted,
		steer: map[int64]string{15: run.CommandPause, 34: run.CommandPause, 61: run.CommandPause},
	},
	{name: "budget spent, resumed with more", status: core.StatusCompleted, budget: 25},
	{name: "killed once", status: core.StatusCompleted, kills: []int64{25}},
	{
		name: "killed ten times", status: core.StatusCompleted,
		kills: []int64{3, 9, 20, 30, 38, 47, 55, 66, 71, 76},
	},
	{name: "worker replaced", status: core.StatusCompleted, drain: 25},
}

const batchWidth = 16 // calls in flight at most

// Whatever becomes of a run, each call that the server counts is in its report: among the calls, or apart from them
// where a process died before it could count the answer.
// Promises: 61.
func TestReportsHoldWhatTheServerCountedInEveryEnding(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	rows := make([]string, len(endings))
	t.Run("endings", func(t *testing.T) {
		for i, way := range endings {
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = way.run(t)
			})
		}
	})
	t.Log("\n| ending | processes | server: calls, tokens, embedding tokens | reported | unsettled | difference |\n" +
		"|---|---|---|---|---|---|\n" + strings.Join(rows, "\n"))
}

func (way ending) run(t *testing.T) string {
	var job run.Job
	var mu sync.Mutex
	killed := 0
	var wanted sync.WaitGroup
	drained := make(chan struct{})
	s := newPaidSite(t, 60, func(s *paidSite, seen modeltest.Seen) modeltest.Injection {
		mu.Lock()
		if now := s.process(); killed < len(way.kills) && seen.N >= way.kills[killed] && now.alive() == nil {
			now.dead.Store(true)
			killed++
		}
		mu.Unlock()
		if command := way.steer[seen.N]; command != "" {
			wanted.Go(func() {
				assert.NoError(t, s.steer(job, command, nil))
			})
		}
		if way.drain == seen.N {
			close(drained)
		}
		injection := modeltest.Injection{Latency: 10 * time.Millisecond}
		for i := range way.rubbish {
			if seen.Task == "extract" && strings.Contains(seen.Text, fmt.Sprintf("Port Alma 1%d was", i)) {
				injection.Content = "I am sorry."
			}
		}
		return injection
	})
	s.spec.Budget.Calls = way.budget
	if way.share > 0 {
		s.spec.Failures.Share = way.share
	}
	s.before = func(stage string) {
		if stage == way.lose {
			lose(t, s, "partitions.json")
		}
	}
	var holder run.Holder
	job, holder = s.start(t)
	processes := 1
	var report core.Report
	for {
		ctx, stop := context.WithCancel(t.Context())
		if way.drain > 0 && processes == 1 {
			go func() { <-drained; stop() }()
		}
		out, err := s.stages(ctx, job, holder)
		reported := ctx.Err() != nil
		stop()
		wanted.Wait()
		switch {
		case s.process().dead.Load() || reported:
			s.begin()
			processes++
			continue
		case fault.Is(err, fault.Paused) || fault.Is(err, fault.BudgetSpent):
			s.end(t, job, holder, run.Ending{Status: core.StatusPaused, Reason: string(fault.CodeOf(err))})
			require.NoError(t, s.steer(job, run.CommandResume, &core.Budget{}))
			continue
		case fault.Is(err, fault.Cancelled):
			report = s.end(t, job, holder, run.Ending{Status: core.StatusCancelled})
		case err != nil:
			report = s.end(t, job, holder, run.Ending{Status: core.StatusFailed, Reason: string(fault.CodeOf(err))})
		default:
			report = s.end(t, job, holder, run.Ending{Status: out.published.Status, Reason: out.published.Reason})
		}
		break
	}
	assert.True(t, report.Status == way.status && processes >= 1+len(way.kills),
		"it ended %s %s %s after %d processes", report.Status, report.Reason, report.Detail, processes)
	if built := way.status == core.StatusCompleted || way.status == core.StatusErrors; built && (report.ContentHash == "" || report.Chunks == 0 || report.Classes == 0 ||
		report.Mentions == 0 || !report.Published) {
		t.Errorf("what it built is not in its report: hash %q, %d chunks, %d classes, %d mentions, published %t",
			report.ContentHash, report.Chunks, report.Classes, report.Mentions, report.Published)
	}
	return way.compare(t, report, s.server.Stats(), processes)
}

// compare holds a report against the book of the server.
func (way ending) compare(t *testing.T, report core.Report, book modeltest.Stats, processes int) string {
	lost := report.Unsettled
	counted := core.Calls{
		Extract: book.Tasks["extract"].Calls, Shorten: book.Tasks["shorten"].Calls, Embed: book.Tasks["embed"].Calls,
	}
	for _, task := range []struct {
		name                        string
		server, reported, unsettled int64
	}{
		{"extract", counted.Extract, report.Calls.Extract, lost.Calls.Extract},
		{"shorten", counted.Shorten, report.Calls.Shorten, lost.Calls.Shorten},
		{"embed", counted.Embed, report.Calls.Embed, lost.Calls.Embed},
	} {
		assert.True(t, task.reported <= task.server && task.reported+task.unsettled >= task.server,
			"%s: the server counts %d, reported %d, unsettled %d", task.name, task.server, task.reported, task.unsettled)
	}
	assert.True(t, len(way.kills) != 0 || lost == (core.Spent{}), "no process was killed, and yet unsettled: %+v", lost)
	if lost.Calls.Sum() > int64(len(way.kills))*batchWidth {
		t.Errorf("%d calls are unsettled after %d kills", lost.Calls.Sum(), len(way.kills))
	}
	if report.Tokens.Prompt > book.PromptTokens || report.Tokens.Prompt+lost.Tokens.Prompt < book.PromptTokens ||
		report.Tokens.Embedding > book.EmbedTokens ||
		report.Tokens.Embedding+lost.Tokens.Embedding < book.EmbedTokens {
		t.Errorf("tokens: the server counts %d and %d, reported %+v, unsettled %+v", book.PromptTokens, book.EmbedTokens,
			report.Tokens, lost.Tokens)
	}
	cost := float64(book.PromptTokens*3+book.CompletionTokens*15+book.EmbedTokens) / 1e6
	assert.False(t, len(way.kills) == 0 && (report.Cost < cost-1e-9 || report.Cost > cost+1e-9),
		"cost %v, the server's tokens cost %v", report.Cost, cost)
	server := counted.Sum()
	return fmt.Sprintf("| %s | %d | %d, %d, %d | %d, %d, %d | %d, %d, %d | %d |", way.name, processes,
		server, book.PromptTokens, book.EmbedTokens, report.Calls.Sum(), report.Tokens.Prompt, report.Tokens.Embedding,
		lost.Calls.Sum(), lost.Tokens.Prompt, lost.Tokens.Embedding, report.Calls.Sum()-server)
}

// lose removes what the run wrote under a name.
func lose(t *testing.T, s *paidSite, name string) {
	s.Forget()
	for info, err := range s.blobs.List(t.Context(), "", "") {
		require.NoError(t, err)
		if strings.Contains(info.Key, "/runs/") && strings.Contains(info.Key, name) {
			require.NoError(t, s.blobs.Delete(t.Context(), info.Key))
		}
	}
}
