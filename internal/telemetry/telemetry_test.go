package telemetry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/observe"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

func TestTheReferenceListsEveryMetric(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	want := telemetry.Reference()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	assert.True(t, err == nil && string(got) == want,
		"%s is not what the table says (%v): go test ./internal/telemetry -update", path, err)
}

// scrape returns what Prometheus would get.
func scrape(t *testing.T, process *telemetry.Process) string {
	recorder := httptest.NewRecorder()
	process.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	return string(musttest.Get(io.ReadAll(recorder.Result().Body))(t))
}

func has(t *testing.T, text string, lines ...string) {
	for _, line := range lines {
		assert.Contains(t, text, line+"\n", "no line %q", line)
	}
}

func TestNamesKeepToTheConventionsOfPrometheus(t *testing.T) {
	process := telemetry.New("worker")
	_, end := process.BeginStore(t.Context(), observe.Artifacts, "get")
	end(errors.New("broken"))
	problems := musttest.Get(testutil.GatherAndLint(process.Registry()))(t)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestOneProcessTellsWhatRunsAndHowItIs(t *testing.T) {
	text := scrape(t, telemetry.New("worker"))
	for _, want := range []string{
		`unweaver_build_info{program="worker",version="`, "go_goroutines ", "process_resident_memory_bytes ",
	} {
		assert.Contains(t, text, want)
	}
}

func TestRequestsToModelsAreCountedByTheirOutcome(t *testing.T) {
	process := telemetry.New("worker")
	request := observe.Request{Endpoint: "https://user:secret@llm.example:8000/v1?key=k", Model: "m", Task: model.Extract}
	_, end := process.BeginModel(t.Context(), request)
	has(t, scrape(t, process), `unweaver_model_requests_in_flight{endpoint="llm.example:8000"} 1`)
	end(model.Usage{Prompt: 10, Completion: 3}, "", nil)
	_, end = process.BeginModel(t.Context(), request)
	end(model.Usage{}, "", fault.ModelRateLimited.At("call", "the text of a document"))
	embed := request
	embed.Task = model.EmbedTask
	_, end = process.BeginModel(t.Context(), embed)
	end(model.Usage{Prompt: 7}, "", nil)
	process.NoteWait(request, 2*time.Second)
	text := scrape(t, process)
	has(t, text,
		`unweaver_model_requests_total{code="ok",endpoint="llm.example:8000",model="m",task="extract"} 1`,
		`unweaver_model_requests_total{code="model_rate_limited",endpoint="llm.example:8000",model="m",task="extract"} 1`,
		`unweaver_model_rate_limited_total{endpoint="llm.example:8000"} 1`,
		`unweaver_model_tokens_total{endpoint="llm.example:8000",kind="prompt",model="m"} 10`,
		`unweaver_model_tokens_total{endpoint="llm.example:8000",kind="completion",model="m"} 3`,
		`unweaver_model_tokens_total{endpoint="llm.example:8000",kind="embedding",model="m"} 7`,
		`unweaver_model_requests_in_flight{endpoint="llm.example:8000"} 0`,
		`unweaver_model_wait_seconds_sum{endpoint="llm.example:8000",task="extract"} 2`,
	)
	for _, secret := range []string{"secret", "key=k", "the text of a document"} {
		assert.False(t, strings.Contains(text, secret), "metrics hold %q", secret)
	}
}

// A client that can name things must not fill the memory of Prometheus.
func TestALabelHasABoundedNumberOfValues(t *testing.T) {
	process := telemetry.New("query-api")
	var samples []telemetry.Sample
	for i := range 1000 {
		name := fmt.Sprintf("index-%d", i)
		process.Count(telemetry.Queries, 1, name, "hybrid", "ok")
		samples = append(samples, telemetry.Sample{Value: 1, Labels: []string{name}})
	}
	process.Replace(telemetry.IndexChunks, samples)
	text := scrape(t, process)
	has(t, text, `unweaver_queries_total{index="other",method="hybrid",outcome="ok"} 800`)
	for _, name := range []string{telemetry.Queries, telemetry.IndexChunks} {
		assert.Equal(t, 201, strings.Count(text, "\n"+name+"{"), "%s", name)
	}
}

func TestWhatIsLookedUpIsReplacedWhole(t *testing.T) {
	process := telemetry.New("worker")
	of := func(index string, chunks float64) telemetry.Sample {
		return telemetry.Sample{Value: chunks, Labels: []string{index}}
	}
	process.Replace(telemetry.IndexChunks, []telemetry.Sample{of("gone", 1), of("docs", 2)})
	process.Replace(telemetry.IndexChunks, []telemetry.Sample{of("docs", 3)})
	text := scrape(t, process)
	assert.NotContains(t, text, "gone")
	has(t, text, `unweaver_index_chunks{index="docs"} 3`)
}

func TestAbsentObjectsAreAnswersOfAStore(t *testing.T) {
	for code, want := range map[string]error{
		"not_found": fault.NotFound.At("read", "k"), "store_unavailable": fault.StoreDown.At("read", "k"),
		"cancelled": context.Canceled, "timeout": context.DeadlineExceeded, "internal": errors.New("broken"),
	} {
		process := telemetry.New("worker")
		_, end := process.BeginStore(t.Context(), observe.Artifacts, "get")
		end(want)
		has(t, scrape(t, process),
			`unweaver_store_errors_total{code="`+code+`",operation="get",store="artifacts"} 1`,
			`unweaver_store_operation_seconds_count{operation="get",store="artifacts"} 1`)
	}
}

func TestAProcessWithoutMetricsCountsNothing(t *testing.T) {
	var none *telemetry.Process
	none.Count(telemetry.Notices, 1, "failed", "sent")
	none.Set(telemetry.ActivitySlots, 1)
	none.Add(telemetry.ActivityRunning, 1)
	none.Time(telemetry.RunSeconds, time.Second, "docs")
	none.Replace(telemetry.IndexChunks, nil)
}
