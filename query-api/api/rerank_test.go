package api_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
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
func idsOf(out answer.Response) (ids []string) {
	for _, chunk := range out.Chunks {
		ids = append(ids, chunk.ID)
	}
	return ids
}

var methodsOfTest = []string{"hybrid", "unweaver", "ppr", "aligned", "vector", "bm25"}

func TestTheBestChunksOfEveryMethodAreInTheOrderOfTheReranker(t *testing.T) {
	f, server := reranking(t, nil, nil)
	for _, method := range methodsOfTest {
		found := f.ask(object{
			"query": "port coast Norway", "method": method, "top_chunks": 8, "rerank": false, "explain": true,
		})
		require.True(t, found.Rerank == nil && len(server.Requests()) == 0, "%s: reranked unasked: %+v", method, found.Rerank)
		out := f.ask(object{"query": "port coast Norway", "method": method, "top_chunks": 2, "explain": true})
		sent := server.Requests()
		last, ranked := sent[len(sent)-1], 0
		for _, chunk := range found.Chunks {
			if !chunk.Filled {
				ranked++
			}
		}
		assert.True(t, out.Rerank.Applied && out.Rerank.Model == "words" && out.Rerank.Chunks == ranked &&
			len(last.Documents) == ranked, "%s: %+v, %d were ranked", method, out.Rerank, ranked)
		best, ids := rerank.Order(reranktest.Score(last.Query, last.Documents)), idsOf(found)
		for i, got := range out.Chunks {
			assert.True(t, got.ID == ids[best[i]] && got.FoundRank == best[i]+1 && got.Rank == i+1,
				"%s: chunk %d is %+v, want %s of place %d", method, i, got, ids[best[i]], best[i]+1)
		}
		assert.EqualValues(t, 7, out.Usage.RerankTokens, "%s", method)
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
			plain := f.ask(object{"query": "port coast Norway", "method": method, "rerank": false, "top_chunks": 3})
			logged.Reset()
			server.Saying(says)
			out := f.ask(object{"query": "port coast Norway", "method": method, "top_chunks": 3})
			assert.True(t, !out.Rerank.Applied && out.Rerank.Reason == reason, "%s, %s: %+v", method, says, out.Rerank)
			assert.Contains(t, out.Degraded, "rerank", "%s, %s", method, says)
			assert.Equal(t, idsOf(plain), idsOf(out), "%s, %s", method, says)
			text := logged.String()
			assert.True(t, strings.Contains(text, "not reranked") && strings.Contains(text, reason) &&
				!strings.Contains(text, "the-secret-key") && !strings.Contains(text, "port coast"), "%s: logged %s", method, text)
		}
	}
	metrics := f.send("GET", "/metrics", "").Body.String()
	assert.Contains(t, metrics, `unweaver_reranks_total{index="sample",outcome="bad_rerank"} 18`)
}

// Promises: 79.
func TestAnElectionOfMoreSeatsIsNotShownWhereItsChunksWereNotReranked(t *testing.T) {
	f, server := reranking(t, nil, nil)
	server.Saying("no")
	for _, rule := range []string{"pav", "cc", "seqcc", "phragmen", "mes"} {
		body := object{"query": "ship of Norway", "method": "unweaver", "rule": rule, "top_chunks": 3}
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
	out := f.ask(object{"query": "capital of Norway"})
	assert.True(t, out.Rerank.Reason == "timeout" && len(out.Chunks) != 0, "%+v", out)
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
	request := httptest.NewRequestWithContext(ctx, "POST", sampleQuery, strings.NewReader(`{"query":"capital of Norway"}`))
	request.Host = "localhost:8080"
	request.Header.Set("Content-Type", "application/json")
	got := httptest.NewRecorder()
	if f.server.Handler().ServeHTTP(got, request); got.Code == 200 {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

func TestAQueryThatWantsARerankerNeedsOne(t *testing.T) {
	f := serve(t, nil)
	f.refuse(422, "invalid_parameter", "POST", sampleQuery, object{"query": "Fram", "rerank": true})
	assert.Nil(t, f.ask(object{"query": "Fram", "rerank": false}).Rerank)
}

func TestOfALongChunkTheBeginningAloneIsSent(t *testing.T) {
	f, server := reranking(t, func(spec *core.Spec) { spec.Rerank.MaxInputTokens = 2 }, nil)
	f.ask(object{"query": "capital of Norway"})
	for _, sent := range server.Requests() {
		for _, document := range sent.Documents {
			_, text, _ := strings.Cut(document, "\n")
			assert.True(t, len(strings.Fields(text)) <= 2, "sent %q", document)
		}
	}
}

// withFacts publishes the sample with its facts, and what its configuration says more.
func withFacts(spec func(*core.Spec), edit func(*api.Config)) func(*fixture, *api.Config) {
	return func(f *fixture, config *api.Config) {
		f.built = retrievetest.Build(f.t, f.stores, "sample", retrievetest.Sample(),
			retrievetest.Options{Generation: "facts", Seq: 2, Facts: true, Spec: spec})
		retrievetest.Publish(f.t, f.built, 2)
		if edit != nil {
			edit(config)
		}
	}
}

// parsing is a chat model that finds triples in questions.
type parsing struct {
	says string
	err  error
	wait bool // until the request is over
	seen *[]model.Call
}

func (parsing) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }

func (p parsing) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if p.seen != nil {
		*p.seen = append(*p.seen, call)
	}
	if err := model.CheckSend(ctx); err != nil {
		return model.Reply{}, err
	}
	if p.wait {
		<-ctx.Done()
		return model.Reply{}, ctx.Err()
	}
	if call.Task == model.Answer {
		return model.Reply{Text: "Roald Amundsen [1]", Usage: model.Usage{Prompt: 100, Completion: 10}}, nil
	}
	return model.Reply{Text: p.says, Usage: model.Usage{Prompt: 20, Completion: 7}}, p.err
}

func priced(spec *core.Spec) {
	spec.Chat = core.ChatModel{Provider: "openai", Model: "m", Price: core.Price{Prompt: 1e6, Completion: 1e6}}
}

const southPole = "who was the first at the south pole" // no name that rules find

func TestAChatModelFindsTheTriplesOfAQuestionWhereItIsAskedTo(t *testing.T) {
	var seen []model.Call
	says := `{"triples":[{"sentence":0,"head":"?x","relation":"reached","tail":"South Pole"}]}`
	f := serve(t, withFacts(priced, func(c *api.Config) { c.Models = models{chat: parsing{says: says, seen: &seen}} }))
	body := object{"query": southPole, "method": "apr", "explain": true}
	plain := f.ask(body)
	require.True(t, len(seen) == 0 && plain.Explain.(object)["by"] == "rules", "a model was asked: %v", plain.Explain)
	body["params"] = object{"triples": "chat"}
	out := f.ask(body)
	reported := out.Explain.(object)
	asked := reported["asked"].([]any)
	assert.True(t, reported["by"] == "chat" && len(asked) == 1 && asked[0].(object)["head"] == "?x" &&
		slices.Equal(reported["names"].([]any), []any{"South Pole"}), "%v", reported)
	assert.True(t, out.Chunks[0].Document == "people/amundsen.txt" && len(out.Degraded) == 0, "%+v", out)
	assert.True(t, out.Usage.PromptTokens == 20 && out.Usage.CompletionTokens == 7, "%+v", out.Usage)
	call := seen[0]
	assert.True(t, call.Most != 0 && strings.Contains(call.System, "?x") && strings.Contains(call.User, southPole),
		"%+v", call)
	body["answer"] = true // both count
	usage := f.ask(body).Usage
	assert.True(t, usage.PromptTokens == 120 && usage.CompletionTokens == 17, "with an answer: %+v", usage)
}

func TestAModelThatFindsNoTriplesCostsNoAnswer(t *testing.T) {
	down := fault.ModelUnavailable.At("call chat model", "m")
	for name, c := range map[string]struct {
		chat     parsing
		degraded bool
	}{
		"it is down":            {parsing{err: down}, true},
		"it says something":     {parsing{says: "I cannot"}, true},
		"empty parts":           {parsing{says: `{"triples":[{"sentence":0,"head":" ","relation":"r","tail":"b"}]}`}, true},
		"none":                  {parsing{says: `{"triples":[]}`}, false},
		"placeholders alone":    {parsing{says: `{"triples":[["?x","reached","?y"]]}`}, false},
		"it takes all its time": {parsing{wait: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, withFacts(priced, func(config *api.Config) { config.Models = models{chat: c.chat} }))
			const question = "What did Roald Amundsen reach?"
			body := object{"query": question, "method": "apr", "explain": true}
			want := idsOf(f.ask(body))
			body["params"] = object{"triples": "chat"}
			out := f.ask(body)
			reported := out.Explain.(object)
			assert.Equal(t, c.degraded, slices.Contains(out.Degraded, "question_triples"), "degraded %v", out.Degraded)
			assert.True(t, reported["by"] == "rules" && slices.Equal(idsOf(out), want) &&
				slices.Equal(reported["names"].([]any), []any{"Roald Amundsen"}), "%v %v, want %v", reported, idsOf(out), want)
		})
	}
}

func TestTriplesOfQuestionsNeedTheModelThatIsAskedFor(t *testing.T) {
	f := serve(t, withFacts(nil, nil))
	assert.Contains(t, f.get("/v1/indexes/sample")["enriched"], "facts")
	for parser, setting := range map[string]string{"chat": "models.chat", "never": "rules"} {
		status, out, _ := f.do("POST", sampleQuery,
			object{"query": southPole, "method": "apr", "params": object{"triples": parser}})
		assert.True(t, status == 422 && strings.Contains(fmt.Sprint(out), setting), "%s: %d %v", parser, status, out)
	}
}

// Reading a question is a call to the chat model: who may have no more of these gets none, and what it cost is spent.
func TestReadingAQuestionIsPaidForByTheKey(t *testing.T) {
	says := `{"triples":[["?x","reached","South Pole"]]}`
	l := lock(t, withFacts(priced, func(c *api.Config) { c.Models = models{chat: parsing{says: says}} }))
	key := l.key(access.Request{Scope: access.Query, Index: "*", Limits: access.Limits{MoneyPerDay: 1}})
	const body = `{"query":"` + southPole + `","method":"apr","params":{"triples":"chat"}}`
	first := l.query(body, bearer(key.Text)...)
	second := l.query(body, bearer(key.Text)...)
	assert.True(t, first.Code == 200 && strings.Contains(second.Body.String(), "budget_spent"),
		"first %d %s, second %d %s", first.Code, first.Body, second.Code, second.Body)
}
