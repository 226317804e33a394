package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// report leaves the report of a run.
func (f *fixture) report(generation string, report core.Report) {
	report.Index, report.Generation, report.Run = "sample", generation, "sample/"+generation
	key := f.built.Index.GenerationKey(generation, "report.json")
	must(blob.WriteJSON(f.t.Context(), f.stores.Blobs, key, report, blob.Cond{}))(f.t)
}

// state leaves what the processes of a run that goes on write.
func (f *fixture) state(generation string, state core.RunState) {
	work := "sample/" + generation
	state.Report.Index, state.Report.Generation, state.Report.Run = "sample", generation, work
	raw, err := json.Marshal(state)
	if err == nil {
		err = f.runs.SetState(f.t.Context(), work, raw)
	}
	if err == nil {
		err = f.runs.SetState(f.t.Context(), "latest:sample", []byte(work))
	}
	require.NoError(f.t, err)
}

// Of an index whose first build goes on a question says how that is followed.
func TestAnIndexThatIsBeingBuiltIsNotCalledUnknown(t *testing.T) {
	f := serve(t, nil)
	for _, status := range []string{core.StatusRunning, core.StatusFailed} {
		raw, err := json.Marshal(core.RunState{Report: core.Report{Run: "young/n1", Status: status}})
		if err == nil {
			err = f.runs.SetState(t.Context(), "young/n1", raw)
		}
		if err == nil {
			err = f.runs.SetState(t.Context(), "latest:young", []byte("young/n1"))
		}
		require.NoError(t, err)
		want := "GET /v1/indexes"
		if status == core.StatusRunning {
			want = "unweaver status young --watch"
		}
		code, body, _ := f.do("POST", "/v1/indexes/young/query", object{"query": "Who?"})
		assert.True(t, code == 404 && body["code"] == "unknown_index" &&
			strings.Contains(fmt.Sprint(body["hint"]), want), "%s: %d %v", status, code, body)
	}
}

func TestRunsAreListedNewestFirstAndPaged(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	night := func(n int) time.Time { return time.Date(2026, time.March, n, 3, 0, 0, 0, time.UTC) }
	for n := 1; n <= 5; n++ {
		f.report(fmt.Sprint("n", n), core.Report{Status: core.StatusCompleted, Started: night(n), Cost: float64(n)})
	}
	key := f.built.Index.GenerationKey("torn", "report.json") // listed by when it was written
	must(blob.Write(t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{}))(t)
	f.state("n6", core.RunState{Report: core.Report{Status: core.StatusRunning, Started: night(6)}})
	for _, limit := range []int{1, 2, 3, 100} {
		got, _ := f.pages("/v1/indexes/sample/runs", "generation", limit)
		assert.Equal(t, "torn n6 n5 n4 n3 n2 n1", strings.Join(got, " "), "limit %d", limit)
		got, _ = f.pages("/v1/indexes/sample/runs", "status", limit)
		assert.Equal(t, []string{"damaged", "running", "completed"}, got[:3])
	}
}

func TestARunTellsItsProgressWhileItGoesOnAndItsReportAfterwards(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.state("n1", core.RunState{
		Stage: "extract", Total: 10, StageAt: time.Now(),
		Report: core.Report{Status: core.StatusRunning, Started: time.Now(), Documents: 4},
	})
	work := f.get("/v1/indexes/sample/runs/n1")
	for _, name := range []string{"sample/n1", "sample%2Fn1"} { // as a list names it
		code, out, _ := f.do("GET", "/v1/indexes/sample/runs/"+name, nil)
		assert.True(t, code == 200 && out["run"] == "sample/n1", "%s: %d %v", name, code, out)
	}
	assert.True(t, work["status"] == "running" && work["stage"] == "extract" && work["documents"] == 4.0 &&
		work["stages"].([]any)[0].(object)["total"] == 10.0, "%v", work)
	assert.NotContains(t, work, "next")
	f.report("n2", core.Report{Status: core.StatusHeld, Reason: "mass_deletion"})
	assert.Contains(t, fmt.Sprint(f.get("/v1/indexes/sample/runs/n2")["next"]), "unweaver index [CORPUS]")
	f.report("n1", core.Report{Status: core.StatusErrors, Problems: []core.Problem{{Code: "unreadable_document"}}})
	f.state("n1", core.RunState{Report: core.Report{Status: core.StatusErrors}})
	work = f.get("/v1/indexes/sample/runs/n1")
	assert.True(t, work["status"] == "completed_with_errors" && work["overall"] == 1.0 &&
		len(work["problems"].([]any)) == 1, "%v", work)
}

func TestARunThatGoesOnIsWhatStatusPrints(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	now := time.Now()
	f.state("n1", core.RunState{
		Stage: "extract", Total: 100, StageAt: now.Add(-time.Minute), RunID: "1",
		Report: core.Report{Status: core.StatusRunning, Started: now.Add(-time.Minute), RunID: "1"},
	})
	account := must(json.Marshal(run.Account{
		Done: map[string]int64{"extract": 30}, Worked: map[string]float64{"extract": 60}, Moved: now,
		Lately: map[string]run.Lately{"extract": {Done: 30, Seconds: 60}},
	}))(t)
	require.NoError(t, f.runs.SetAccount(t.Context(), "sample/n1", "worker", account))
	problem := []byte(`{"code":"model_unavailable","object":"chat"}`)
	require.NoError(t, f.runs.SetProblem(t.Context(), "sample/n1", "unit", problem))
	work := f.get("/v1/indexes/sample/runs/n1")
	assert.True(t, work["eta_seconds"].(float64) >= 130 && len(work["problems"].([]any)) == 1, "%v", work)
	want := must(runlog.Source{Artifacts: f.store, Runs: f.runs}.Read(t.Context(), "sample", "n1"))(t)
	var printed object
	require.NoError(t, json.Unmarshal(must(json.Marshal(want))(t), &printed))
	for _, moment := range []string{"seconds", "eta_seconds", "overall", "rate", "stages"} { // they go on
		delete(printed, moment)
		delete(work, moment)
	}
	assert.Equal(t, printed, work, "over HTTP")
}

func TestARunThatIsNotThereIsToldFromOneThatCannotBeRead(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	key := f.built.Index.GenerationKey("torn", "report.json")
	must(blob.Write(t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{}))(t)
	tell := func(work string, status int, code fault.Code) {
		t.Helper()
		got, out, _ := f.do("GET", "/v1/indexes/sample/runs/"+work, nil)
		assert.True(t, got == status && out["code"] == string(code), "%s: %d %v", work, got, out)
	}
	tell("none", 404, fault.RunNotFound)
	tell("No%20Name", 404, fault.RunNotFound)
	tell("torn", 503, fault.SegmentDamage)
	f.store.fail("", fault.StoreDown.At("read", "artifacts").Because("it is away"))
	tell("n1", 503, fault.StoreDown)
}

// Runs tell paths and causes of the inside: they are the operator's.
func TestRunsNeedAKeyThatOperates(t *testing.T) {
	l := lock(t, nil)
	l.report("n1", core.Report{Status: core.StatusCompleted})
	query, operate := l.key(access.Request{Scope: access.Query}), l.key(access.Request{Scope: access.Operate})
	other := l.key(access.Request{Scope: access.Operate, Index: "other-*"})
	for _, path := range []string{"/v1/indexes/sample/runs", "/v1/indexes/sample/runs/n1"} {
		for text, want := range map[string]int{query.Text: 403, operate.Text: 200, other.Text: 404} {
			got := l.send("GET", path, "", bearer(text)...)
			assert.True(t, got.Code == want, "%s: %d, want %d: %s", path, got.Code, want, got.Body)
		}
	}
}

func TestTrendsAreOneReadOfTheLastNights(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	var kept core.Nights
	for n := 1; n <= 5; n++ {
		kept.Add(core.Night{
			Run: fmt.Sprint("sample/n", n), Status: core.StatusCompleted, Cost: float64(n), Published: true,
			Started: time.Date(2026, time.March, n, 3, 0, 0, 0, time.UTC),
		})
	}
	must(blob.WriteJSON(t.Context(), f.stores.Blobs, f.built.Index.NightsKey(), kept, blob.Cond{}))(t)
	trends := f.get("/v1/indexes/sample/trends?nights=4")
	totals, nights := trends["totals"].(object), trends["nights"].([]any)
	assert.True(t, len(nights) == 4 && nights[0].(object)["run"] == "sample/n2" && totals["cost"] == 14.0 &&
		totals["published"] == 4.0 && nights[0].(object)["planned"] == nil, "%v", trends)
	for path, status := range map[string]int{
		"/v1/indexes/sample/trends?nights=0": 422,
		"/v1/indexes/never/trends":           404,
		"/v1/indexes/..a/trends":             404,
	} {
		assert.Equal(t, status, f.send("GET", path, "").Code, "%s", path)
	}
}

func TestTheReportOfARunHasNoHoldOnItsOrigin(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.report("n1", core.Report{
		Status: core.StatusErrors, Problems: []core.Problem{{Code: "encrypted_document", Object: "<script>x</script>.pdf"}},
	})
	got := f.send("GET", "/v1/indexes/sample/runs/n1/report", "")
	header := got.Header()
	policy := header.Get("Content-Security-Policy")
	assert.True(t, got.Code == 200 && strings.HasPrefix(header.Get("Content-Type"), "text/markdown") &&
		strings.Contains(policy, "sandbox") && strings.Contains(policy, "default-src 'none'") &&
		header.Get("X-Content-Type-Options") == "nosniff", "%d %v", got.Code, header)
	assert.Contains(t, got.Body.String(), `| \<script\>x\</script\>.pdf |`)
	assert.Equal(t, 404, f.send("GET", "/v1/indexes/sample/runs/none/report", "").Code)
}
