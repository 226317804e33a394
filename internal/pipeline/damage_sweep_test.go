//go:build !race

package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/served"
)

// embedded opens the stores of a data directory.
func embedded(ctx context.Context, dir string) (*app.Stores, error) {
	return app.Open(ctx, app.FillPaths(config.Stores{}, dir))
}

// dataDirectory builds two generations of passages in a data directory.
func dataDirectory(t *testing.T, dir string) {
	raw := must(os.ReadFile("../../testdata/musique/corpus.jsonl"))(t)
	lines := strings.SplitAfter(string(raw), "\n")
	s := newSite(t, map[string]string{"passages.jsonl": strings.Join(lines[:90], "")})
	stores := must(embedded(t.Context(), dir))(t)
	s.Artifacts, s.Coordination, s.Records = stores.Artifacts, stores.Coordination, stores.Records
	s.Vectors, s.StoreID = stores.Vectors, stores.StoreID
	s.night(t)
	s.buildFiles(t, map[string]string{"more.jsonl": strings.Join(lines[90:110], "")})
	require.NoError(t, stores.Close())
}

// longest is more than all questions to a directory take, also on a machine that has much else to do.
const longest = 10 * time.Minute

type builtinModels struct{}

func (builtinModels) Chat(core.Spec, string) (model.Chat, error) { return builtin.Chat{}, nil }

func (builtinModels) Finder(core.Spec) (model.Chat, error) { return nil, nil } //nolint:nilnil // none is configured

func (builtinModels) Ranker(core.Spec) (rerank.Ranker, error) {
	return nil, nil //nolint:nilnil // none is configured
}

func (builtinModels) Embedder(core.Spec, string, int) (model.Embedder, error) {
	return builtin.Embedder{}, nil
}

// answers opens a data directory and asks everything; an error is one of opening it.
func answers(t *testing.T, dir string, ask []request) ([]answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	stores, err := embedded(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stores.Close() }()
	cache, err := localfile.New(filepath.Join(dir, "cache"), 0)
	if err != nil {
		return nil, err
	}
	server := api.New(api.Config{Models: builtinModels{}, Config: served.Config{
		Artifacts: stores.Artifacts, Records: stores.Records, Readers: stores.Coordination, Runs: stores.Coordination,
		Vectors: stores.Vectors, Cache: cache, Log: slog.New(slog.DiscardHandler), Timeout: longest,
	}})
	defer func() { _ = server.Shutdown(ctx) }()
	handler := server.Handler()
	out := make([]answer, len(ask))
	for i, r := range ask {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(ctx, r.method, "http://localhost"+r.path, strings.NewReader(r.body))
		request.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(recorder, request)
		out[i] = answer{status: recorder.Code}
		if err := json.Unmarshal(recorder.Body.Bytes(), &out[i].body); err != nil {
			return nil, fmt.Errorf("%s %s: %d %w", r.method, r.path, recorder.Code, err)
		}
		delete(out[i].body, "timings_ms")
	}
	return out, nil
}

type request struct{ method, path, body string }

type answer struct {
	status int
	body   map[string]any
}

const docs = "/v1/indexes/docs"

// questions returns requests for all that can be asked of an index.
func questions(t *testing.T, dir string) []request {
	var out []request
	texts := []string{
		"Who wrote the novel that the film is based on?", "university founded in the nineteenth century",
		"river and city",
	}
	for _, text := range texts {
		for _, method := range []string{"hybrid", "unweaver", "vector", "bm25", "ppr", "aligned"} {
			body := map[string]any{"query": text, "method": method, "explain": method == "hybrid"}
			out = append(out, request{http.MethodPost, docs + "/query", asJSON(t, body)})
		}
	}
	body := map[string]any{"query": texts[0], "answer": true}
	out = append(out, request{http.MethodPost, docs + "/query", asJSON(t, body)})
	get := func(path string) { out = append(out, request{http.MethodGet, path, ""}) }
	get("/v1/indexes")
	get(docs + "/entities?limit=40")
	found := must(answers(t, dir, out))(t)
	first := func(body map[string]any, list string, n int) map[string]any {
		all, ok := body[list].([]any)
		require.True(t, ok && len(all) > n, "no %d %s in %v", n, list, body)
		return all[n].(map[string]any)
	}
	for _, n := range []int{2, 11, 30} {
		id := fmt.Sprint(first(found[len(found)-1].body, "items", n)["id"])
		get(docs + "/entities/" + id)
		get(docs + "/entities/" + id + "/chunks")
	}
	for _, n := range []int{0, 2} {
		chunk := first(found[0].body, "chunks", n)
		get(docs + "/chunks/" + fmt.Sprint(chunk["id"]))
		get(docs + "/documents/" + fmt.Sprint(chunk["document"]) + "/text")
	}
	return out
}

// A data directory is damaged at one place, opened, and asked. What it answers is what it answered before, or an error
// with a code; it may refuse to open. It is never wrong, and no process dies of it: -v names the damage.
func TestADamagedDataDirectoryIsNeverWrong(t *testing.T) {
	old := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	defer slog.SetDefault(old)
	root := t.TempDir()
	dir := filepath.Join(root, "whole")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	dataDirectory(t, dir)
	ask := questions(t, dir)
	before := must(answers(t, dir, ask))(t)
	for _, a := range before {
		require.Equal(t, http.StatusOK, a.status, "%v", a.body)
	}
	counts := map[string]int{}
	for number := range longtest.Count(8, 400) {
		copied := filepath.Join(root, fmt.Sprint("copy-", number))
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		t.Run(damageOne(t, copied, rand.New(rand.NewPCG(11, uint64(number)))), func(t *testing.T) {
			class, wrong := classified(t, copied, ask, before)
			counts[class]++
			assert.Empty(t, wrong, "it is wrong")
		})
		require.NoError(t, os.RemoveAll(copied))
	}
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-60s %5d", class, counts[class])
	}
}

// damageOne damages a random file of a directory and says what it did.
func damageOne(t *testing.T, dir string, random *rand.Rand) string {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return err
	})
	require.True(t, err == nil && len(files) >= 10, "%v %v", len(files), err)
	path := files[random.IntN(len(files))]
	raw := must(os.ReadFile(path))(t)
	at := random.IntN(len(raw))
	kinds := []string{"bit", "byte", "page", "cut", "junk", "swap"}
	kind := kinds[random.IntN(len(kinds))]
	switch kind {
	case "bit":
		raw[at] ^= 1 << random.IntN(8)
	case "byte":
		raw[at] = byte(random.IntN(256))
	case "page":
		at &^= 4095
		clear(raw[at:min(at+4096, len(raw))])
	case "cut":
		raw = raw[:at]
	case "junk":
		for i := range min(64, len(raw)-at) {
			raw[at+i] = byte(random.Uint32())
		}
	case "swap":
		raw = must(os.ReadFile(files[random.IntN(len(files))]))(t)
	}
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	name, _ := filepath.Rel(dir, path)
	return fmt.Sprintf("%s at %d of %s", kind, at, name)
}

// classified opens a damaged directory, asks, and says in a word what came of it, and what of that is wrong.
func classified(t *testing.T, dir string, ask []request, before []answer) (class, wrong string) {
	after, err := answers(t, dir, ask)
	if err != nil {
		if code := fault.CodeOf(err); code != fault.Internal && code != "" {
			return "refused to open: " + string(code), ""
		}
		return "wrong", "an error without a code: " + err.Error()
	}
	class = "same"
	for i, a := range after {
		switch code := fmt.Sprint(a.body["code"]); {
		case a.status == http.StatusInternalServerError,
			a.status != http.StatusOK && (code == "" || code == string(fault.Internal)):
			return "wrong", fmt.Sprintf("%s: %d %v", ask[i].path, a.status, a.body)
		case a.status != http.StatusOK:
			class = fmt.Sprintf("error %d %s", a.status, code)
		case asJSON(t, a.body) == asJSON(t, before[i].body):
		case fmt.Sprint(a.body["degraded"]) != "[]" && a.body["degraded"] != nil:
			class = "degraded, and says so"
		case strings.Contains(fmt.Sprint(a.body["items"]), "state:damaged"):
			class = "listed as damaged"
		default:
			return "wrong", fmt.Sprintf("%s %s: %v, it was %v", ask[i].path, ask[i].body, a.body, before[i].body)
		}
	}
	return class, ""
}
