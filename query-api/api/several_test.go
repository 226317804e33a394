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
	"sync/atomic"
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

// lakes are of another index than the sample.
var lakes = []retrievetest.Document{
	{Key: "lakes/mjosa.txt", Title: "Mjøsa", Chunks: []retrievetest.Chunk{
		{Text: "Mjøsa is the largest lake of Norway. ", Entities: []string{"Mjøsa", "Norway"}},
	}},
	{Key: "lakes/vanern.txt", Title: "Vänern", Chunks: []retrievetest.Chunk{
		{Text: "Vänern is the largest lake of Sweden. ", Entities: []string{"Vänern", "Sweden"}},
	}},
}

// withIndexes publishes more indexes beside the sample: lakes, a copy of a part of the sample, and one that is damaged.
func withIndexes(f *fixture, config *api.Config) {
	config.Warm = []string{"sample"}
	for index, documents := range map[string][]retrievetest.Document{
		"lakes": lakes, "sample-copy": retrievetest.Sample()[:3],
	} {
		retrievetest.Publish(f.t, retrievetest.Build(f.t, f.stores, index, documents, retrievetest.Options{}), 1)
	}
	damaged := retrievetest.Options{Analyser: "en/1"}
	retrievetest.Publish(f.t, retrievetest.Build(f.t, f.stores, "damaged", lakes, damaged), 1)
}

// askSeveral asks indexes, and requires an answer.
func (f *fixture) askSeveral(body object, indexes ...string) (out answer.Response) {
	body["indexes"] = indexes
	f.asked("/v1/query", body, &out)
	return out
}

// placesOf are the passages of an answer, as index, place there and document.
func placesOf(out answer.Response) (places []string) {
	for _, chunk := range out.Chunks {
		places = append(places, fmt.Sprint(chunk.Index, " ", chunk.IndexRank, " ", chunk.Document))
	}
	return places
}

func TestOneOfSeveralIndexesIsAnsweredAsByItsOwnRoute(t *testing.T) {
	f := serve(t, withIndexes)
	for _, method := range methodsOfTest {
		body := func() object {
			return object{"query": "port coast Norway", "method": method, "explain": true, "answer": true}
		}
		want, got := f.ask(body()), f.askSeveral(body(), "sample")
		assert.True(t, got.Indexes[0].Index == "sample" && got.Indexes[0].Chunks == len(want.Chunks), "%+v", got.Indexes)
		got.Indexes = nil
		for i := range got.Chunks {
			assert.Equal(t, "sample", got.Chunks[i].Index)
			got.Chunks[i].Index, got.Chunks[i].Generation, got.Chunks[i].IndexRank = "", "", 0
		}
		for i := range got.Entities {
			assert.Equal(t, "sample", got.Entities[i].Index)
			got.Entities[i].Index = ""
		}
		for _, out := range []*answer.Response{&want, &got} {
			out.Timings, out.Usage = answer.Timings{}, answer.Usage{}
		}
		assert.Equal(t, want, got, "%s", method)
	}
}

func TestPassagesOfSeveralIndexesAreFusedByRankAndStandOnce(t *testing.T) {
	f := serve(t, withIndexes)
	body := func() object {
		return object{"query": "largest lake, Norway", "method": "bm25", "top_chunks": 6, "answer": true}
	}
	out := f.askSeveral(body(), "sample", "lakes", "sample-*")
	places := placesOf(out)
	require.Len(t, places, 6)
	assert.Equal(t, []string{"sample 1", "lakes 1"}, []string{places[0][:8], places[1][:7]},
		"equal ranks stand in the order of the indexes: %v", places)
	texts, last := map[string]bool{}, 2.0
	for i, chunk := range out.Chunks {
		assert.True(t, !texts[chunk.Text] && chunk.Rank == i+1 && chunk.Generation == "g1", "%+v", chunk)
		assert.LessOrEqual(t, chunk.Score, last)
		texts[chunk.Text], last = true, chunk.Score
	}
	assert.True(t, out.Index == "sample+lakes+sample-copy" && out.Generation == "" && out.Method == "bm25", "%+v", out)
	assert.Subset(t, idsOf(out), out.Answer.Citations[:1])
	for range 5 {
		assert.Equal(t, places, placesOf(f.askSeveral(body(), "sample", "lakes", "sample-*")), "another order")
	}
	other := placesOf(f.askSeveral(body(), "lakes", "sample"))
	assert.True(t, strings.HasPrefix(other[0], "lakes 1"), "%v", other)

	surer := f.askSeveral(object{"query": "largest lake of Norway", "method": "hybrid"}, "sample", "lakes")
	assert.Equal(t, "lakes 1 lakes/mjosa.txt", placesOf(surer)[0], "the index that is surer comes first")
	sure := *surer.Indexes[1].Confidence
	assert.True(t, sure > *surer.Indexes[0].Confidence && *surer.Confidence == sure, "%+v", surer.Indexes)
}

func TestWhatCannotBeAskedOfSeveralIndexesIsRefused(t *testing.T) {
	f := serve(t, withIndexes)
	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprint("i", i)
	}
	for name, c := range map[string]struct {
		indexes any
		more    object
		status  int
		param   string
		says    string
	}{
		"none":            {[]string{}, nil, 422, "indexes", "no index is named"},
		"left out":        {nil, nil, 422, "indexes", "no index is named"},
		"a text":          {"sample", nil, 422, "indexes", "want a list"},
		"too many":        {many, nil, 422, "indexes", "at most 16"},
		"no name":         {[]string{"../x"}, nil, 422, "indexes", "no name of an index"},
		"unknown":         {[]string{"sample", "nowhere"}, nil, 404, "", "no published index"},
		"nothing fits":    {[]string{"zz*"}, nil, 422, "indexes", "no index fits"},
		"a generation":    {[]string{"sample"}, object{"generation": "g1"}, 422, "generation", "of one index"},
		"an unknown one":  {[]string{"sample"}, object{"depth": 2}, 422, "depth", "unknown field"},
		"no question":     {[]string{"sample", "lakes"}, object{"query": " "}, 422, "query", "empty"},
		"another's param": {[]string{"s*"}, object{"params": object{"x": 1}}, 422, "params.x", "x"},
	} {
		body := object{"query": "Norway", "indexes": c.indexes}
		for field, value := range c.more {
			body[field] = value
		}
		status, out, _ := f.do("POST", "/v1/query", body)
		param, _ := out["param"].(string)
		assert.True(t, status == c.status && param == c.param && strings.Contains(fmt.Sprint(out["detail"]), c.says),
			"%s: %d %v", name, status, out)
	}
}

func TestAnIndexThatFailsIsNamedAndTheOthersAnswer(t *testing.T) {
	f := serve(t, withIndexes)
	out := f.askSeveral(object{"query": "largest lake", "answer": true}, "damaged", "lakes", "sample")
	assert.True(t, out.Indexes[0].Index == "damaged" && out.Indexes[0].Code == "format_unknown" &&
		slices.Contains(out.Degraded, "index:damaged") && out.Index == "lakes+sample", "%+v", out)
	assert.True(t, strings.HasPrefix(placesOf(out)[0], "lakes 1"), "%v", placesOf(out))
	f.refuse(503, "format_unknown", "POST", "/v1/query", object{"query": "lake", "indexes": []string{"dam*"}}) // all fail
}

func TestAnIndexThatIsStillBeingOpenedDoesNotHoldTheOthersUp(t *testing.T) {
	var release func()
	f := serve(t, func(f *fixture, config *api.Config) {
		config.Warm, config.Timeout = []string{"sample"}, 4*time.Second
		slow := retrievetest.Build(t, f.stores, "slow", lakes, retrievetest.Options{})
		retrievetest.Publish(t, slow, 1)
		release = f.store.stall(slow.Manifest.Segments.Splits[0].SHA256)
	})
	defer release()
	eventually(t, "ready", func() bool { status, _ := ready(f); return status == 200 })
	out := f.askSeveral(object{"query": "Fram"}, "slow", "sample")
	assert.True(t, out.Indexes[0].Code == "generation_busy" && out.Index == "sample" && out.Reason == nil, "%+v", out)
}

// A key asks what it may read: a pattern passes over the rest, and a name is as one that is not there.
func TestAKeyAsksOfSeveralIndexesThoseItMayRead(t *testing.T) {
	l := lock(t, withIndexes)
	key := l.key(access.Request{Scope: access.Query, Index: "sample*"})
	ask := func(indexes string) (int, string) {
		got := l.send("POST", "/v1/query", `{"query":"largest lake of Norway","indexes":[`+indexes+`]}`,
			append(bearer(key.Text), "Content-Type", "application/json")...)
		return got.Code, got.Body.String()
	}
	status, body := ask(`"*"`)
	assert.True(t, status == 200 && strings.Contains(body, `"index":"sample-copy"`) && !strings.Contains(body, "lakes"),
		"%d %s", status, body)
	status, body = ask(`"lake*"`)
	assert.True(t, status == 422 && strings.Contains(body, "no index fits lake*"), "%d %s", status, body)
	_, foreign := ask(`"sample","lakes"`)
	_, absent := ask(`"sample","nolak"`)
	without := func(body, name string) string {
		body, _, _ = strings.Cut(strings.ReplaceAll(body, name, "NAME"), `"request_id"`)
		return body
	}
	assert.Equal(t, without(absent, "nolak"), without(foreign, "lakes"))
	assert.Contains(t, foreign, "unknown_index")
}

// The lakes have other weights of words, and so another vector of the question.
func TestAQuestionToSeveralIndexesIsEmbeddedOnceByEachEmbedder(t *testing.T) {
	var calls atomic.Int64
	f := serve(t, func(f *fixture, config *api.Config) {
		withIndexes(f, config)
		retrievetest.Publish(t, retrievetest.Build(t, f.stores, "twin", retrievetest.Sample(), retrievetest.Options{}), 1)
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder {
			return counted{sellingEmbedder{inner}, &calls}
		}}
	})
	for n, indexes := range map[int64][]string{1: {"sample", "twin"}, 2: {"sample", "twin", "lakes"}} {
		calls.Store(0)
		out := f.askSeveral(object{"query": fmt.Sprint("Which ship of ", n, " is it?"), "method": "vector"}, indexes...)
		assert.True(t, calls.Load() == n && out.Usage.EmbeddingTokens == 5*n && out.Usage.SavedTokens == 5,
			"%v: %d calls, %+v", indexes, calls.Load(), out.Usage)
	}
}

// Passages of an index go to no chat model but its own.
func TestIndexesOfDifferentChatModelsAreQuoted(t *testing.T) {
	for name, other := range map[string]bool{"the same model": false, "another model": true} {
		f := serve(t, func(f *fixture, config *api.Config) {
			for index, documents := range map[string][]retrievetest.Document{"here": retrievetest.Sample(), "there": lakes} {
				built := retrievetest.Build(t, f.stores, index, documents, retrievetest.Options{Spec: func(spec *core.Spec) {
					spec.Chat = core.ChatModel{Provider: "openai", BaseURL: "http://one.example", Model: "m"}
					if other && index == "there" {
						spec.Chat.BaseURL = "http://two.example"
					}
				}})
				retrievetest.Publish(t, built, 1)
			}
			config.Models = models{chat: writing{pieces: []string{"Written [1]."}}}
		})
		out := f.askSeveral(object{"query": "largest lake of Norway", "answer": true}, "here", "there")
		quoted := out.Answer.Kind != "model" && strings.Contains(out.Answer.Reason, "different chat models") &&
			slices.Contains(out.Degraded, "chat_model")
		assert.Equal(t, other, quoted, "%s: %+v", name, out.Answer)
	}
}

func TestEveryDoorAsksSeveralIndexes(t *testing.T) {
	f := serve(t, withIndexes)
	want := f.askSeveral(object{"query": "largest lake of Sweden", "answer": true}, "sample", "lak*")
	_, message := f.completed(`{"model":"unweaver/sample+lak*","messages":[{"role":"user","content":"largest lake of Sweden"}]}`)
	assert.Equal(t, want.Answer.Text, message.Content)
	note := message.Annotations[0].URLCitation
	assert.Contains(t, note.URL, "/v1/indexes/lakes/chunks/")
	assert.NotEmpty(t, f.get(note.URL)["chunk"])
	status, out := f.chat(`{"model":"unweaver/zz*","messages":[{"role":"user","content":"lake"}]}`)
	assert.True(t, status == 422 && out["error"].(object)["param"] == "model", "%d %v", status, out)

	text, found, failed := call(t, f.agent(""), "search",
		object{"indexes": []string{"sample", "lak*"}, "query": "largest lake of Sweden"})
	first := found["passages"].([]any)[0].(object)
	assert.True(t, !failed && first["index"] == "lakes" && strings.Contains(text, "(index lakes, lakes/vanern.txt"), "%s", text)

	events := f.send("POST", "/v1/query", `{"indexes":["sample","lakes"],"query":"lake","answer":true,"stream":true}`,
		"Content-Type", "application/json").Body.String()
	assert.True(t, strings.Contains(events, "event: found") && strings.Contains(events, "event: response"), "%s", events)
}

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
	f.server.Handler().ServeHTTP(got, request)
	assert.True(t, got.Code != 200, "%d %s", got.Code, got.Body)
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
