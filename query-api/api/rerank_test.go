package api_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/testkit/reranktest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// reranking publishes the sample with a reranker in its configuration, which is a test server.
func reranking(t *testing.T, edit func(*core.Spec), config func(*api.Config)) (*fixture, *reranktest.Server) {
	t.Helper()
	server := reranktest.NewServer(t, reranktest.Documents)
	f := serve(t, func(f *fixture, c *api.Config) {
		f.built = retrievetest.Build(t, f.stores, "sample", retrievetest.Sample(), retrievetest.Options{
			Generation: "reranked", Seq: 2, Spec: func(spec *core.Spec) {
				spec.Rerank = core.RerankModel{
					Provider: "http", BaseURL: server.URL, Model: "words", Top: 8, Timeout: core.Duration(time.Minute),
				}
				if edit != nil {
					edit(spec)
				}
			},
		})
		retrievetest.Publish(t, f.built, 2)
		client := openai.NewReranker(openai.Config{BaseURL: server.URL, APIKey: "the-secret-key", Model: "words"})
		c.Models = models{ranker: limits.Ranker{Ranker: client, Limits: limits.Limits{Gate: limits.NewGate()}}}
		if config != nil {
			config(c)
		}
	})
	return f, server
}

// idsOf returns the ids of the chunks of an answer, in order.
func idsOf(out map[string]any) []string {
	var ids []string
	for _, chunk := range out["chunks"].([]any) {
		ids = append(ids, chunk.(map[string]any)["id"].(string))
	}
	return ids
}

var methodsOfTest = []string{"hybrid", "unweaver", "ppr", "aligned", "vector", "bm25"}

func TestTheBestChunksOfEveryMethodAreInTheOrderOfTheReranker(t *testing.T) {
	f, server := reranking(t, nil, nil)
	for _, method := range methodsOfTest {
		found := f.ask(map[string]any{
			"query": "port coast Norway", "method": method, "top_chunks": 8, "rerank": false, "explain": true,
		})
		require.True(t, found["rerank"] == nil && len(server.Requests()) == 0,
			"%s: reranked though the request did not ask for it: %v", method, found["rerank"])
		out := f.ask(map[string]any{"query": "port coast Norway", "method": method, "top_chunks": 2, "explain": true})
		sent := server.Requests()
		reported := out["rerank"].(map[string]any)
		ranked := 0
		for _, chunk := range found["chunks"].([]any) {
			if chunk.(map[string]any)["filled"] == false {
				ranked++
			}
		}
		last := sent[len(sent)-1]
		if reported["applied"] != true || reported["model"] != "words" || reported["chunks"] != float64(ranked) ||
			len(last.Documents) != ranked {
			t.Errorf("%s: %v, %d documents, %d were ranked", method, reported, len(last.Documents), ranked)
		}
		best := rerank.Order(reranktest.Score(last.Query, last.Documents))
		ids := idsOf(found)
		for i, chunk := range out["chunks"].([]any) {
			got := chunk.(map[string]any)
			if got["id"] != ids[best[i]] || got["found_rank"] != float64(best[i]+1) || got["rank"] != float64(i+1) {
				t.Errorf("%s: chunk %d is %v, want %s of place %d", method, i, got, ids[best[i]], best[i]+1)
			}
		}
		usage := out["usage"].(map[string]any)
		assert.True(t, usage["rerank_tokens"] == float64(7), "%s: %v", method, usage)
		server.Forget()
	}
}

// Promises: 79.
func TestAWrongRerankerLeavesChunksAsTheyWereFoundAndIsNamed(t *testing.T) {
	var logged bytes.Buffer
	f, server := reranking(t, nil, func(c *api.Config) { c.Log = slog.New(slog.NewJSONHandler(&logged, nil)) })
	for says, reason := range map[string]string{
		`{"results":[{"index":0,"relevance_score":1}]}`:                                         "bad_rerank",
		`{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}`:         "bad_rerank",
		`{"results":[{"index":77,"relevance_score":1}]}`:                                        "bad_rerank",
		`{"results":[{"index":0,"relevance_score":NaN}]}`:                                       "model_unreadable",
		`{"results":[{"index":0,"relevance_score":null},{"index":1,"relevance_score":"high"}]}`: "model_unreadable",
		`<html>`: "model_unreadable",
	} {
		for _, method := range methodsOfTest {
			plain := f.ask(map[string]any{"query": "port coast Norway", "method": method, "rerank": false, "top_chunks": 3})
			logged.Reset()
			server.Saying(says)
			out := f.ask(map[string]any{"query": "port coast Norway", "method": method, "top_chunks": 3})
			reported := out["rerank"].(map[string]any)
			assert.True(t, reported["applied"] == false && reported["reason"] == reason,
				"%s, %s: %v, want %s", method, says, reported, reason)
			if !slices.Contains(out["degraded"].([]any), any("rerank")) || !slices.Equal(idsOf(out), idsOf(plain)) {
				t.Errorf("%s, %s: %v %v, want %v", method, says, out["degraded"], idsOf(out), idsOf(plain))
			}
			if text := logged.String(); !strings.Contains(text, "not reranked") || !strings.Contains(text, reason) ||
				strings.Contains(text, "the-secret-key") || strings.Contains(text, "port coast") {
				t.Errorf("%s: logged %s", method, text)
			}
		}
	}
	metrics := f.send(http.MethodGet, "/metrics", "").Body.String()
	assert.Contains(t, metrics, `unweaver_reranks_total{index="sample",outcome="bad_rerank"} 18`)
}

// Promises: 79.
func TestAnElectionOfMoreSeatsIsNotShownWhereItsChunksWereNotReranked(t *testing.T) {
	f, server := reranking(t, nil, nil)
	server.Saying("no")
	for _, rule := range []string{"pav", "cc", "seqcc", "phragmen", "mes"} {
		body := map[string]any{"query": "ship of Norway", "method": "unweaver", "rule": rule, "top_chunks": 3}
		got := idsOf(f.ask(body))
		body["rerank"] = false
		want := idsOf(f.ask(body))
		assert.True(t, slices.Equal(got, want), "%s: %v, want %v", rule, got, want)
	}
}

func TestASlowRerankerCostsItsTimeAlone(t *testing.T) {
	short := func(spec *core.Spec) { spec.Rerank.Timeout = core.Duration(50 * time.Millisecond) }
	f, server := reranking(t, short, nil)
	server.Answering(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	out := f.ask(map[string]any{"query": "capital of Norway"})
	reported := out["rerank"].(map[string]any)
	assert.True(t, reported["reason"] == "timeout" && len(out["chunks"].([]any)) != 0, "%v", out)
}

// gone is a reranker whose caller goes away.
type gone struct{ cancel context.CancelFunc }

func (gone) Info() model.Info { return model.Info{} }

func (g gone) Rerank(ctx context.Context, _ string, _ []string) ([]float64, model.Usage, error) {
	g.cancel()
	return nil, model.Usage{}, ctx.Err()
}

func TestACallerThatGoesWhileChunksAreRerankedGetsNoAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f, _ := reranking(t, nil, func(c *api.Config) { c.Models = models{ranker: gone{cancel}} })
	body := strings.NewReader(`{"query":"capital of Norway"}`)
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/indexes/sample/query", body)
	request.Host = "localhost:8080"
	request.Header.Set("Content-Type", "application/json")
	got := httptest.NewRecorder()
	if f.server.Handler().ServeHTTP(got, request); got.Code == http.StatusOK {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

func TestAQueryThatWantsARerankerNeedsOne(t *testing.T) {
	f := serve(t, nil)
	status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", map[string]any{"query": "Fram", "rerank": true})
	assert.True(t, status == http.StatusUnprocessableEntity && out["code"] == "invalid_parameter", "%d %v", status, out)
	if out := f.ask(map[string]any{"query": "Fram", "rerank": false}); out["rerank"] != nil {
		t.Errorf("%v", out["rerank"])
	}
}

func TestOfALongChunkTheBeginningAloneIsSent(t *testing.T) {
	f, server := reranking(t, func(spec *core.Spec) { spec.Rerank.MaxInputTokens = 2 }, nil)
	f.ask(map[string]any{"query": "capital of Norway"})
	for _, sent := range server.Requests() {
		for _, document := range sent.Documents {
			_, text, _ := strings.Cut(document, "\n")
			assert.True(t, len(strings.Fields(text)) <= 2, "sent %q", document)
		}
	}
}
