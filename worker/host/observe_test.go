package host_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/worker/host"
)

// fetch asks a server on loopback; a host is the name that it is asked by.
func fetch(t *testing.T, address, path, name string) (int, string) {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil))(t)
	if name != "" {
		request.Host = name
	}
	response := must(http.DefaultClient.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	raw := must(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(raw)
}

func TestAWorkerTellsWhetherItLivesAndIsReady(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	serving := must(host.Serve("127.0.0.1:0", connect(t, &server{}), telemetry.New("worker"), quiet))(t)
	defer func() { _ = serving.Close() }()
	for path, want := range map[string]int{"/livez": 200, "/metrics": 200, "/": 404} {
		status, body := fetch(t, serving.Address(), path, "")
		assert.True(t, status == want, "%s: %d %s", path, status, body)
	}
	// The engine of this test knows no health check: it does not answer.
	status, body := fetch(t, serving.Address(), "/readyz", "")
	assert.True(t, status == 503 && strings.Contains(body, "engine"), "ready without an engine: %d %s", status, body)
	serving.Drain()
	if status, body := fetch(t, serving.Address(), "/readyz", ""); status != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("ready while it stops: %d %s", status, body)
	}
	if status, _ := fetch(t, serving.Address(), "/metrics", "attacker.example"); status != 421 {
		t.Errorf("a page of another name reads metrics: %d", status)
	}
	_, err := host.Serve(serving.Address(), connect(t, &server{}), telemetry.New("worker"), quiet)
	assert.True(t, fault.Is(err, fault.PortTaken), "a taken address: %v", err)
}

// metrics waits until the metrics of a process hold a text, and returns them.
func metrics(t *testing.T, process *telemetry.Process, until string) string {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	serving := &http.Server{Handler: process.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = serving.Serve(listener) }()
	defer func() { _ = serving.Close() }()
	text := ""
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		if _, text = fetch(t, listener.Addr().String(), "/", ""); strings.Contains(text, until) {
			return text
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("metrics never held %q:\n%s", until, text)
	return ""
}

func TestAWorkerTellsHowIndexesStand(t *testing.T) {
	s := &server{}
	config := configured(t, s)
	config.Telemetry = telemetry.New("worker")
	config.Stores.SetObserver(config.Telemetry)
	index := artifact.Index{Store: config.Stores.Artifacts, Name: "docs"}
	made := time.Now().Add(-2 * time.Hour).UTC()
	manifest := &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g1", Created: made, Seq: 1,
		Segments: core.Segments{Splits: []core.Split{{}}},
	}
	manifest.Counts.Documents, manifest.Counts.Chunks, manifest.Counts.DeadLetters = 7, 21, 2
	sha := must(publish.Store(t.Context(), index, manifest, "published"))(t)
	if _, err := release.Flip(t.Context(), release.FlipIn{
		Artifacts: index, Mirror: config.Stores.Coordination, Generation: "g1", Manifest: sha, Seq: 1,
	}); err != nil {
		t.Fatal(err)
	}
	runs := config.Stores.Coordination
	state := core.RunState{Stage: "extract", Total: 50, RunID: "r"}
	state.Report.Status = core.StatusRunning
	raw := must(json.Marshal(state))(t)
	account := must(json.Marshal(run.Account{Done: map[string]int64{"extract": 30}}))(t)
	for key, value := range map[string][]byte{"docs/g2": raw, runlog.LatestBuild("docs"): []byte("docs/g2")} {
		require.NoError(t, runs.SetState(t.Context(), key, value))
	}
	for name, settled := range map[string]string{"approved": "published", "dropped": "discarded", "open": "held"} {
		one := artifact.Index{Store: config.Stores.Artifacts, Name: name}
		state := core.RunState{RunID: "r"}
		state.Report = core.Report{Index: name, Generation: "g1", Status: "held", Reason: "recall"}
		raw := must(json.Marshal(state))(t)
		for key, value := range map[string][]byte{name + "/g1": raw, runlog.LatestBuild(name): []byte(name + "/g1")} {
			require.NoError(t, runs.SetState(t.Context(), key, value))
		}
		_, err := blob.Write(t.Context(), one.Store, one.GenerationKey("g1", "manifest.json"),
			[]byte(`{"state":"`+settled+`"}`), blob.Cond{})
		require.NoError(t, err)
	}
	require.NoError(t, runs.SetAccount(t.Context(), "docs/g2", "w", account))
	config.CPUSlots = 6
	authority := must(pki.New("test", time.Hour))(t)
	pair := must(authority.IssueClient("worker", time.Hour))(t)
	config.CertFile = filepath.Join(t.TempDir(), "client.pem")
	require.NoError(t, os.WriteFile(config.CertFile, pair.Cert, 0o600))
	running := must(host.Start(config))(t)
	defer running.Stop()
	for _, want := range []string{
		`unweaver_index_documents{index="docs"} 7`, `unweaver_index_chunks{index="docs"} 21`,
		`unweaver_index_dead_letters{index="docs"} 2`, `unweaver_index_generation_age_seconds{index="docs"} 720`,
		`unweaver_run_status{index="docs",reason="",status="running"} 1`,
		`unweaver_run_status{index="approved",reason="",status="completed"} 1`,
		`unweaver_run_status{index="dropped",reason="",status="cancelled"} 1`,
		`unweaver_run_status{index="open",reason="recall",status="held"} 1`,
		`unweaver_stage_done{index="docs",stage="extract"} 30`, `unweaver_stage_total{index="docs",stage="extract"} 50`,
		`unweaver_index_last_success_timestamp_seconds{index="docs"} 1.`, `unweaver_activity_slots{type="activity"} 64`,
		`unweaver_activity_slots{type="computing"} 6`,
		"unweaver_certificate_expires_timestamp_seconds 1.",
		`unweaver_store_operation_seconds_count{operation="get",store="artifacts"} `,
		`unweaver_store_operation_seconds_count{operation="state",store="coordination"} `,
	} {
		metrics(t, config.Telemetry, want) // one look at the indexes sets them one after another
	}
	config.Telemetry.CountPaid("docs", model.Extract, model.Usage{Prompt: 5, Completion: 2}, 0.5)
	metrics(t, config.Telemetry, `unweaver_index_cost_total{index="docs"} 0.5`)
}
