package api_test

import (
	"fmt"
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
	"github.com/unweaver/unweaver/internal/model"
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
