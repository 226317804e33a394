// Package e2e proves the pipeline on the embedded stack: real Temporal, real files, a real HTTP model server.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/testkit/apitest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
)

const sample = "../../../testdata/musique"

var shared *stack.Stack // one stack serves the tests that do not kill it

func TestMain(m *testing.M) {
	sandbox.RunChild()
	if storm.Serve() { // this process is a stack that is to be killed
		return
	}
	if os.Getenv("UNWEAVER_TEST_BIN") == "" && os.Getenv("UNWEAVER_RECORD_HISTORIES") == "" {
		fmt.Println("SKIPPED: UNWEAVER_TEST_BIN names no folder of programs: make test-servers sets it")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "unweaver-e2e-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_ = os.Setenv("E2E_KEY", "e2e")
	if shared, err = start(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = shared.Stop(context.Background()) }()
	return m.Run()
}

func start(dir string) (*stack.Stack, error) { return startWith(stack.Options{DataDir: dir}) }

func startWith(options stack.Options) (*stack.Stack, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	own := config.Default()
	served.Lock()
	own.Models.Endpoints = append(own.Models.Endpoints, served.endpoints...)
	served.Unlock()
	options.Config, options.Log = own, log
	running, err := stack.Start(context.Background(), options)
	if err == nil {
		follows(running.Control.Models)
	}
	return running, err
}

// follows has models name every model server of the tests, also those to come.
func follows(models *app.Models) {
	served.Lock()
	defer served.Unlock()
	models.AllowEndpoints(served.endpoints...)
	served.models = append(served.models, models)
}

// served are the model servers of the tests, and the processes' models that name them.
var served struct {
	sync.Mutex
	endpoints []config.Endpoint
	models    []*app.Models
}

// name has the configuration of every stack name a model server, and that of those to come.
func name(url string) {
	served.Lock()
	defer served.Unlock()
	endpoint := config.Endpoint{BaseURL: url, APIKeyEnv: "E2E_KEY"}
	served.endpoints = append(served.endpoints, endpoint)
	for _, models := range served.models {
		models.AllowEndpoints(endpoint)
	}
}

func named() string {
	served.Lock()
	defer served.Unlock()
	items := make([]string, 0, len(served.endpoints))
	for _, endpoint := range served.endpoints {
		items = append(items, endpoint.BaseURL+"="+endpoint.APIKeyEnv)
	}
	return strings.Join(items, ",")
}

func serve(t testing.TB, o modeltest.Options) *modeltest.Server {
	server := modeltest.New(o)
	require.NoError(t, server.Replay(filepath.Join(sample, "corpus.jsonl"), filepath.Join(sample,
		"extractions_desc.jsonl")))
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	name(server.URL)
	return server
}

// spec returns the specification of an index; with a server, both models are the server's.
func spec(t testing.TB, index, docs string, server *modeltest.Server, set ...string) core.Spec {
	if server != nil {
		set = append(
			[]string{
				"models.chat.provider=openai", "models.chat.model=m-" + t.Name(), "models.chat.api_key_env=E2E_KEY",
				"models.chat.base_url=" + server.URL, "models.embedding.provider=openai", "models.embedding.model=e-" + t.Name(),
				"models.embedding.api_key_env=E2E_KEY", "models.embedding.base_url=" + server.URL,
			},
			set...)
	}
	cfg := musttest.Get(config.Load(config.Source{Set: set}))(t)
	return musttest.Get(cfg.Spec(index, musttest.Get(filepath.Abs(docs))(t)))(t)
}

func wait(t testing.TB, c control.Control, run string) control.Status {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(30 * time.Millisecond) {
		st, err := c.ReadStatus(t.Context(), run)
		if err == nil && (core.IsTerminal(st.Status) || st.Status == core.StatusPaused) {
			return st
		}
	}
	t.Fatalf("%s did not end", run)
	return control.Status{}
}

func index(t testing.TB, serving control.Control, sp core.Spec) control.Status {
	r := musttest.Get(serving.BuildIndex(t.Context(),
		control.IndexRequest{Spec: sp, Generation: fmt.Sprintf("g%d", time.Now().UnixNano())}))(t)
	return wait(t, serving, r.Run)
}

func completed(t testing.TB, st control.Status) control.Status {
	require.True(t, st.Status == core.StatusCompleted,
		"%s is %s: %s %s %v", st.Run, st.Status, st.Reason, st.Detail, st.Problems)
	return st
}

func do(t testing.TB, base, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(musttest.Get(json.Marshal(body))(t))
	}
	req := musttest.Get(http.NewRequestWithContext(t.Context(), method, base+path, reader))(t)
	req.Header.Set("Content-Type", "application/json")
	client := http.DefaultClient
	if !strings.HasPrefix(path, httpapi.Prefix) { // every answer is as the server itself describes it
		client = &http.Client{Transport: apitest.Transport{Contract: contractOf(t, base), Report: func(err error) {
			t.Errorf("not as described: %v", err)
		}}}
	}
	res := musttest.Get(client.Do(req))(t)
	defer func() { _ = res.Body.Close() }()
	var out map[string]any
	require.NoError(t, json.NewDecoder(res.Body).Decode(&out))
	return res.StatusCode, out
}

// contracts are the descriptions of servers, by address.
var contracts sync.Map

func contractOf(t testing.TB, base string) *apitest.Contract {
	if known, ok := contracts.Load(base); ok {
		return known.(*apitest.Contract)
	}
	res := musttest.Get(http.Get(base + "/openapi.json"))(t)
	defer func() { _ = res.Body.Close() }()
	contract, err := apitest.New(musttest.Get(io.ReadAll(res.Body))(t))
	require.NoError(t, err, "%s/openapi.json", base)
	contracts.Store(base, contract)
	return contract
}

func ask(t testing.TB, base, index, q string, more map[string]any) map[string]any {
	body := map[string]any{"query": q}
	for k, v := range more {
		body[k] = v
	}
	status, out := do(t, base, http.MethodPost, "/v1/indexes/"+index+"/query", body)
	require.True(t, status == http.StatusOK, "query: %d %v", status, out)
	return out
}

func chunksOf(out map[string]any) []map[string]any {
	var cs []map[string]any
	for _, c := range out["chunks"].([]any) {
		cs = append(cs, c.(map[string]any))
	}
	return cs
}

func write(t testing.TB, files map[string]string) string {
	dir := t.TempDir()
	for name, s := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(s), 0o644))
	}
	return dir
}

func copySample(t testing.TB) string {
	raw := musttest.Get(os.ReadFile(filepath.Join(sample, "corpus.jsonl")))(t)
	return write(t, map[string]string{"corpus.jsonl": string(raw)})
}

func writeFile(t testing.TB, path, s string) {
	require.NoError(t, os.WriteFile(path, []byte(s), 0o644))
}
