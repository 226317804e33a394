package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// report leaves the report of a run.
func (f *fixture) report(generation string, report corpus.Report) {
	f.t.Helper()
	report.Index, report.Generation, report.Run = "sample", generation, "sample/"+generation
	key := f.built.Index.GenerationKey(generation, "report.json")
	if _, err := blob.WriteJSON(f.t.Context(), f.stores.Blobs, key, report, blob.Cond{}); err != nil {
		f.t.Fatal(err)
	}
}

// state leaves what the processes of a run that goes on write.
func (f *fixture) state(generation string, state corpus.RunState) {
	f.t.Helper()
	run := "sample/" + generation
	state.Report.Index, state.Report.Generation, state.Report.Run = "sample", generation, run
	raw, err := json.Marshal(state)
	if err == nil {
		err = f.runs.SetState(f.t.Context(), run, raw)
	}
	if err == nil {
		err = f.runs.SetState(f.t.Context(), "latest:sample", []byte(run))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestRunsAreListedNewestFirstAndPaged(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	night := func(n int) time.Time { return time.Date(2026, time.March, n, 3, 0, 0, 0, time.UTC) }
	for n := 1; n <= 5; n++ {
		f.report(fmt.Sprintf("n%d", n), corpus.Report{
			Status: corpus.StatusCompleted, Started: night(n), Cost: float64(n), ProblemsTotal: int64(n),
			Calls: corpus.Calls{Extract: 2, Embed: 3},
		})
	}
	key := f.built.Index.GenerationKey("torn", "report.json")
	if _, err := blob.Write(t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	f.state("n6", corpus.RunState{
		Stage: "extract", Total: 10, StageAt: night(6),
		Report: corpus.Report{Status: corpus.StatusRunning, Started: night(6)},
	})
	for _, limit := range []int{1, 2, 3, 100} {
		got, _ := f.pages("/v1/indexes/sample/runs", "items", "generation", limit)
		if strings.Join(got, " ") != "n6 n5 n4 n3 n2 n1 torn" {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	items := f.get("/v1/indexes/sample/runs")["items"].([]any)
	first, second, last := items[0].(map[string]any), items[1].(map[string]any), items[6].(map[string]any)
	if first["status"] != "running" || first["stage"] != "extract" || first["overall"].(float64) >= 1 {
		t.Errorf("%v", first)
	}
	if second["status"] != "completed" || second["cost"] != 5.0 || second["calls"] != 5.0 || second["problems"] != 5.0 {
		t.Errorf("%v", second)
	}
	if last["status"] != "damaged" {
		t.Errorf("a report that cannot be read hides others, or itself: %v", last)
	}
}

func TestARunTellsItsProgressWhileItGoesOnAndItsReportAfterwards(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.state("n1", corpus.RunState{
		Stage: "extract", Total: 10, StageAt: time.Now(),
		Report: corpus.Report{Status: corpus.StatusRunning, Started: time.Now(), Documents: 4},
	})
	run := f.get("/v1/indexes/sample/runs/n1")
	if run["status"] != "running" || run["stage"] != "extract" || run["documents"] != 4.0 ||
		run["stages"].([]any)[0].(map[string]any)["total"] != 10.0 {
		t.Errorf("%v", run)
	}
	f.report("n1", corpus.Report{Status: corpus.StatusErrors, Problems: []corpus.Problem{{Code: "unreadable_document"}}})
	f.state("n1", corpus.RunState{Report: corpus.Report{Status: corpus.StatusErrors}})
	run = f.get("/v1/indexes/sample/runs/n1")
	if run["status"] != "completed_with_errors" || run["overall"] != 1.0 || len(run["problems"].([]any)) != 1 {
		t.Errorf("%v", run)
	}
}

// Runs tell paths and causes of the inside: they are the operator's.
func TestRunsNeedAKeyThatOperates(t *testing.T) {
	l := lock(t, nil)
	l.report("n1", corpus.Report{Status: corpus.StatusCompleted})
	query, operate := l.key(access.Request{Scope: access.Query}), l.key(access.Request{Scope: access.Operate})
	other := l.key(access.Request{Scope: access.Operate, Index: "other-*"})
	for _, path := range []string{"/v1/indexes/sample/runs", "/v1/indexes/sample/runs/n1"} {
		for text, want := range map[string]int{
			query.Text: http.StatusForbidden, operate.Text: http.StatusOK, other.Text: http.StatusNotFound,
		} {
			if got := l.send("GET", path, "", bearer(text)...); got.Code != want {
				t.Errorf("%s: %d, want %d: %s", path, got.Code, want, got.Body)
			}
		}
	}
}
