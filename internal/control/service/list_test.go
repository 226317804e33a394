package service_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

func TestRunsAreListedTheFinishedOnesToo(t *testing.T) {
	b := newBench(t)
	b.writeReport("g1", core.StatusCompleted)
	b.writeReport("g2", core.StatusHeld)
	began := time.Now().Add(-time.Minute)
	b.setState("docs/g3", core.RunState{
		Report: core.Report{Status: core.StatusRunning, Started: began}, Stage: "extract", Total: 10, StageAt: began,
	})
	b.remember("docs/g3")
	b.temporal.executions["build/docs/g3"] = running
	runs := must(b.ListRuns(t.Context(), "", 0))(b.t)
	require.True(t, len(runs) == 3 && runs[0].Run == "docs/g3" && runs[0].Status == core.StatusRunning &&
		runs[0].Stage == "extract", "%+v", runs)
	b.temporal.executions["build/docs/g3"] = terminated
	runs, err := b.ListRuns(t.Context(), "docs", 1)
	assert.True(t, err == nil && len(runs) == 1 && runs[0].Status == core.StatusFailed && runs[0].Reason == "gone",
		"a run that was ended from outside: %+v, %v", runs, err)
	cards, err := b.ListIndexes(t.Context())
	assert.True(t, err == nil && len(cards) == 1 && cards[0].State == runlog.StateEmpty && cards[0].Running == nil &&
		cards[0].LastRun != nil && cards[0].LastRun.Run == "docs/g3", "%+v, %v", cards, err)
	_, err = b.ListRuns(t.Context(), "other", 0)
	wants(t, err, fault.RunNotFound, "never built", "--index other")
	_, err = b.ListRuns(t.Context(), "../docs", 0)
	wants(t, err, fault.InvalidParam, "name index")
}

// cancelling writes down that a run is being cancelled.
func cancelling(b *bench, work string) {
	b.must(b.Stores.Coordination.SetControl(b.t.Context(), work, encode(b.t, run.Control{Stop: run.CommandCancel})))
}

func TestABuildDoesNotJoinOneThatIsBeingCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := must(b.BuildIndex(t.Context(), indexRequest(b, "docs", "")))(b.t)
		cancelling(b, first.Run)
		go func() {
			time.Sleep(3 * time.Second)
			b.temporal.mu.Lock()
			defer b.temporal.mu.Unlock()
			b.temporal.executions["build/"+first.Run] = terminated
		}()
		began := time.Now()
		second, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
		assert.True(t, err == nil && !second.Attached && second.Run != first.Run, "%+v, %v", second, err)
		waited := time.Since(began)
		assert.True(t, waited >= 3*time.Second && waited <= 10*time.Second, "it waited %s for the end of the other", waited)
		cancelling(b, second.Run) // and no worker is there to end it
		_, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
		wants(t, err, fault.LeaseHeld, second.Run+" is being cancelled", "unweaver status "+second.Run)
	})
}

func TestAnIndexWithoutAReportNamesWhoHoldsItsLease(t *testing.T) {
	b := newBench(t)
	_, err := b.ReadStatus(t.Context(), "docs")
	wants(t, err, fault.RunNotFound, "never built")
	b.hold(foreign)
	_, err = b.ReadStatus(t.Context(), "docs")
	wants(t, err, fault.RunNotFound, "run docs/g1 of Temporal at temporal.example:7233 holds the lease",
		"unweaver cancel docs/g1 --lost")
}

// The stores answer and have lost what is served: ls and doctor name the index and the command that writes it again.
func TestAnIndexThatCannotBeServedIsSeen(t *testing.T) {
	look := func(b *bench) (runlog.Card, control.Check) {
		t.Helper()
		cards := must(b.ListIndexes(t.Context()))(b.t)
		require.Len(t, cards, 1, "%+v", cards)
		return cards[0], checks(t, b, b.spec("docs"))["indexes"]
	}
	for name, lose := range map[string]func(*bench){
		"a collection": func(b *bench) { b.must(b.Stores.Vectors.Drop(t.Context(), "docs-chunks")) },
		"a collection made again": func(b *bench) {
			b.must(b.Stores.Vectors.Drop(t.Context(), "docs-classes"))
			b.must(b.Stores.Vectors.Create(t.Context(), "docs-classes", 3))
		},
		"a segment":                  func(b *bench) { b.must(b.art.Store.Delete(t.Context(), b.art.SegmentKey(segment))) },
		"a part of a segment":        func(b *bench) { b.write(b.art.SegmentKey(segment), "") },
		"the entity or vector store": func(b *bench) { b.Stores.Records = recordsmemory.New() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.publish()
			for _, collection := range []string{"docs-classes", "docs-chunks"} {
				b.must(b.Stores.Vectors.Create(t.Context(), collection, 3))
			}
			current, _, err := b.art.ReadPointer(t.Context())
			b.must(err)
			manifest := must(b.art.ManifestOf(t.Context(), current))(b.t)
			proven := must(unit.ReadIdentities(t.Context(), b.Stores.Records, b.Stores.Vectors, manifest.Collections))(b.t)
			proven.Manifest = current.Manifest
			must(blob.WriteJSON(t.Context(), b.art.Store, unit.ProvenKey(b.art), proven, blob.Cond{}))(b.t)
			if card, check := look(b); card.State != runlog.StatePublished || card.Detail != "" || !check.OK {
				t.Errorf("whole: %+v, %+v", card, check)
			}
			lose(b)
			card, check := look(b)
			assert.True(t, card.State == runlog.StateDamaged && strings.Contains(card.Detail, "unweaver restore docs"),
				"ls: %+v", card)
			assert.True(t, !check.OK && strings.Contains(check.Detail, "1 of 1") && strings.Contains(check.Hint, "restore docs"),
				"doctor: %+v", check)
		})
	}
}

func TestEveryCommandRefusesWhatIsNoName(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{
		"../../../../etc", "..", "ledger", "doctor", "", "docs/../../x", "ledger/g1", "a b", "docs/g1/",
	} {
		for command, err := range map[string]error{
			"index": second(b.BuildIndex(t.Context(), control.IndexRequest{Spec: b.spec(name)})),
			"generation": second(b.BuildIndex(t.Context(),
				control.IndexRequest{Spec: b.spec("docs"), Generation: "../" + name})),
			"estimate":    second(b.EstimateBuild(t.Context(), control.IndexRequest{Spec: b.spec(name)})),
			"status":      second(b.ReadStatus(t.Context(), name)),
			"pause":       b.PauseRun(t.Context(), name),
			"resume":      b.ResumeRun(t.Context(), name, &core.Budget{Calls: 1}),
			"cancel":      b.CancelRun(t.Context(), name),
			"lost":        b.MarkLost(t.Context(), name),
			"generations": second(b.ListGenerations(t.Context(), name)),
			"restore":     second(b.RestoreIndex(t.Context(), name)),
			"audit":       second(b.AuditIndex(t.Context(), control.AuditRequest{Index: name})),
		} {
			assert.True(t, fault.Is(err, fault.InvalidParam), "%s %q: %v", command, name, err)
		}
	}
	assert.True(t, len(b.temporal.started)+len(b.temporal.updates)+len(b.temporal.queries) == 0,
		"the engine was asked: %+v", b.temporal)
}

func second[T any](_ T, err error) error { return err }
