package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// bodies that are worth changing.
var bodies = []string{
	`{"query":"capital of Norway"}`,
	`{"query":"Fram","method":"hybrid","params":{"list":20},"top_chunks":3,"explain":true}`,
	`{"query":"Fram","method":"unweaver","rule":"seqpav","top_entities":10,"params":{"fill":false}}`,
	`{"query":"Oslo","method":"aligned","params":{"solver":"cls","capacities":[{"prefix":"a","value":2}]}}`,
	`{"query":"Oslo","method":"ppr","params":{"damping":0.7},"filter":{"document_prefix":"cities/"}}`,
	`{"query":"x","filter":{"metadata":{"a":"b"},"modified":{"from":"2026-01-01T00:00:00Z","to":null}}}`,
	`{"query":"x","without":{"entities":["00000000000000000000000000000000"],"documents":["cities/oslo.txt"]}}`,
	`{"query":"x","answer":true,"max_context_tokens":188.0,"generation":"g1"}`,
	`{"query":"x","top_chunks":1e400}`, `{"query":"x","query":"y"}`, `{"QUERY":"x"}`, `{"query":null}`, `[]`, `{"query":[:]]}`, `[x`,
	`null`, `"x"`,
	`{"query":"\ud800","params":{"list":-1}}`, `{"query":"x","top_chunks":[1]}`, `{"query":{"a":[[[[]]]]}}`, "\xff\xfe", "",
}

func TestABodyMeansOneThing(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	for body, status := range map[string]int{
		`{"query":"Fram","top_chunks":2.0}`:                              200,
		`{"query":"Fram","top_chunks":2e0,"explain":null,"filter":null}`: 200,
		`{"query":"Fram","without":{"entities":null},"params":null}`:     200,
		`{"query":"Fram","top_chunks":2.5}`:                              422,
		`{"query":"Fram","top_chunks":"2"}`:                              422,
		`{"query":"Fram","top_chunks":1e400}`:                            422,
		`{"query":"Fram","query":"Oslo"}`:                                422,
		`{"query":"Fram","params":{"list":5,"list":6}}`:                  422,
		`{"query":"Fram","filter":{"metadata":{"a":"1","a":"2"}}}`:       422,
		`{"QUERY":"Fram"}`:                                               422,
		`{"query":"Fram","Top_Chunks":2}`:                                422,
		`{"query":"Fram","filter":{"Metadata":{}}}`:                      422,
		`{"query":"Fram","filter":{"modified":{"since":1}}}`:             422,
		`{"query":"Fram","without":{"entities":[""]}}`:                   422,
		`{"query":"Fram","without":{"documents":[null]}}`:                422,
		`{"query":"Fram","without":{"entities":[null]}}`:                 422,
		`{"query":"Fram","filter":{"metadata":{"a":null}}}`:              422,
		`{"query":null}`:     422,
		`{"query":"Fram"} x`: 400,
		`{"query":"Fram"}}`:  400,
		`{"query":"Fram","params":` + strings.Repeat("[", 60) + `1`:   400,
		`{"query":"Fram","params":{"a":` + strings.Repeat("[", 30000): 400,
		`{"query":"Fram",`: 400,
		`{"query":"Fram","filter":{"modified":{"from":"2026-02-30"}}}`:     422,
		`{"query":"Fram","filter":{"modified":{"from":""}}}`:               422,
		`{"query":"Fram","answer":"yes"}`:                                  422,
		`{"query":"Fram","top_k":2}`:                                       200,
		`{"query":"Fram","top_k":2,"top_chunks":2}`:                        422,
		`{"query":"Fram","filter":{"modified":{"from":"2026-01-01"}}}`:     200,
		`{"query":"Fram","filter":{"metadata":{"a":["1","2"]}}}`:           200,
		`{"query":"Fram","filter":{"metadata":{"a":[1]}}}`:                 422,
		`{"query":"Fram","fields":["chunks.text"]}`:                        200,
		`{"query":"Fram","fields":["text"]}`:                               422,
		`{"query":"Fram","without":{"documents":["a"],"documents":["b"]}}`: 422,
	} {
		got := f.send("POST", "/v1/indexes/sample/query", body, "Content-Type", "application/json")
		assert.True(t, got.Code == status, "%.80s: %d %s, want %d", body, got.Code, got.Body, status)
		if got.Code == 422 {
			assert.NotRegexp(t, `Go |\b(api|map|time)[.\[]|answer\.[A-Z]|\bint\b`, got.Body.String(), "a type of Go")
		}
	}
}

// nested puts a value into so many lists.
func nested(levels int, value string) string {
	return strings.Repeat("[", levels) + value + strings.Repeat("]", levels)
}

// texts returns so many empty texts of a list, and one more.
func texts(n int) string { return strings.Repeat(`"",`, n) + `""` }

func TestABodyIsNestedToALimit(t *testing.T) {
	f := serve(t, nil)
	const refused = "nested deeper than 32"
	for levels, want := range map[int]string{30: "not a parameter", 31: refused, 9_990: refused} {
		body := `{"query":"Fram","params":{"a":` + nested(levels, "1") + `}}`
		got := f.send("POST", "/v1/indexes/sample/query", body, "Content-Type", "application/json")
		assert.True(t, got.Code < 500 && strings.Contains(got.Body.String(), want),
			"%d levels: %d %s, want %q", levels, got.Code, got.Body, want)
	}
}

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
	t.Helper()
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
	fixture.unchecked = true // TestManyHostileRequests does
	f.Fuzz(func(t *testing.T, body string) {
		got := fixture.send("POST", "/v1/indexes/sample/query", body, "Content-Type", "application/json")
		sound(t, body, got.Code, got.Header().Get("Content-Type"), got.Body.Bytes())
	})
}

// mutate changes a text at a few places, by pieces that parsers stumble over.
func mutate(random *rand.Rand, text string) string {
	pieces := []string{
		"", "\"", "{", "}", "[", "]", ",", ":", "null", "true", "-1", "0", "1e999", "NaN", "\\u0000", "\\ud800", "\x00", "\xff",
		"../", "%00", "%2f", "..%2f", "é", "\r\n", "query", "Query", "[[[[[[", "999999999999999999999", " ", "0.1", "-0",
		"\"query\":1,", "A", strings.Repeat("9", 400), strings.Repeat("(", 300),
	}
	raw := []byte(text)
	for range 1 + random.IntN(4) {
		at := random.IntN(len(raw) + 1)
		to := min(len(raw), at+random.IntN(4))
		piece := pieces[random.IntN(len(pieces))]
		if random.IntN(3) == 0 {
			piece = string([]byte{byte(random.IntN(256))})
		}
		raw = append(raw[:at:at], append([]byte(piece), raw[to:]...)...)
	}
	return string(raw)
}

// hostile makes a request as bytes: half of them questions, the others paths, headers and methods.
func hostile(random *rand.Rand, key string) []byte {
	paths := []string{
		"/v1/indexes", "/v1/indexes/sample/entities?prefix=o&limit=3", "/v1/indexes/sample/generations", "/livez", "/",
		"/v1/indexes/sample/documents/cities/oslo.txt/text?start=1&end=9", "/openapi.json", "/metrics", "/readyz",
		"/v1/indexes/sample/chunks/00000000000000000000000000000000", "/admin/v1/status",
		"/v1/indexes/sample/entities/00000000000000000000000000000000/chunks?cursor=0&limit=2&generation=g1",
	}
	methods := []string{"GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "X"}
	var out bytes.Buffer
	headers := "Host: localhost\r\nConnection: close\r\nAuthorization: Bearer " + key + "\r\n"
	if random.IntN(2) == 0 {
		body := mutate(random, bodies[random.IntN(len(bodies))])
		fmt.Fprintf(&out, "POST /v1/indexes/sample/query HTTP/1.1\r\n%sContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", headers, len(body), body)
		return out.Bytes()
	}
	method, path := methods[random.IntN(len(methods))], paths[random.IntN(len(paths))]
	if random.IntN(4) > 0 {
		path = "/" + strings.NewReplacer("\r", "", "\n", "", " ", "%20").Replace(mutate(random, path[1:]))
	}
	if random.IntN(5) == 0 {
		headers = mutate(random, headers)
	}
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\n%s\r\n\r\n\r\n", method, path, headers) // ends, whatever became of headers
	return out.Bytes()
}

// TestManyHostileRequests sends requests to a server on a real connection: none is a fault of ours, and each that
// reaches a route is answered with JSON, the page or metrics.
func TestManyHostileRequests(t *testing.T) {
	count := longtest.Count(1500, 150_000)
	const token = "the token of this test"
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Policy = middleware.Policy{
			Required: true, Token: strings.ReplaceAll(token, " ", "-"), BodyTimeout: 200 * time.Millisecond,
		}
		config.Extra = map[string]http.Handler{"/admin/v1/": http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) })}
	})
	f.openSample(strings.ReplaceAll(token, " ", "-"))
	address := f.listening()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	codes, wait := map[int]int{}, sync.WaitGroup{}
	const clients = 8
	for client := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		wait.Go(func() {
			for range count / clients {
				request := hostile(random, strings.ReplaceAll(token, " ", "-"))
				response, body := exchange(t, address, request)
				mu.Lock()
				if response == nil {
					codes[0]++ // closed without an answer, or nothing that anybody answers
				} else {
					codes[response.StatusCode]++
					inspect(t, request, response, body)
				}
				failed := t.Failed()
				mu.Unlock()
				if failed {
					return
				}
			}
		})
	}
	wait.Wait()
	t.Logf("%d requests, by status: %v", count, codes)
	assert.True(t, codes[200] != 0 && codes[422] != 0 && codes[404] != 0 && codes[0] <= count/10,
		"too few of them got anywhere: %v", codes)
}

// exchange sends bytes and reads what comes back; nil where nothing does.
func exchange(t *testing.T, address string, request []byte) (*http.Response, []byte) {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(long))
	_, _ = connection.Write(request) // it may be refused before all is sent
	asked, _ := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	response, err := http.ReadResponse(bufio.NewReader(connection), asked)
	if err != nil {
		var silent net.Error
		assert.True(t, !errors.As(err, &silent) || !silent.Timeout(), "no answer to %q", request)
		return nil, nil
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return response, body
}

// openSample waits until the sample is open, so that no request meets an opening.
func (f *fixture) openSample(key string) {
	f.t.Helper()
	eventually(f.t, "the sample is open", func() bool {
		return f.send("POST", "/v1/indexes/sample/query", question, bearer(key)...).Code == http.StatusOK
	})
}

func inspect(t *testing.T, request []byte, response *http.Response, body []byte) {
	t.Helper()
	kind := response.Header.Get("Content-Type")
	if response.Header.Get("X-Content-Type-Options") == "" && (response.StatusCode == 400 || response.StatusCode == 431 ||
		response.StatusCode == 417 || response.StatusCode == 501 || response.StatusCode == 505) {
		return // no request of HTTP: the library refused it before anything of ours saw it
	}
	assert.True(t, response.StatusCode < 500, "%d for %q: %.300s", response.StatusCode, request, body)
	if asked, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request))); err == nil {
		valid, err := contract()
		require.NoError(t, err)
		err = valid.Check(asked.Method, asked.URL.EscapedPath(), response.StatusCode, response.Header, body)
		assert.NoError(t, err, "%q", request)
	}
	assert.True(t, response.StatusCode < 300 || kind == "application/problem+json",
		"%d for %q is %s: %.200s", response.StatusCode, request, kind, body)
	assert.True(t, !strings.Contains(kind, "json") || len(body) == 0 || json.Valid(body),
		"%d for %q is no JSON: %.300s", response.StatusCode, request, body)
}
