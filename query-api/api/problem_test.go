package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/query-api/api"
)

// expected are the statuses of the contract; codes that are not here never reach a query and are internal errors.
var expected = map[fault.Code]int{
	fault.Usage: 400, fault.UnknownIndex: 404, fault.UnknownGen: 404, fault.NotFound: 404, fault.GenCollected: 410,
	fault.RunNotFound: 404,
	fault.TooLarge:    413, fault.InvalidParam: 422, fault.ModelRateLimited: 429, fault.EmbedderDown: 503,
	fault.StoreDown: 503, fault.StoreDenied: 503, fault.StoreFull: 503, fault.SegmentDamage: 503,
	fault.FormatUnknown: 503, fault.GenBusy: 503, fault.ModelUnavailable: 503, fault.ModelAuth: 502,
	fault.EndpointRefused: 503,
	fault.ModelQuota:      502, fault.ModelUnknown: 502, fault.ModelRejected: 502, fault.DimensionChanged: 503,
	fault.BadVector: 503, fault.BadEmbeddings: 503, fault.ModelRefused: 502, fault.ModelUnreadable: 502,
	fault.Unauthorized: 401, fault.Forbidden: 403, fault.NoSuchMethod: 405, fault.BodyTimeout: 408,
	fault.Timeout: 504, fault.Cancelled: 503, fault.MediaType: 415,
	fault.Misdirected: 421, fault.RateLimited: 429, fault.BudgetSpent: 429, fault.KeysUnknown: 503,
}

func TestEveryFaultHasItsStatusAndItsProblem(t *testing.T) {
	var logged bytes.Buffer
	f := serve(t, func(_ *fixture, config *api.Config) { config.Log = slog.New(slog.NewJSONHandler(&logged, nil)) })
	f.ask(map[string]any{"query": "Fram"})
	for _, code := range fault.Codes() {
		if code == fault.NotFound {
			continue // a vector store that finds no collection has lost it, which is another problem
		}
		cause := code.At("read class record", "secret-key").Because("why").Advise("do this")
		if code.Kind() == fault.Transient { // where no waiting helps, nothing asks for it
			cause.RetryAfter = 7 * time.Second
		}
		f.stores.Vectors.Fail(cause)
		logged.Reset()
		f.unchecked = expected[code] == http.StatusMethodNotAllowed // no route has a wrong method
		status, out, header := f.do(http.MethodPost, "/v1/indexes/sample/query",
			map[string]any{"query": "the secret question", "method": "unweaver"})
		want := expected[code]
		if want == 0 {
			want = http.StatusInternalServerError
		}
		if status != want || out["status"] != float64(want) || out["code"] != string(code) {
			t.Errorf("%s: %d %v, want %d", code, status, out, want)
			continue
		}
		if out["type"] != "https://unweaver.dev/problems/"+string(code) || out["hint"] != "do this" {
			t.Errorf("%s: %v", code, out)
		}
		if !strings.HasPrefix(header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%s: %s", code, header.Get("Content-Type"))
		}
		again := (want == 503 || want == 429) && code.Kind() == fault.Transient
		if wait := header.Get("Retry-After"); again != (wait == "7") || !again && wait != "" {
			t.Errorf("%s: Retry-After %q", code, header.Get("Retry-After"))
		}
		failed := strings.Contains(logged.String(), `"msg":"request failed"`)
		text := logged.String()
		assert.True(t, !strings.Contains(text, "secret") && (want >= 500) == failed, "%s is logged as %q", code, text)
	}
}

func TestATimeoutAndACancelledCallAreNoInternalErrors(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	for want, cause := range map[int]error{
		http.StatusGatewayTimeout:      fmt.Errorf("search: %w", context.DeadlineExceeded),
		http.StatusServiceUnavailable:  fmt.Errorf("search: %w", context.Canceled),
		http.StatusInternalServerError: errors.New("an unknown error"),
	} {
		f.stores.Vectors.Fail(cause)
		status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query",
			map[string]any{"query": "x Oslo", "method": "unweaver"})
		assert.True(t, status == want && (want == 500 || out["hint"] != nil && !strings.Contains(fmt.Sprint(out), "context ")),
			"%v: %d %v", cause, status, out)
	}
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	list := func(entries ...any) map[string]any { return map[string]any{"capacities": entries} }
	for name, c := range map[string]struct {
		body   any
		status int
		say    string
	}{
		"no JSON":             {"{", 400, "read body"},
		"two objects":         {`{"query":"x"}{}`, 400, "follows"},
		"a list":              {[]int{1}, 422, "array"},
		"an unknown field":    {map[string]any{"query": "x", "top_chunk": 1}, 422, "top_chunks"},
		"a body over 64 KiB":  {map[string]any{"query": strings.Repeat("x", 70_000)}, 413, "64 KiB"},
		"a blank question":    {map[string]any{"query": " \n"}, 422, "the question is empty"},
		"a long question":     {map[string]any{"query": strings.Repeat("ä", 8193)}, 422, "8193 characters"},
		"a method of no name": {map[string]any{"query": "x", "method": ""}, 422, "it is empty"},
		"an unknown method":   {map[string]any{"query": "x", "method": "magic"}, 422, "hybrid, unweaver"},
		"an unknown rule":     {map[string]any{"query": "x", "method": "unweaver", "rule": "dice"}, 422, "weighted, av"},
		"a rule elsewhere":    {map[string]any{"query": "x", "rule": "av"}, 422, "rules of method unweaver"},
		"no chunks":           {map[string]any{"query": "x", "top_chunks": 0}, 422, "top_chunks: want 1 to 100"},
		"no chunks by k":      {map[string]any{"query": "x", "top_k": 0}, 422, "top_k: want 1 to 100"},
		"no UTF-8":            {"{\"query\":\"\xff\"}", 400, "byte 10: invalid UTF-8"},
		"half a body":         {`{"query":"x`, 400, "in the middle of a JSON value (byte 11)"},
		"no time": {
			`{"query":"x","filter":{"modified":{"from":"2026-02-01","to":"2026-01-01"}}}`, 422, "from is not before to",
		},
		"themes without summaries": {
			query("gem", map[string]any{"themes": 3, "summaries": false}), 422, "summaries is false",
		},
		"too many chunks":     {map[string]any{"query": "x", "top_chunks": 101}, 422, "1 to 100"},
		"too many entities":   {map[string]any{"query": "x", "top_entities": 1001}, 422, "1 to 1000"},
		"no style of answers": {map[string]any{"query": "x", "answer_style": "long"}, 422, "answer_style"},
		"too large a context": {map[string]any{"query": "x", "max_context_tokens": 131073}, 422, "131072"},
		"no id": {
			map[string]any{"query": "x", "without": map[string]any{"entities": []string{"Oslo"}}}, 422, "without.entities",
		},
		"a fraction of a list":   {params("hybrid", "list", 1.5), 422, "whole number from 1 to 1000"},
		"a list that is a text":  {params("hybrid", "list", "9"), 422, "whole number"},
		"damping of one":         {params("ppr", "damping", 1), 422, "from 0.01 to 0.99"},
		"another's parameter":    {params("ppr", "list", 5), 422, "not a parameter of method ppr"},
		"a parameter of none":    {params("bm25", "list", 5), 422, "has no parameters"},
		"an unknown solver":      {params("aligned", "solver", "magic"), 422, "cls, utility"},
		"fill that is a number":  {params("unweaver", "fill", 1), 422, "true or false"},
		"capacities as a number": {params("aligned", "capacities", 3), 422, "list of"},
		"a capacity of nothing":  {query("aligned", list(map[string]any{"prefix": "a", "value": 0})), 422, "entry 0"},
		"a capacity for no one":  {query("aligned", list(map[string]any{"value": 1})), 422, "entry 0"},
		"a capacity for two": {
			query("aligned", list(map[string]any{"prefix": "a", "document": "b", "value": 1})), 422, "entry 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", c.body)
			detail, _ := out["detail"].(string)
			hint, _ := out["hint"].(string)
			if status != c.status || !strings.Contains(detail+" "+hint, c.say) || hint != "" && strings.Contains(detail, hint) ||
				(out["param"] != nil) != (status == 422 && name != "a list") {
				t.Errorf("%d %v", status, out)
			}
		})
	}
}

func query(method string, params map[string]any) map[string]any {
	return map[string]any{"query": "Oslo", "method": method, "params": params}
}

func params(method, name string, value any) map[string]any {
	return query(method, map[string]any{name: value})
}

func TestWhatIsNotThereIsSaidSo(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	unknown := strings.Repeat("0", 32)
	for path, code := range map[string]string{
		"/v1/indexes/nope/entities":                                    "unknown_index",
		"/v1/indexes/nope/generations":                                 "unknown_index",
		"/v1/indexes/No%20Such/generations":                            "unknown_index",
		"/v1/indexes/sample/entities?generation=g9":                    "unknown_generation",
		"/v1/indexes/sample/entities?generation=G+9":                   "unknown_generation",
		"/v1/indexes/sample/entities/" + unknown:                       "not_found",
		"/v1/indexes/sample/entities/Oslo":                             "not_found",
		"/v1/indexes/sample/entities/" + unknown + "/chunks":           "not_found",
		"/v1/indexes/sample/chunks/" + unknown:                         "not_found",
		"/v1/indexes/sample/documents/cities/paris.txt/text":           "not_found",
		"/v1/indexes/sample/documents/cities/paris.txt":                "not_found",
		"/v1/indexes/sample/documents/cities/oslo.txt?start=1":         "invalid_parameter",
		"/v1/indexes/sample/documents?cursor=x":                        "invalid_parameter",
		"/v1/indexes/sample/documents?prefix=%ff":                      "invalid_parameter",
		"/v1/indexes/sample/documents?cursor=g9.5":                     "invalid_parameter",
		cursor("/v1/indexes/sample/documents?generation=g2", "g1", 0):  "invalid_parameter",
		cursor("/v1/indexes/sample/documents", "g9", 5):                "generation_collected",
		cursor("/v1/indexes/sample/entities", "g9", 5):                 "generation_collected",
		"/v1/indexes/nope":                                             "unknown_index",
		"/v1/indexes/nope/runs":                                        "unknown_index",
		"/v1/indexes/sample/runs/g9":                                   "unknown_run",
		"/v1/indexes/sample/runs/G%209":                                "unknown_run",
		cursor("/v1/indexes/sample/runs", "g9", 0):                     "generation_collected",
		"/v1/indexes/sample/runs?cursor=G%209":                         "invalid_parameter",
		"/v1/indexes/No%20Such":                                        "unknown_index",
		"/v1/indexes/nope/generations/g1":                              "unknown_index",
		"/v1/indexes/sample/generations/g9":                            "unknown_generation",
		"/v1/indexes/sample/generations/G%209":                         "unknown_generation",
		"/v1/indexes/sample/documents/cities/oslo.txt/text?version=1":  "not_found",
		"/v1/indexes/sample/entities?limit=0":                          "invalid_parameter",
		"/v1/indexes/sample/entities?limit=many":                       "invalid_parameter",
		"/v1/indexes/sample/documents/cities/oslo.txt/text?start=-1":   "invalid_parameter",
		"/v1/indexes/sample/documents/cities/oslo.txt/text?start=9999": "invalid_parameter",
	} {
		status, out, _ := f.do(http.MethodGet, path, nil)
		if out["code"] != "invalid_parameter" {
			assert.Regexp(t, "/v1/|current|generation|start the list again", out["hint"], path)
			assert.NotContains(t, out["hint"], "unweaver ", "%s: a command, for a caller of HTTP", path)
		}
		assert.True(t, out["code"] == code && status == expected[fault.Code(code)],
			"%s: %d %v, want %s", path, status, out, code)
	}
}

// failing is an embedder that a decorator hides: it fails like a server that is down.
type failing struct{ model.Embedder }

func (failing) Embed(context.Context, []string) ([][]float32, model.Usage, error) {
	return nil, model.Usage{}, fault.ModelUnavailable.At("embed", "server").Because("connection refused")
}

func TestHybridGoesOnWithoutItsEmbedderAndOthersSayThatItIsDown(t *testing.T) {
	down := func(inner model.Embedder) model.Embedder { return failing{inner} }
	f := serve(t, func(_ *fixture, config *api.Config) { config.Models = models{embedder: down} })
	out := f.ask(map[string]any{"query": "capital of Norway"})
	if degraded := out["degraded"].([]any); !slices.Contains(degraded, any("dense")) || len(out["chunks"].([]any)) == 0 {
		t.Errorf("%v", out)
	}
	for _, method := range []string{"unweaver", "ppr", "aligned", "vector"} {
		status, out, header := f.do(http.MethodPost, "/v1/indexes/sample/query",
			map[string]any{"query": "capital of Norway", "method": method})
		assert.True(t, status == 503 && out["code"] == "embedder_unavailable" && header.Get("Retry-After") != "",
			"%s: %d %v", method, status, out)
	}
	if out := f.ask(map[string]any{"query": "capital", "method": "bm25"}); len(out["chunks"].([]any)) == 0 {
		t.Error("bm25 needs no embedder")
	}
}

// wrapped is a decorator that knows nothing of the capabilities of what it wraps.
type wrapped struct{ model.Embedder }

func (w wrapped) Unwrap() model.Embedder { return w.Embedder }

// bound sees whether calls end with their caller.
type bound struct {
	model.Embedder
	bound *bool
}

func (b bound) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	*b.bound = model.IsCallerBound(ctx)
	return b.Embedder.Embed(ctx, texts)
}

func TestCapabilitiesOfAnEmbedderSurviveADecorator(t *testing.T) {
	plain := serve(t, nil)
	question := map[string]any{"query": "Where is the opera house?", "method": "vector", "top_chunks": 3}
	want := plain.ask(question)["chunks"].([]any)[0].(map[string]any)["similarity"]
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return wrapped{inner} }}
	})
	if got := f.ask(question)["chunks"].([]any)[0].(map[string]any)["similarity"]; got != want {
		t.Errorf("similarity %v, without the decorator %v: the words are not weighed", got, want)
	}
	var callerBound bool
	f = serve(t, func(_ *fixture, config *api.Config) {
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return bound{inner, &callerBound} }}
	})
	if f.ask(question); !callerBound {
		t.Error("a question's embedding goes on after its caller has gone")
	}
}
