package e2e

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

func TestBadCorporaAreNamed(t *testing.T) {
	denied := write(t, map[string]string{"a.txt": "x"})
	require.NoError(t, os.Chmod(denied, 0))
	t.Cleanup(func() { _ = os.Chmod(denied, 0o755) })
	for name, c := range map[string]struct {
		dir  string
		want fault.Code
		say  string
	}{
		"missing folder":      {filepath.Join(t.TempDir(), "none"), fault.CorpusMissing, "none"},
		"unreadable folder":   {denied, fault.CorpusMissing, filepath.Base(denied)},
		"empty folder":        {t.TempDir(), fault.CorpusEmpty, ".txt"},
		"nothing but rubbish": {write(t, map[string]string{"a.bin": "x"}), fault.CorpusEmpty, "of other types"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "unreadable folder" && os.Geteuid() == 0 {
				t.Skip("root reads every folder")
			}
			sp := spec(t, "bad", c.dir, nil)
			r, err := shared.Control.BuildIndex(t.Context(),
				control.IndexRequest{Spec: sp, Generation: strings.ReplaceAll(name, " ", "-")})
			if err == nil {
				st := wait(t, shared.Control, r.Run)
				assert.True(t, st.Status == core.StatusFailed && st.Reason == string(c.want) && strings.Contains(st.Detail, c.say),
					"%s %s %q", st.Status, st.Reason, st.Detail)
				return
			}
			assert.True(t, fault.Is(err, c.want) && strings.Contains(err.Error(), c.say), "%v", err)
		})
	}
}

func TestAnotherCorpusNeedsAWord(t *testing.T) {
	sp := spec(t, "swap", write(t, map[string]string{"a.txt": "Alpha is here."}), nil)
	completed(t, index(t, shared.Control, sp))
	sp.Corpus = write(t, map[string]string{"b.txt": "Beta is there."})
	if st := index(t, shared.Control, sp); st.Status != core.StatusFailed || st.Reason != string(fault.CorpusChanged) {
		t.Fatalf("%s %s", st.Status, st.Reason)
	}
	sp.Gate.MaxRemoved = 1
	r := must(shared.Control.BuildIndex(t.Context(),
		control.IndexRequest{Spec: sp, Generation: "swapped", ReplaceCorpus: true}))(t)
	completed(t, wait(t, shared.Control, r.Run))
}

func TestAChangedEmbeddingDimensionPausesWithTheWayOut(t *testing.T) {
	s := serve(t, modeltest.Options{Dimension: 128})
	sp := spec(t, "dim", copySample(t), s, "indexes.dim.chunking.strategy=document", "models.embedding.dimension=64")
	st := index(t, shared.Control, sp)
	assert.True(t, st.Status == core.StatusPaused && st.Reason == string(fault.DimensionChanged) &&
		strings.Contains(st.Detail, "models.embedding.dimension"), "%s %s %s", st.Status, st.Reason, st.Detail)
	_, err := shared.Control.CancelRun(t.Context(), st.Run)
	assert.NoError(t, err)
}

func TestABigDocumentAndAnEndlessLineAreStreamed(t *testing.T) {
	dir := t.TempDir()
	var line bytes.Buffer
	for line.Len() < 1<<20 {
		line.WriteString("The surveyor walked from Oldham to Bury and wrote down the height of every bridge ")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "line.txt"), line.Bytes(), 0o644))
	st := completed(t, index(t, shared.Control, spec(t, "big", dir, nil)))
	assert.True(t, st.Chunks >= 100, "%d chunks", st.Chunks)
}

func TestBadQueriesAreRefusedByName(t *testing.T) {
	completed(t, index(t, shared.Control, spec(t, "q", write(t, map[string]string{"a.txt": "Alpha is a letter."}), nil)))
	for name, c := range map[string]struct {
		path string
		body any
		want int
		code string
		say  string
	}{
		"unknown index":      {"nope", map[string]any{"query": "x"}, 404, "unknown_index", "nope"},
		"not a name":         {"No%20Such", map[string]any{"query": "x"}, 404, "unknown_index", "No Such"},
		"unknown generation": {"q", map[string]any{"query": "x", "generation": "g0"}, 404, "unknown_generation", "g0"},
		"unknown method":     {"q", map[string]any{"query": "x", "method": "magic"}, 422, "invalid_parameter", "unweaver"},
		"unknown rule":       {"q", map[string]any{"query": "x", "rule": "dice"}, 422, "invalid_parameter", "weighted"},
		"rule elsewhere": {
			"q", map[string]any{"query": "x", "method": "vector", "rule": "weighted"}, 422, "invalid_parameter", "rule",
		},
		"unknown field": {"q", map[string]any{"query": "x", "top_chunk": 3}, 422, "invalid_parameter", "top_chunks"},
		"unknown parameter": {
			"q", map[string]any{"query": "x", "params": map[string]any{"damping": 0.5}}, 422, "invalid_parameter", "damping",
		},
		"a number too large": {"q", map[string]any{"query": "x", "top_chunks": 101}, 422, "invalid_parameter", "top_chunks"},
		"a wrong type":       {"q", map[string]any{"query": 7}, 422, "invalid_parameter", "query"},
		"no question":        {"q", map[string]any{"query": "   "}, 422, "invalid_parameter", "query"},
		"a long question":    {"q", map[string]any{"query": strings.Repeat("a ", 5000)}, 422, "invalid_parameter", "8192"},
		"a huge question":    {"q", map[string]any{"query": strings.Repeat("x", 100_000)}, 413, "too_large", "64 KiB"},
		"neither an object":  {"q", []int{1}, 422, "invalid_parameter", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, out := do(t, shared.HTTP, http.MethodPost, "/v1/indexes/"+c.path+"/query", c.body)
			hint, _ := out["hint"].(string)
			assert.True(t, status == c.want && out["code"] == c.code &&
				strings.Contains(out["detail"].(string)+" "+hint, c.say) && strings.HasSuffix(out["type"].(string), c.code),
				"%d %v", status, out)
		})
	}
	out := ask(t, shared.HTTP, "q", "zzz qqq xxx", nil)
	if len(chunksOf(out)) != 0 || out["reason"] != "no_match" { // never an error
		t.Errorf("a question without a known word: %v", out)
	}
}

func TestReadinessMetricsAndContract(t *testing.T) {
	for path, want := range map[string]string{
		"/livez": "status", "/readyz": "checks", "/openapi.json": "openapi", "/v1/indexes": "items",
	} {
		status, out := do(t, shared.HTTP, http.MethodGet, path, nil)
		assert.True(t, status == http.StatusOK && out[want] != nil, "%s: %d %v", path, status, out)
	}
	response := must(http.Get(shared.HTTP + "/metrics"))(t)
	defer func() { _ = response.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(response.Body); err != nil || !strings.Contains(b.String(), "unweaver_queries_total") {
		t.Errorf("metrics: %v %.200s", err, b.String())
	}
	r2 := must(http.Post(shared.HTTP+"/admin/v1/doctor", "application/json", strings.NewReader("{}")))(t)
	defer func() { _ = r2.Body.Close() }()
	assert.Equal(t, http.StatusUnauthorized, r2.StatusCode, "admin without a token")
}

func TestDoctorProbesEveryPart(t *testing.T) {
	checks, err := shared.Control.RunDoctor(t.Context(), spec(t, "doc", t.TempDir(), nil))
	require.True(t, err == nil && len(checks) >= 8, "%v %v", checks, err)
	for _, c := range checks {
		assert.True(t, c.OK, "%s: %s", c.Name, c.Detail)
	}
	bad := spec(t, "doc", "/nowhere", nil, "models.chat.provider=openai", "models.chat.model=m",
		"models.chat.base_url=http://127.0.0.1:1/v1", "models.chat.api_key_env=E2E_KEY")
	checks = must(shared.Control.RunDoctor(t.Context(), bad))(t)
	failed := map[string]bool{}
	for _, c := range checks {
		failed[c.Name] = !c.OK && c.Hint != ""
	}
	assert.True(t, failed["corpus"] && failed["chat model"] && !failed["artifacts"], "failed %v", failed)
}

func TestADataDirectoryInUseAndATakenPortAreNamed(t *testing.T) {
	dir := t.TempDir()
	st := must(start(dir))(t)
	if _, err := start(dir); !fault.Is(err, fault.DataDirInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory in use: %v", err)
	}
	port := must(strconv.Atoi(st.Temporal[strings.LastIndexByte(st.Temporal, ':')+1:]))(t)
	if _, err := stack.Start(t.Context(), stack.Options{
		DataDir: t.TempDir(), Config: config.Default(), TemporalPort: port, Log: slog.New(slog.DiscardHandler),
	}); !fault.Is(err, fault.PortTaken) || !strings.Contains(err.Error(), "--temporal-port") {
		t.Errorf("a taken port: %v", err)
	}
	assert.NoError(t, st.Stop(t.Context()))
}
