package e2e

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// enriching is a stack of its own, and a model server that is paid for, with an index that has every enrichment.
type enriching struct {
	t       *testing.T
	data    string
	server  *modeltest.Server
	spec    core.Spec
	running *stack.Stack
}

// enrichFlight is how many calls are in flight.
const enrichFlight = 4

func enrich(t *testing.T) *enriching {
	t.Helper()
	files := map[string]string{}
	for n := range 24 {
		files[fmt.Sprintf("quay-%02d.md", n)] = fmt.Sprintf("# Quay %d\n\nThe quay of Port Verin was built in 18%02d by Dora "+
			"Sanz. DoraSanz lived in Barrow Keld %d. Port-Verin sold salt and copper to Barrow Keld %d.\n", n, n+10, n%5, n%3)
	}
	e := &enriching{t: t, data: t.TempDir(), server: serve(t, modeltest.Options{Latency: 100 * time.Millisecond})}
	e.spec = spec(t, "docs", write(t, files), e.server, "indexes.docs.enrich=[gem,facts,aliases]",
		"indexes.docs.chunking.strategy=document", fmt.Sprintf("models.limits.concurrency=%d", enrichFlight),
		"models.chat.model=enriching", "models.embedding.model=enriching", "models.chat.trust_domain=enriching",
		"models.embedding.trust_domain=enriching", "models.embedding.dimension=256")
	e.begin()
	t.Cleanup(func() { check(t, e.running.Stop(t.Context())) })
	return e
}

func (e *enriching) begin() {
	e.t.Helper()
	e.running = must(start(e.data))(e.t)
}

// amid begins a run and waits until its enrichments are paid for.
func (e *enriching) amid() (run string) {
	e.t.Helper()
	begun := must(e.running.Control.BuildIndex(e.t.Context(), control.IndexRequest{Spec: e.spec}))(e.t)
	for since := time.Now(); time.Since(since) < time.Minute; time.Sleep(10 * time.Millisecond) {
		// 24 extractions and a dozen of what enrichments ask
		status := must(e.running.Control.ReadStatus(e.t.Context(), begun.Run))(e.t)
		if status.Stage == core.StageEnrich && e.server.Stats().Chat >= 36 {
			return begun.Run
		}
	}
	e.t.Fatal("its enrichments are not paid for")
	return ""
}

// ends waits for a run that may be paused still.
func (e *enriching) ends(run string) control.Status {
	e.t.Helper()
	for since := time.Now(); time.Since(since) < time.Minute; time.Sleep(30 * time.Millisecond) {
		if status := wait(e.t, e.running.Control, run); status.Status != core.StatusPaused {
			return completed(e.t, status)
		}
	}
	e.t.Fatal("it did not go on")
	return control.Status{}
}

// What interrupts a run while its enrichments are paid for changes none of them, and has no answer paid for twice but
// what was in flight when a process ended.
func TestRunsAreInterruptedAmidTheirEnrichments(t *testing.T) {
	calm := enrich(t)
	whole := completed(t, index(t, calm.running.Control, calm.spec))
	paid(t, "undisturbed", whole.Report, calm.server)
	if len(whole.Enriched) != 3 || calm.server.Stats().Duplicates != 0 {
		t.Fatalf("%+v, %d paid twice", whole.Enriched, calm.server.Stats().Duplicates)
	}
	for _, one := range whole.Enriched {
		t.Logf("%s: %v", one.Name, one.Counts)
		assert.Zero(t, one.Counts["failed"]+one.Counts["fallbacks"]+one.Counts["by_text"], "%s: %v", one.Name, one.Counts)
	}
	checkSame := func(t *testing.T, e *enriching, got control.Status, twice int64) {
		t.Helper()
		assert.True(t, reflect.DeepEqual(got.Enriched, whole.Enriched) && got.TextHash == whole.TextHash,
			"%+v, undisturbed %+v", got.Enriched, whole.Enriched)
		stats := e.server.Stats()
		assert.True(t, stats.Duplicates <= twice && stats.Chat <= calm.server.Stats().Chat+twice,
			"%d answers paid twice, %d calls of %d", stats.Duplicates, stats.Chat, calm.server.Stats().Chat)
	}
	t.Run("its process ends", func(t *testing.T) {
		e := enrich(t)
		run := e.amid()
		check(t, e.running.Stop(t.Context()))
		e.begin()
		checkSame(t, e, e.ends(run), enrichFlight)
	})
	t.Run("paused, and out of budget", func(t *testing.T) {
		e := enrich(t)
		run := e.amid()
		_, err := e.running.Control.PauseRun(t.Context(), run)
		check(t, err)
		status := wait(t, e.running.Control, run)
		paid(t, "paused", status.Report, e.server)
		stats := e.server.Stats()
		bound := stats.Chat + stats.Embed + 6
		check(t, e.running.Control.ResumeRun(t.Context(), run, &core.Budget{Calls: bound}))
		for since := time.Now(); status.Reason != string(fault.BudgetSpent) && time.Since(since) < time.Minute; {
			time.Sleep(50 * time.Millisecond)
			status = must(e.running.Control.ReadStatus(t.Context(), run))(t)
		}
		stats = e.server.Stats()
		assert.True(t, status.Stage == core.StageEnrich && stats.Chat+stats.Embed == bound,
			"%s at stage %s, %d calls of %d", status.Reason, status.Stage, stats.Chat+stats.Embed, bound)
		check(t, e.running.Control.ResumeRun(t.Context(), run, &core.Budget{Calls: 10_000}))
		status = e.ends(run)
		paid(t, "completed", status.Report, e.server)
		checkSame(t, e, status, 0)
	})
	t.Run("cancelled, and begun again", func(t *testing.T) {
		e := enrich(t)
		run := e.amid()
		_, err := e.running.Control.CancelRun(t.Context(), run)
		check(t, err)
		if status := wait(t, e.running.Control, run); status.Status != core.StatusCancelled {
			t.Errorf("%s %s", status.Status, status.Reason)
		}
		again := index(t, e.running.Control, e.spec)
		for since := time.Now(); again.Reason == string(fault.LeaseHeld) && time.Since(since) < time.Minute; {
			time.Sleep(100 * time.Millisecond) // what was cancelled shows before it gives its lease back
			again = index(t, e.running.Control, e.spec)
		}
		checkSame(t, e, completed(t, again), 0)
	})
}
