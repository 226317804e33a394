package pipeline_test

import (
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
)

func calm(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} }

// batchSite returns a site of n documents in mode batch, whose server has these faults.
func batchSite(t *testing.T, n int, faults modeltest.BatchFaults) *paidSite {
	t.Helper()
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
	t.Setenv(keyVariable, "secret")
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
			if got := s.site.current(t).Hashes; got != want {
				t.Errorf("hashes %v, those of an online build are %v", got, want)
			}
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
	t.Setenv(keyVariable, "secret")
	s := batchSite(t, 20, modeltest.BatchFaults{})
	job, holder := s.start(t)
	out, err := s.stages(t.Context(), job, holder)
	require.NoError(t, err)
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
	t.Setenv(keyVariable, "secret")
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
	t.Setenv(keyVariable, "secret")
	s := batchSite(t, 20, modeltest.BatchFaults{})
	s.spec.Budget.Calls = 5
	job, holder := s.start(t)
	_, err := s.stages(t.Context(), job, holder)
	if created, _ := s.server.Batches(); !fault.Is(err, fault.BudgetSpent) || created != 0 {
		t.Fatalf("%d batches, %v", created, err)
	}
	s.end(t, job, holder, run.Ending{Status: core.StatusPaused, Reason: string(fault.BudgetSpent)})
	require.NoError(t, s.steer(job, run.CommandResume, &core.Budget{}))
	if out, err := s.stages(t.Context(), job, holder); err != nil || out.published.Status != core.StatusCompleted {
		t.Fatal(out.published.Status, err)
	}
	if stats := s.server.Stats(); stats.Extract != 20 || stats.Duplicates != 0 {
		t.Errorf("%d extractions, paid twice %d", stats.Extract, stats.Duplicates)
	}
}

// A cancel has the batches at work end; what they answered by then is taken by the next build, though its corpus is
// another.
func TestWhatACancelledBatchAnsweredIsNotPaidAgain(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := batchSite(t, 20, modeltest.BatchFaults{Stuck: true})
	job, holder := s.start(t)
	var polls atomic.Int64
	s.process().put = func(key string) error {
		if strings.Contains(key, "/batches/") && polls.Add(1) == 4 { // two rounds were begun, and are at work
			go func() {
				assert.NoError(t, s.steer(job, run.CommandCancel, nil))
			}()
		}
		return nil
	}
	if _, err := s.stages(t.Context(), job, holder); !fault.Is(err, fault.Cancelled) {
		t.Fatal(err)
	}
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
	t.Setenv(keyVariable, "secret")
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
			_, err := s.stages(t.Context(), one.job, one.holder)
			assert.NoError(t, err, "%s", one.job.Index)
		})
	}
	building.Wait()
	if stats := s.server.Stats(); stats.Duplicates != 0 || stats.Extract != documents {
		t.Errorf("paid twice %d, %d extractions of %d", stats.Duplicates, stats.Extract, documents)
	}
}
