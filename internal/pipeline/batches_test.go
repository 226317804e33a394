package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func calm(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} }

// batchSite returns a site of n documents in mode batch, whose server has these faults.
func batchSite(t *testing.T, n int, faults modeltest.BatchFaults) *paidSite {
	s := newPaidSite(t, n, calm)
	s.spec.Chat.Mode = "batch"
	s.spec.Chat.Batch = core.BatchMode{
		Deadline: core.Duration(time.Hour), Poll: core.Duration(time.Millisecond), Requests: 8, Tokens: 4000,
		Hourly: 2000, PricedAt: 0.5,
	}
	s.shard = 20
	s.server.SetBatchFaults(faults)
	return s
}

// everyFault is each fault of a server at once.
var everyFault = modeltest.BatchFaults{
	LoseCreate: 2, CutCreate: 2, LateFile: 2, Limited: 1, Down: 2, Expire: 3, Busy: 3, Drop: 2,
	Reject: "Port Alma 17 was", Tokens: 2500,
}

// A build whose extraction a faulty Batch API answers, and whose process dies at a write, comes to what an online build
// comes to; nothing is paid twice, and nothing is left at the server.
func TestABuildInBatchesPaysForNothingTwice(t *testing.T) {
	const documents = 40
	online := newPaidSite(t, documents, calm)
	want := online.night(t).manifest.Hashes
	for _, kill := range []int64{0, 1, 2, 5, 9, 14, 20, 33, 47, 60} {
		t.Run(fmt.Sprintf("killed at write %d", kill), func(t *testing.T) {
			t.Parallel()
			s := batchSite(t, documents, everyFault)
			var writes atomic.Int64
			dying := func() {
				dead := s.process()
				dead.put = func(key string) error {
					round := strings.Contains(key, "/batches/")
					counts := round || writes.Load() > 0 && strings.Contains(key, "ledger/extract/loose")
					if counts && writes.Add(1) == kill {
						dead.dead.Store(true)
					}
					return dead.alive()
				}
			}
			dying()
			job, holder := s.start(t)
			out, err := s.stages(t.Context(), job, holder)
			if s.process().dead.Load() {
				s.begin()
				out, err = s.stages(t.Context(), job, holder)
			}
			require.NoError(t, err)
			report := s.end(t, job, holder, run.Ending{Status: out.published.Status})
			got := s.site.current(t).Hashes
			assert.True(t, got == want, "hashes %v, those of an online build are %v", got, want)
			stats := s.server.Stats()
			created, _ := s.server.Batches()
			assert.True(t, stats.Duplicates == 0 && stats.Extract == documents && created != 0,
				"paid twice %d, %d extractions of %d, %d batches", stats.Duplicates, stats.Extract, documents, created)
			assert.True(t, kill != 0 || report.Calls.Extract == documents && out.batched.Requests == documents,
				"the report has %d calls of %d; %+v", report.Calls.Extract, documents, out.batched)
			assert.Zero(t, report.LedgerHits.Extract)
			if kill == 0 && s.server.Files() > created { // those of creations that came to nothing
				t.Errorf("%d files are left at the server, of %d batches", s.server.Files(), created)
			}
		})
	}
}

// Tokens of batches cost what batches cost, and those of online calls what these do.
func TestBatchesAreAccountedForAtTheirPrice(t *testing.T) {
	s := batchSite(t, 20, modeltest.BatchFaults{})
	job, holder := s.start(t)
	out := must(s.stages(t.Context(), job, holder))(t)
	report := s.end(t, job, holder, run.Ending{Status: out.published.Status})
	stats := s.server.Stats()
	cost := func(tokens modeltest.Cost) float64 {
		return (3*float64(tokens.Prompt) + 15*float64(tokens.Completion)) / 1e6
	}
	embedding := float64(stats.EmbedTokens) / 1e6
	all := cost(stats.Tasks["extract"])
	one := all / 20 // the first chunk is asked for online
	low, high := embedding+cost(stats.Tasks["shorten"])+all/2, embedding+cost(stats.Tasks["shorten"])+all/2+one
	assert.False(t, report.Cost < low || report.Cost > high, "cost %.6f, want from %.6f to %.6f", report.Cost, low, high)
}

// A server that does not get on is left alone at the deadline, and the build is published by online calls.
func TestBatchesThatAreLateAreLeftToOnlineCalls(t *testing.T) {
	s := batchSite(t, 20, modeltest.BatchFaults{Stuck: true})
	s.spec.Chat.Batch.Deadline = core.Duration(300 * time.Millisecond)
	out := s.night(t)
	stats := s.server.Stats()
	assert.True(t, out.published.Status == core.StatusCompleted && out.batched.Online != 0,
		"%s, %+v", out.published.Status, out.batched)
	assert.True(t, stats.Extract == 20 && stats.Duplicates == 0,
		"%d extractions, paid twice %d", stats.Extract, stats.Duplicates)
}

// A budget without room for a batch pauses the run before anything of it is sent; with room the run goes on.
func TestABudgetBoundsBatches(t *testing.T) {
	s := batchSite(t, 20, modeltest.BatchFaults{})
	s.spec.Budget.Calls = 5
	job, holder := s.start(t)
	_, err := s.stages(t.Context(), job, holder)
	created, _ := s.server.Batches()
	require.True(t, fault.Is(err, fault.BudgetSpent) && created == 0, "%d batches, %v", created, err)
	s.end(t, job, holder, run.Ending{Status: core.StatusPaused, Reason: string(fault.BudgetSpent)})
	require.NoError(t, s.steer(job, run.CommandResume, &core.Budget{}))
	out, err := s.stages(t.Context(), job, holder)
	require.True(t, err == nil && out.published.Status == core.StatusCompleted, "%v %v", out.published.Status, err)
	if stats := s.server.Stats(); stats.Extract != 20 || stats.Duplicates != 0 {
		t.Errorf("%d extractions, paid twice %d", stats.Extract, stats.Duplicates)
	}
}

// A cancel has the batches at work end; what they answered by then is taken by the next build, though its corpus is
// another.
func TestWhatACancelledBatchAnsweredIsNotPaidAgain(t *testing.T) {
	s := batchSite(t, 20, modeltest.BatchFaults{Stuck: true})
	job, holder := s.start(t)
	var polls atomic.Int64
	s.process().put = func(key string) error {
		if strings.Contains(key, "/batches/") && polls.Add(1) == 4 { // two rounds were begun, and are at work
			go func() { assert.NoError(t, s.steer(job, run.CommandCancel, nil)) }()
		}
		return nil
	}
	refused(s.stages(t.Context(), job, holder))(t, fault.Cancelled, "", "")
	s.end(t, job, holder, run.Ending{Status: core.StatusCancelled})
	s.server.SetBatchFaults(modeltest.BatchFaults{})
	s.begin()
	s.write(t, map[string]string{"another.md": "# Quay\n\nThe quay of Old Verin was built by Dora Sanz.\n"})
	s.spec.Chat.Batch.Requests = 50 // other parts
	s.night(t)
	stats := s.server.Stats()
	assert.True(t, stats.Duplicates == 0 && stats.Extract == 21,
		"paid twice %d, %d extractions of 21", stats.Duplicates, stats.Extract)
}

// Two indexes over the same corpus that are built in batches at once pay for each text once: one sends it, the other
// takes the answer from the ledger.
func TestTwoIndexesInBatchesPayOnce(t *testing.T) {
	const documents = 40
	s := batchSite(t, documents, everyFault)
	first, firstHolder := s.start(t)
	s.spec.Index = "second"
	s.spec.Chat.Batch.Requests = 5 // files of its own
	second, secondHolder := s.start(t)
	var building sync.WaitGroup
	for _, one := range []struct {
		job    run.Job
		holder run.Holder
	}{{first, firstHolder}, {second, secondHolder}} {
		building.Go(func() {
			assert.NoError(t, musttest.Err(s.stages(t.Context(), one.job, one.holder)), "%s", one.job.Index)
		})
	}
	building.Wait()
	if stats := s.server.Stats(); stats.Duplicates != 0 || stats.Extract != documents {
		t.Errorf("paid twice %d, %d extractions of %d", stats.Duplicates, stats.Extract, documents)
	}
}

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
	for _, way := range endings {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			way.run(t)
		})
	}
}

func (way ending) run(t *testing.T) {
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
			wanted.Go(func() { assert.NoError(t, s.steer(job, command, nil)) })
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
	built := way.status == core.StatusCompleted || way.status == core.StatusErrors
	assert.True(t, !built || report.ContentHash != "" && report.Chunks != 0 && report.Classes != 0 && report.Mentions != 0 &&
		report.Published, "what it built is not in its report: %+v", report)
	way.compare(t, report, s.server.Stats())
}

// compare holds a report against the book of the server.
func (way ending) compare(t *testing.T, report core.Report, book modeltest.Stats) {
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
		{"tokens", book.PromptTokens, report.Tokens.Prompt, lost.Tokens.Prompt},
		{"tokens to embed", book.EmbedTokens, report.Tokens.Embedding, lost.Tokens.Embedding},
	} {
		assert.True(t, task.reported <= task.server && task.reported+task.unsettled >= task.server,
			"%s: the server counts %d, reported %d, unsettled %d", task.name, task.server, task.reported, task.unsettled)
	}
	assert.True(t, len(way.kills) != 0 || lost == (core.Spent{}), "no process was killed, and yet unsettled: %+v", lost)
	assert.True(t, lost.Calls.Sum() <= int64(len(way.kills))*batchWidth,
		"%d calls are unsettled after %d kills", lost.Calls.Sum(), len(way.kills))
	cost := float64(book.PromptTokens*3+book.CompletionTokens*15+book.EmbedTokens) / 1e6
	assert.False(t, len(way.kills) == 0 && (report.Cost < cost-1e-9 || report.Cost > cost+1e-9),
		"cost %v, the server's tokens cost %v", report.Cost, cost)
}

// lose removes what the run wrote under a name.
func lose(t *testing.T, s *paidSite, name string) {
	s.Forget()
	for info := range musttest.All(t, s.blobs.List(t.Context(), "", "")) {
		if strings.Contains(info.Key, "/runs/") && strings.Contains(info.Key, name) {
			require.NoError(t, s.blobs.Delete(t.Context(), info.Key))
		}
	}
}
