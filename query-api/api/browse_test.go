package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

func names(list any) string {
	var out []string
	for _, entity := range list.([]any) {
		out = append(out, entity.(map[string]any)["name"].(string))
	}
	return strings.Join(out, ", ")
}

func TestEntitiesAreListedByNameAndPaged(t *testing.T) {
	f := serve(t, nil)
	assert.Equal(t, "Oslo", names(f.get("/v1/indexes/sample/entities?prefix=OS")["items"]), "by prefix")
	assert.Equal(t, "Oslo", names(f.get("/v1/indexes/sample/entities?contains=SLO")["items"]), "by a part")
	assert.Equal(t, "Norway", names(f.get("/v1/indexes/sample/entities?order=passages&limit=1")["items"]), "by passages")
	status, out, _ := f.do(http.MethodGet, "/v1/indexes/sample/entities?order=x", nil)
	assert.Equal(t, 422, status, "%v", out)
	if got := f.get("/v1/indexes/sample/entities?limit=2")["items"].([]any); len(got) != 2 {
		t.Errorf("limit 2 gives %d", len(got))
	}
	if got := f.get("/v1/indexes/sample/entities?prefix=zzz")["items"].([]any); len(got) != 0 {
		t.Errorf("no entity has that name: %v", got)
	}
	oslo := "/v1/indexes/sample/entities/" + retrievetest.ClassID("Oslo").String()
	if out := f.get(oslo); out["name"] != "Oslo" || out["mentions"] != 3.0 || out["chunk_total"] != 3.0 {
		t.Errorf("%v", out)
	}
	first := f.get(oslo + "/chunks?limit=2")
	second := f.get(oslo + "/chunks?limit=2&cursor=" + first["next_cursor"].(string))
	assert.True(t, len(first["items"].([]any)) == 2 && len(second["items"].([]any)) == 1 && second["next_cursor"] == "",
		"pages: %v, %v", first, second)
	if status, out, _ := f.do(http.MethodGet, oslo+"/chunks?cursor=x", nil); status != 422 {
		t.Errorf("a cursor that no list gave: %d %v", status, out)
	}
}

func TestAChunkTellsItsMentionsInCodePointsOfTheDocument(t *testing.T) {
	f := serve(t, nil)
	sample := retrievetest.Sample()
	out := f.get("/v1/indexes/sample/chunks/" + retrievetest.ChunkID(sample[1], 1).String())
	chunk := out["chunk"].(map[string]any)
	assert.True(t, chunk["document"] == "cities/oslo.txt" && chunk["ordinal"] == 1.0 && chunk["start"] == 31.0,
		"%v", chunk)
	assert.NotContains(t, chunk, "score", "of what no question found")
	assert.NotContains(t, chunk, "entities")
	mention := out["mentions"].([]any)[0].(map[string]any)
	span := mention["spans"].([]any)[0].([]any)
	from, to := int(span[0].(float64)), int(span[1].(float64))
	text := f.get("/v1/indexes/sample/documents/cities/oslo.txt/text")["text"].(string)
	if mention["name"] != "Oslo" || text[from:to] != "Oslo" {
		t.Errorf("%v points to %q", mention, text[from:to])
	}
}

// What is served of a document that cannot be read now says so, wherever it is shown; of others nothing is said.
func TestAStaleDocumentIsCalledSo(t *testing.T) {
	f := serve(t, nil)
	sample := retrievetest.Sample()
	for _, document := range sample {
		want := any(nil)
		if document.Stale {
			want = true
		}
		chunk := f.get("/v1/indexes/sample/chunks/" + retrievetest.ChunkID(document, 0).String())["chunk"]
		got := chunk.(map[string]any)["stale"]
		assert.True(t, got == want, "the chunk of %s: stale is %v", document.Key, got)
		got = f.get("/v1/indexes/sample/documents/" + document.Key + "/text")["stale"]
		assert.True(t, got == want, "the text of %s: stale is %v", document.Key, got)
	}
	found := false
	for _, entry := range f.ask(map[string]any{"query": "Which ship sailed farther north than Fram?"})["chunks"].([]any) {
		chunk := entry.(map[string]any)
		found = found || chunk["document"] == "ships/fram.txt" && chunk["stale"] == true
	}
	assert.True(t, found, "an answer does not say it")
}

func TestTextIsCutInCodePoints(t *testing.T) {
	f := serve(t, nil)
	path := "/v1/indexes/sample/documents/cities/troms%C3%B8.txt/text"
	whole := f.get(path)
	assert.True(t, whole["length"] == float64(len([]rune(whole["text"].(string)))), "%v", whole)
	part := f.get(path + "?start=4&end=6&version=" + whole["version"].(string))
	assert.True(t, part["text"] == "sø" && part["start"] == 4.0 && part["end"] == 6.0, "%v", part)
	if out := f.get(path + "?start=6&end=100000"); out["end"] != whole["length"] {
		t.Errorf("an end behind the end: %v", out)
	}
}

func TestAnswersCarryCitationsUsageAndTheirContext(t *testing.T) {
	f := serve(t, nil)
	out := f.ask(map[string]any{"query": "What is the capital of Norway?", "answer": true})
	answer := out["answer"].(map[string]any)
	cited := answer["citations"].([]any)
	require.True(t, len(cited) != 0 && answer["text"] != "", "%v", answer)
	for _, entry := range out["chunks"].([]any) {
		chunk := entry.(map[string]any)
		assert.True(t, chunk["id"] != cited[0] || chunk["in_context"] == true && chunk["document"] == "cities/oslo.txt",
			"cited: %v", chunk)
	}
	out = f.ask(map[string]any{"query": "What is the capital of Norway?", "max_context_tokens": 1})
	if out["answer"] != nil || out["chunks"].([]any)[0].(map[string]any)["in_context"] != false {
		t.Errorf("nothing fits one token: %v", out["chunks"].([]any)[0])
	}
	if usage := out["usage"].(map[string]any); usage["embed_cached"] != true {
		t.Errorf("the same question was embedded again: %v", usage)
	}
}

func TestFilterAndWithoutNarrowEveryMethod(t *testing.T) {
	f := serve(t, nil)
	for _, method := range []string{"hybrid", "unweaver", "ppr", "aligned", "vector", "bm25"} {
		for name, body := range map[string]map[string]any{
			"prefix":   {"filter": map[string]any{"document_prefix": "people/"}},
			"metadata": {"filter": map[string]any{"metadata": map[string]string{"kind": "person"}}},
			"times": {"filter": map[string]any{"modified": map[string]any{
				"from": "2026-01-04T00:00:00Z", "to": "2026-01-05T12:00:01Z",
			}}},
			"without": {"without": map[string]any{"documents": []string{
				"cities/bergen.txt", "cities/oslo.txt", "cities/tromsø.txt", "ships/fram.txt",
			}}},
		} {
			body["query"], body["method"], body["top_chunks"] = "Who composed in Norway?", method, 10
			chunks := f.ask(body)["chunks"].([]any)
			assert.Len(t, chunks, 3, "%s, %s", method, name)
			for _, entry := range chunks {
				key := entry.(map[string]any)["document"].(string)
				assert.True(t, strings.HasPrefix(key, "people/"), "%s, %s: %s came through", method, name, key)
			}
		}
		norway := retrievetest.ClassID("Norway").String()
		out := f.ask(map[string]any{
			"query": "Norway", "method": method, "without": map[string]any{"entities": []string{norway}},
		})
		assert.False(t, strings.Contains(names(out["entities"]), "Norway"),
			"%s: an entity came back that was to be left out", method)
	}
}

func TestAQuestionIsPaidOnce(t *testing.T) {
	var calls atomic.Int64
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return counted{inner, &calls} }}
	})
	f.ask(map[string]any{"query": "Fram"})
	f.ask(map[string]any{"query": "Fram", "method": "vector"})
	assert.Equal(t, int64(1), calls.Load())
}

// counted counts calls.
type counted struct {
	model.Embedder
	calls *atomic.Int64
}

func (c counted) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	c.calls.Add(1)
	return c.Embedder.Embed(ctx, texts)
}

// A filter of lists, of days and of nothing, over HTTP and by the tools.
func TestAFilterIsMetOrSaysThatItLeavesNothing(t *testing.T) {
	f := serve(t, nil)
	session := f.agent("")
	for name, c := range map[string]struct {
		filter map[string]any
		reason any
	}{
		"one of a list": {map[string]any{"metadata": map[string]any{"kind": []string{"ship", "city"}}}, nil},
		"of a list":     {map[string]any{"metadata": map[string]any{"lang": "no"}}, nil},
		"half a word":   {map[string]any{"metadata": map[string]any{"lang": "n"}}, "no_document"},
		"none of them":  {map[string]any{"metadata": map[string]any{"kind": []string{"moon"}}}, "no_document"},
		"no such field": {map[string]any{"metadata": map[string]any{"Kind": "city"}}, "unknown_field"},
		"no such key":   {map[string]any{"document_prefix": "zzz/"}, "no_document"},
		"a later day":   {map[string]any{"modified": map[string]any{"from": "2999-01-01"}}, "no_document"},
		"an early day":  {map[string]any{"modified": map[string]any{"to": "1970-01-01"}}, "no_document"},
		"until then":    {map[string]any{"modified": map[string]any{"to": "2999-01-01"}}, nil},
	} {
		for _, method := range []string{"hybrid", "bm25", "unweaver"} {
			out := f.ask(map[string]any{"query": "capital of Norway", "method": method, "filter": c.filter})
			assert.True(t, out["reason"] == c.reason && (len(out["chunks"].([]any)) == 0) == (c.reason != nil),
				"%s, %s: %v", name, method, out)
		}
		arguments := map[string]any{"query": "capital of Norway", "filter": c.filter, "params": map[string]any{"list": 50}}
		text, out, failed := call(t, session, "search", arguments)
		assert.True(t, !failed && out["reason"] == c.reason, "%s: %v %s", name, out, text)
	}
}

// Where the text alone is seen it says what is wrong with a filter, and which fields there are.
func TestAMisspeltFieldOfAFilterIsNamedInEveryText(t *testing.T) {
	f := serve(t, nil)
	session := f.agent("")
	asked := map[string]any{"query": "capital of Norway", "filter": map[string]any{"metadata": map[string]any{"knd": "city"}}}
	texts := map[string]string{}
	for _, tool := range []string{"search", "answer", "explain"} {
		texts[tool], _, _ = call(t, session, tool, asked)
	}
	within := map[string]any{"filter": asked["filter"]}
	for path, body := range map[string]map[string]any{
		"/v1/indexes/sample/query": {"query": "x", "answer": true, "filter": asked["filter"], "fields": []string{"answer.text"}},
		"/v1/responses":            {"model": "unweaver/sample", "input": "x", "unweaver": within},
		"/v1/chat/completions": {
			"model": "unweaver/sample", "messages": []any{map[string]any{"role": "user", "content": "x"}}, "unweaver": within,
		},
	} {
		raw, _ := json.Marshal(body)
		texts[path] = f.send(http.MethodPost, path, string(raw), "Content-Type", "application/json").Body.String()
	}
	for place, text := range texts {
		text = strings.ReplaceAll(text, `\"`, `"`)
		assert.Regexp(t, `No document has a field of metadata "knd"; known: .*kind`, text, place)
		assert.NotContains(t, text, "rephrase", place)
	}
}

func TestAResultHoldsTheFieldsThatWereChosen(t *testing.T) {
	f := serve(t, nil)
	out := f.ask(map[string]any{
		"query": "capital of Norway", "fields": []string{"generation", "chunks.document", "chunks.snippet", "reason"},
	})
	first := out["chunks"].([]any)[0].(map[string]any)
	explained := f.ask(map[string]any{"query": "capital", "fields": []string{"explain"}})
	assert.True(t, len(explained) == 1 && explained["explain"] != nil, "%v", explained)
	assert.True(t, len(out) == 3 && out["generation"] == "g1" && len(first) == 2 && first["document"] == "cities/oslo.txt",
		"%v", out)
}
