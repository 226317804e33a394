package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	fault.RunNotFound: 404, fault.TooLarge: 413, fault.InvalidParam: 422, fault.ModelRateLimited: 429,
	fault.EmbedderDown: 503, fault.StoreDown: 503, fault.StoreDenied: 503, fault.StoreFull: 503,
	fault.SegmentDamage: 503, fault.FormatUnknown: 503, fault.GenBusy: 503, fault.ModelUnavailable: 503,
	fault.ModelAuth: 502, fault.EndpointRefused: 503, fault.ModelQuota: 502, fault.ModelUnknown: 502,
	fault.ModelRejected: 502, fault.DimensionChanged: 503, fault.BadVector: 503, fault.BadEmbeddings: 503,
	fault.ModelRefused: 502, fault.ModelUnreadable: 502, fault.Unauthorized: 401, fault.Forbidden: 403,
	fault.NoSuchMethod: 405, fault.BodyTimeout: 408, fault.Timeout: 504, fault.Cancelled: 503, fault.MediaType: 415,
	fault.Misdirected: 421, fault.RateLimited: 429, fault.BudgetSpent: 429, fault.KeysUnknown: 503,
	fault.QuotaUnknown: 503,
}

func TestEveryFaultHasItsStatusAndItsProblem(t *testing.T) {
	var logged bytes.Buffer
	f := serve(t, func(_ *fixture, config *api.Config) { config.Log = slog.New(slog.NewJSONHandler(&logged, nil)) })
	f.ask(object{"query": "Fram"})
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
		f.unchecked = expected[code] == 405 // no route has a wrong method
		status, out, header := f.do("POST", sampleQuery, object{"query": "the secret question", "method": "unweaver"})
		want := expected[code]
		if want == 0 {
			want = 500
		}
		if status != want || out["status"] != float64(want) || out["code"] != string(code) {
			t.Errorf("%s: %d %v, want %d", code, status, out, want)
			continue
		}
		assert.True(t, out["type"] == "https://unweaver.dev/problems/"+string(code) && out["hint"] == "do this", "%s: %v",
			code, out)
		assert.True(t, strings.HasPrefix(header.Get("Content-Type"), "application/problem+json"), "%s: %s", code,
			header.Get("Content-Type"))
		again := (want == 503 || want == 429) && code.Kind() == fault.Transient
		wait := header.Get("Retry-After")
		assert.True(t, again == (wait == "7") && (again || wait == ""), "%s: Retry-After %q", code, header.Get("Retry-After"))
		failed := strings.Contains(logged.String(), `"msg":"request failed"`)
		text := logged.String()
		assert.True(t, !strings.Contains(text, "secret") && (want >= 500) == failed, "%s is logged as %q", code, text)
	}
}

func TestATimeoutAndACancelledCallAreNoInternalErrors(t *testing.T) {
	f := serve(t, nil)
	f.ask(object{"query": "Fram"})
	for want, cause := range map[int]error{
		504: fmt.Errorf("search: %w", context.DeadlineExceeded),
		503: fmt.Errorf("search: %w", context.Canceled),
		500: errors.New("an unknown error"),
	} {
		f.stores.Vectors.Fail(cause)
		status, out, _ := f.do("POST", sampleQuery, object{"query": "x Oslo", "method": "unweaver"})
		assert.True(t, status == want && (want == 500 || out["hint"] != nil && !strings.Contains(fmt.Sprint(out), "context ")),
			"%v: %d %v", cause, status, out)
	}
}

func TestWhatCannotBeMeantIsRefused(t *testing.T) {
	f := serve(t, nil)
	f.ask(object{"query": "Fram"})
	list := func(entries ...any) object { return object{"capacities": entries} }
	within := func(part string, value any) object { return object{"query": "x", "filter": object{part: value}} }
	for name, c := range map[string]struct {
		body   any
		status int
		say    string
	}{
		"no JSON":             {"{", 400, "read body"},
		"two objects":         {`{"query":"x"}{}`, 400, "follows"},
		"a list":              {[]int{1}, 422, "array"},
		"an unknown field":    {object{"query": "x", "top_chunk": 1}, 422, "top_chunks"},
		"a body over 64 KiB":  {object{"query": strings.Repeat("x", 70_000)}, 413, "64 KiB"},
		"a blank question":    {object{"query": " \n"}, 422, "the question is empty"},
		"a long question":     {object{"query": strings.Repeat("ä", 8193)}, 422, "8193 characters"},
		"a method of no name": {object{"query": "x", "method": ""}, 422, "it is empty"},
		"an unknown method":   {object{"query": "x", "method": "magic"}, 422, "hybrid, unweaver"},
		"an unknown rule":     {object{"query": "x", "method": "unweaver", "rule": "dice"}, 422, "weighted, av"},
		"a rule elsewhere":    {object{"query": "x", "rule": "av"}, 422, "rules of method unweaver"},
		"no chunks":           {object{"query": "x", "top_chunks": 0}, 422, "top_chunks: want 1 to 100"},
		"no chunks by k":      {object{"query": "x", "top_k": 0}, 422, "top_k: want 1 to 100"},
		"no UTF-8":            {"{\"query\":\"\xff\"}", 400, "byte 10: invalid UTF-8"},
		"half a body":         {`{"query":"x`, 400, "in the middle of a JSON value (byte 11)"},
		"no time": {
			`{"query":"x","filter":{"modified":{"from":"2026-02-01","to":"2026-01-01"}}}`, 422, "from is not before to",
		},
		"no operator": {
			within("metadata", object{"year": object{"gtee": 1}}), 422, "exists, gt, gte, in, lt, lte, not",
		},
		"no condition": {within("metadata", object{"year": object{}}), 422, "filter.metadata.year: an operator is missing"},
		"no date":      {within("metadata", object{"day": object{"lt": "2026-02-30"}}), 422, "neither a number nor a date"},
		"no yes or no": {within("metadata", object{"day": object{"exists": 1}}), 422, "want true or false"},
		"not nothing":  {within("metadata", object{"day": object{"not": []string{}}}), 422, "not: the list is empty"},
		"two kinds":    {within("metadata", object{"day": object{"gt": 1, "lt": "2026-01-01"}}), 422, "the other a date"},
		"an empty range": {
			within("metadata", object{"day": object{"gt": 2, "lt": "2"}}), 422, "no value is within these bounds",
		},
		"or nothing":  {within("or", []any{}), 422, "filter.or: the list is empty"},
		"or anything": {within("or", []any{object{}}), 422, "filter.or.0: the filter has no condition"},
		"a deep or": {
			within("or", []any{object{"or": []any{object{"or": []any{object{"or": []any{object{}}}}}}}}), 422, "more than 3",
		},
		"many conditions": {within("or", slices.Repeat([]any{object{"document_prefix": "a"}}, 100)), 422, "100 conditions"},
		"many values": {
			within("metadata", object{"a": slices.Repeat([]string{"b"}, 10_001)}), 422, "more than 10000 values",
		},
		"themes without summaries": {query("gem", object{"themes": 3, "summaries": false}), 422, "summaries is false"},
		"too many chunks":          {object{"query": "x", "top_chunks": 101}, 422, "1 to 100"},
		"too many entities":        {object{"query": "x", "top_entities": 1001}, 422, "1 to 1000"},
		"no style of answers":      {object{"query": "x", "answer_style": "long"}, 422, "answer_style"},
		"too large a context":      {object{"query": "x", "max_context_tokens": 131073}, 422, "131072"},
		"no id": {
			object{"query": "x", "without": object{"entities": []string{"Oslo"}}}, 422, "without.entities",
		},
		"a fraction of a list":   {params("hybrid", "list", 1.5), 422, "whole number from 1 to 1000"},
		"a list that is a text":  {params("hybrid", "list", "9"), 422, "whole number"},
		"damping of one":         {params("ppr", "damping", 1), 422, "from 0.01 to 0.99"},
		"another's parameter":    {params("ppr", "list", 5), 422, "not a parameter of method ppr"},
		"a parameter of none":    {params("bm25", "list", 5), 422, "has no parameters"},
		"an unknown solver":      {params("aligned", "solver", "magic"), 422, "cls, utility"},
		"fill that is a number":  {params("unweaver", "fill", 1), 422, "true or false"},
		"capacities as a number": {params("aligned", "capacities", 3), 422, "list of"},
		"a capacity of nothing":  {query("aligned", list(object{"prefix": "a", "value": 0})), 422, "entry 0"},
		"a capacity for no one":  {query("aligned", list(object{"value": 1})), 422, "entry 0"},
		"a capacity for two": {
			query("aligned", list(object{"prefix": "a", "document": "b", "value": 1})), 422, "entry 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, _ := f.do("POST", sampleQuery, c.body)
			detail, _ := out["detail"].(string)
			hint, _ := out["hint"].(string)
			assert.True(t, status == c.status && strings.Contains(detail+" "+hint, c.say) &&
				(hint == "" || !strings.Contains(detail, hint)) && (out["param"] != nil) == (status == 422 && name != "a list"),
				"%d %v", status, out)
		})
	}
}

func query(method string, params object) object {
	return object{"query": "Oslo", "method": method, "params": params}
}

func params(method, name string, value any) object { return query(method, object{name: value}) }

func TestWhatIsNotThereIsSaidSo(t *testing.T) {
	f := serve(t, nil)
	f.ask(object{"query": "Fram"})
	unknown := strings.Repeat("0", 32)
	for code, paths := range map[string][]string{ // below /v1/indexes/
		"unknown_index": {
			"nope/entities", "nope/generations", "No%20Such/generations", "nope", "nope/runs", "No%20Such",
			"nope/generations/g1",
		},
		"unknown_generation": {
			"sample/entities?generation=g9", "sample/entities?generation=G+9", "sample/generations/g9",
			"sample/generations/G%209",
		},
		"not_found": {
			"sample/entities/" + unknown, "sample/entities/Oslo", "sample/entities/" + unknown + "/chunks",
			"sample/chunks/" + unknown, "sample/documents/cities/paris.txt/text", "sample/documents/cities/paris.txt",
			"sample/documents/cities/oslo.txt/text?version=1",
		},
		"invalid_parameter": {
			"sample/documents/cities/oslo.txt?start=1", "sample/documents?cursor=x", "sample/documents?prefix=%ff",
			"sample/documents?cursor=g9.5", cursor("/v1/indexes/sample/documents?generation=g2", "g1", 0),
			"sample/runs?cursor=G%209", "sample/entities?limit=0", "sample/entities?limit=many",
			"sample/documents/cities/oslo.txt/text?start=-1", "sample/documents/cities/oslo.txt/text?start=9999",
		},
		"generation_collected": {
			cursor("/v1/indexes/sample/documents", "g9", 5), cursor("/v1/indexes/sample/entities", "g9", 5),
			cursor("/v1/indexes/sample/runs", "g9", 0),
		},
		"unknown_run": {"sample/runs/g9", "sample/runs/G%209"},
	} {
		for _, path := range paths {
			status, out, _ := f.do("GET", "/v1/indexes/"+strings.TrimPrefix(path, "/v1/indexes/"), nil)
			if out["code"] != "invalid_parameter" {
				assert.Regexp(t, "/v1/|current|generation|start the list again", out["hint"], path)
				assert.NotContains(t, out["hint"], "unweaver ", "%s: a command, for a caller of HTTP", path)
			}
			assert.True(t, out["code"] == code && status == expected[fault.Code(code)],
				"%s: %d %v, want %s", path, status, out, code)
		}
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
	out := f.ask(object{"query": "capital of Norway"})
	assert.True(t, slices.Contains(out.Degraded, "dense") && len(out.Chunks) != 0, "%+v", out)
	for _, method := range []string{"unweaver", "ppr", "aligned", "vector"} {
		status, out, header := f.do("POST", sampleQuery, object{"query": "capital of Norway", "method": method})
		assert.True(t, status == 503 && out["code"] == "embedder_unavailable" && header.Get("Retry-After") != "",
			"%s: %d %v", method, status, out)
	}
	assert.NotEmpty(t, f.ask(object{"query": "capital", "method": "bm25"}).Chunks, "bm25 needs no embedder")
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
	question := object{"query": "Where is the opera house?", "method": "vector", "top_chunks": 3}
	want := plain.ask(question).Chunks[0].Similarity
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return wrapped{inner} }}
	})
	assert.Equal(t, want, f.ask(question).Chunks[0].Similarity, "similarity")
	var callerBound bool
	f = serve(t, func(_ *fixture, config *api.Config) {
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return bound{inner, &callerBound} }}
	})
	if f.ask(question); !callerBound {
		t.Error("a question's embedding goes on after its caller has gone")
	}
}

// bodies that are worth changing.
var bodies = []string{`{"query":"capital of Norway"}`, `{"query":"Fram","method":"hybrid","params":{"list":20},"top_chunks":3,"explain":true}`, `{"query":"Fram","method":"unweaver","rule":"seqpav","top_entities":10,"params":{"fill":false}}`, `{"query":"Oslo","method":"aligned","params":{"solver":"cls","capacities":[{"prefix":"a","value":2}]}}`, `{"query":"Oslo","method":"ppr","params":{"damping":0.7},"filter":{"document_prefix":"cities/"}}`, `{"query":"x","filter":{"metadata":{"a":"b"},"modified":{"from":"2026-01-01T00:00:00Z","to":null}}}`, `{"query":"x","without":{"entities":["00000000000000000000000000000000"],"documents":["cities/oslo.txt"]}}`, `{"query":"x","answer":true,"max_context_tokens":188.0,"generation":"g1"}`, `{"query":"x","top_chunks":1e400}`, `{"query":"x","query":"y"}`, `{"QUERY":"x"}`, `{"query":null}`, `[]`, `{"query":[:]]}`, `[x`, `null`, `"x"`, `{"query":"\ud800","params":{"list":-1}}`, `{"query":"x","top_chunks":[1]}`, `{"query":{"a":[[[[]]]]}}`, "\xff\xfe", ""}

func TestABodyMeansOneThing(t *testing.T) {
	f := serve(t, nil)
	f.ask(object{"query": "Fram"})
	for status, bodies := range map[int][]string{ // behind {"query":"Fram" or as a whole
		200: {
			`,"top_chunks":2.0}`, `,"top_chunks":2e0,"explain":null,"filter":null}`,
			`,"without":{"entities":null},"params":null}`, `,"top_k":2}`,
			`,"filter":{"modified":{"from":"2026-01-01"}}}`, `,"filter":{"metadata":{"a":["1","2"]}}}`,
			`,"fields":["chunks.text"]}`,
		},
		400: {
			`} x`, `}}`, `,"params":` + strings.Repeat("[", 60) + `1`, `,"params":{"a":` + strings.Repeat("[", 30000),
			`,`,
		},
		422: {
			`,"top_chunks":2.5}`, `,"top_chunks":"2"}`, `,"top_chunks":1e400}`, `,"query":"Oslo"}`,
			`,"params":{"list":5,"list":6}}`, `,"filter":{"metadata":{"a":"1","a":"2"}}}`, `{"QUERY":"Fram"}`,
			`,"Top_Chunks":2}`, `,"filter":{"Metadata":{}}}`, `,"filter":{"modified":{"since":1}}}`,
			`,"without":{"entities":[""]}}`, `,"without":{"documents":[null]}}`, `,"without":{"entities":[null]}}`,
			`,"filter":{"metadata":{"a":null}}}`, `{"query":null}`, `,"filter":{"modified":{"from":"2026-02-30"}}}`,
			`,"filter":{"modified":{"from":""}}}`, `,"answer":"yes"}`, `,"top_k":2,"top_chunks":2}`,
			`,"filter":{"metadata":{"a":[1]}}}`, `,"filter":{"metadata":{"a":""}}}`,
			`,"filter":{"metadata":{"a":["","1"]}}}`, `,"fields":["text"]}`,
			`,"without":{"documents":["a"],"documents":["b"]}}`,
		},
	} {
		for _, body := range bodies {
			if !strings.HasPrefix(body, "{") {
				body = `{"query":"Fram"` + body
			}
			got := f.query(body, "Content-Type", "application/json")
			assert.True(t, got.Code == status, "%.80s: %d %s, want %d", body, got.Code, got.Body, status)
			if got.Code == 422 {
				assert.NotRegexp(t, `Go |\b(api|map|time)[.\[]|answer\.[A-Z]|\bint\b`, got.Body.String(), "a type of Go")
			}
		}
	}
}

// nested puts a value into so many lists.
func nested(levels int, value string) string {
	return strings.Repeat("[", levels) + value + strings.Repeat("]", levels)
}

// texts returns so many empty texts of a list, and one more.
func texts(n int) string { return strings.Repeat(`"",`, n) + `""` }

// What a body costs follows its size, however deep its values lie.
func TestABodyCostsWhatItsSizeIs(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		most float64
	}{
		"deeper than is taken": {`{"query":"q","params":{"a":` + nested(9_990, texts(14_000)) + `}}`, 100},
		"as deep as is taken":  {`{"query":"q","params":{"a":` + nested(30, texts(14_000)) + `}}`, 6 * 14_000},
		"beside each other":    {`{"query":"q","without":{"documents":[` + texts(14_000) + `]}}`, 2 * 14_000},
	} {
		if allocations := testing.AllocsPerRun(1, func() { _ = api.ReadBody([]byte(c.body)) }); allocations > c.most {
			t.Errorf("%s: %.0f allocations, want %.0f at most", name, allocations, c.most)
		} else {
			t.Logf("%s: %.0f allocations", name, allocations)
		}
	}
}

// sound fails where an answer is no answer of ours.
func sound(t *testing.T, what string, status int, kind string, body []byte) {
	assert.True(t, status < 500 && status >= 200, "%d of %q: %.300s", status, what, body)
	assert.True(t, json.Valid(body) && (status < 300 || kind == "application/problem+json"),
		"%d of %q is %s: %.300s", status, what, kind, body)
}

// FuzzQuery checks that whatever is sent as a question is answered, or refused as the caller's fault.
func FuzzQuery(f *testing.F) {
	for _, body := range bodies {
		f.Add(body)
	}
	fixture := serve(f, nil)
	fixture.unchecked = true // TestSchemathesisFindsNothing does
	f.Fuzz(func(t *testing.T, body string) {
		got := fixture.query(body, "Content-Type", "application/json")
		sound(t, body, got.Code, got.Header().Get("Content-Type"), got.Body.Bytes())
	})
}
