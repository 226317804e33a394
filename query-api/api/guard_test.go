package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
)

// locked is a server that asks for keys.
type locked struct {
	*fixture
	book access.Book
	ring *access.Ring
}

func lock(t testing.TB, edit func(*fixture, *api.Config)) *locked {
	t.Helper()
	store := blobmemory.New()
	l := &locked{book: access.Book{Store: store}, ring: access.NewRing(store, slog.New(slog.DiscardHandler), nil)}
	l.fixture = serve(t, func(f *fixture, config *api.Config) {
		config.Policy = middleware.Policy{Keys: l.ring, Required: true, AnyHost: true}
		config.Extra = map[string]http.Handler{"/admin/v1/": http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })}
		if edit != nil {
			edit(f, config)
		}
	})
	return l
}

// key makes one that the server knows at once.
func (l *locked) key(request access.Request) access.Made {
	made := must(l.book.CreateKey(l.t.Context(), request))(l.t)
	require.NoError(l.t, l.ring.Refresh(l.t.Context()))
	return made
}

// send sends a request with headers, given as name and value in turn.
func (f *fixture) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	if body == "" {
		request.Body = http.NoBody
	}
	request.Host = "localhost:8080"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	f.server.Handler().ServeHTTP(recorder, request)
	if recorder.Header().Get("Content-Encoding") == "" {
		f.asDescribed(request, recorder)
	}
	return recorder
}

// query sends a question to the sample.
func (f *fixture) query(body string, headers ...string) *httptest.ResponseRecorder {
	return f.send("POST", sampleQuery, body, headers...)
}

func bearer(text string) []string {
	return []string{"Authorization", "Bearer " + text, "Content-Type", "application/json"}
}

const question = `{"query":"What is the capital of Norway?"}`

// anothers returns a key that differs from another in its last character alone, whatever that was.
func anothers(key string) string {
	last := byte('0')
	if key[len(key)-1] == last {
		last = '1'
	}
	return key[:len(key)-1] + string(last)
}

// withoutID returns the body of an answer without the id of its request.
func withoutID(got *httptest.ResponseRecorder) string {
	return strings.ReplaceAll(got.Body.String(), got.Header().Get(api.HeaderRequestID), "")
}

// attempt asks a route.
func (l *locked) attempt(route string, headers []string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(route, " ")
	body := ""
	if method == "POST" {
		body = question
	}
	return l.send(method, path, body, headers...)
}

// Routes that the description does not have, and keys in other places: TestNoRequestThatIsNotAllowedSucceeds tries the
// described ones.
func TestNothingIsServedWithoutAKeyWhereKeysBelong(t *testing.T) {
	l := lock(t, nil)
	good := l.key(access.Request{Scope: access.Admin}).Text
	narrow := l.key(access.Request{Scope: access.Query, Index: "other-*"})
	for _, route := range []string{
		"POST /admin/v1/status", "GET /admin/v1/", "GET /nowhere", "OPTIONS /v1/indexes", "DELETE /v1/indexes", "POST /",
		"POST /livez", "GET //livez", "GET /livez/", "GET /v1/../livez", "GET /v1/indexes",
	} {
		for name, headers := range map[string][]string{
			"no key": {"Content-Type", "application/json"}, "an empty key": bearer(""),
			"the key as a password": {"Authorization", "Basic " + good, "Content-Type", "application/json"},
			"the key in a cookie":   {"Cookie", "key=" + good, "Content-Type", "application/json"},
		} {
			got := l.attempt(route, headers)
			assert.True(t, got.Code == 401 && got.Header().Get("Content-Type") == "application/problem+json" &&
				(strings.Contains(route, "/admin") || got.Header().Get("WWW-Authenticate") != ""), "%s with %s: %d %s", route,
				name, got.Code, got.Body)
		}
	}
	assert.Equal(t, 200, l.send("GET", "/v1/indexes/sample", "", "X-API-Key", good).Code)
	other := l.attempt("GET /v1/indexes/sample", bearer(narrow.Text))
	unknown := l.attempt("GET /v1/indexes/nobody", bearer(good))
	assert.True(t, other.Code == 404 && strings.ReplaceAll(withoutID(unknown), "nobody", "sample") == withoutID(other),
		"%d %s", other.Code, other.Body)
	for _, open := range []string{"GET /livez", "GET /"} {
		if got := l.attempt(open, nil); got.Code != 200 || strings.Contains(got.Body.String(), "sample") {
			t.Errorf("%s: %d %s", open, got.Code, got.Body)
		}
	}
	list := l.attempt("GET /v1/indexes", bearer(narrow.Text))
	assert.True(t, list.Code == 200 && !strings.Contains(list.Body.String(), "sample"),
		"a list shows an index that the key does not read: %s", list.Body)
}

// Promises: 140.
func TestAPageOfAnotherOriginNeitherReadsNorSpends(t *testing.T) {
	f := serve(t, func(_ *fixture, config *api.Config) { config.Policy.Hosts = []string{"search.example"} })
	json := []string{"Content-Type", "application/json"}
	own := append(json, "Origin", "http://localhost:8080", "Sec-Fetch-Site", "same-origin")
	for name, c := range map[string]struct {
		status  int
		headers []string
	}{
		"a name that points here":     {421, append(json, "Host", "evil.example:8080")},
		"a name that ends like ours":  {421, append(json, "Host", "localhost.evil.example")},
		"a name that begins like one": {421, append(json, "Host", "search.example.evil.example")},
		"an address that is not ours": {421, append(json, "Host", "192.0.2.1:8080")},
		"no name":                     {421, append(json, "Host", "")},
		"packed":                      {415, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}},
		"in Latin-1":                  {415, []string{"Content-Type", "application/json; charset=latin1"}},
		"a form":                      {415, []string{"Content-Type", "text/plain"}},
		"a form of another kind":      {415, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"no kind":                     {415, nil},
		"another site":                {403, append(json, "Sec-Fetch-Site", "cross-site")},
		"a neighbour":                 {403, append(json, "Sec-Fetch-Site", "same-site")},
		"an origin":                   {403, append(json, "Origin", "http://evil.example")},
		"another port":                {403, append(json, "Origin", "http://localhost:9")},
		"the null origin":             {403, append(json, "Origin", "null")},
		"a form of another site":      {403, []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"}},
		"our own page":                {200, own},
		"our own page, older browser": {200, append(json, "Origin", "http://localhost:8080")},
		"a program":                   {200, json},
		"a charset":                   {200, []string{"Content-Type", "application/json; charset=utf-8"}},
		"our address":                 {200, append(json, "Host", "127.0.0.1:8080")},
		"our address of six":          {200, append(json, "Host", "[::1]:8080")},
		"the configured name":         {200, append(json, "Host", "Search.example.")},
	} {
		got := f.query(question, c.headers...)
		assert.True(t, got.Code == c.status && got.Header().Get("Access-Control-Allow-Origin") == "",
			"%s: %d %s", name, got.Code, got.Body)
		assert.True(t, got.Code == 200 || got.Header().Get("Content-Type") == "application/problem+json",
			"%s: %s", name, got.Header())
	}
	got := f.send("GET", "/v1/indexes", "", "Sec-Fetch-Site", "cross-site")
	assert.True(t, got.Code == 403, "a GET of another site: %d", got.Code)
	assert.Equal(t, 200, f.send("GET", "/", "", "Sec-Fetch-Site", "cross-site").Code, "a link to the page")
	got = f.send("GET", "/", "", "Host", "evil.example")
	assert.True(t, got.Code == 421, "the page under another name: %d", got.Code)
}

func TestEveryAnswerHasItsHeadersAndEveryErrorIsAProblem(t *testing.T) {
	f := serve(t, nil)
	for route, status := range map[string]int{
		"GET /livez": 200, "GET /": 200, "GET /v1/indexes": 200, "GET /nowhere": 404, "DELETE /v1/indexes": 405,
		"GET /v1//indexes": 404, "GET /v1/../livez": 404, "GET /livez/": 404, "GET /v1/indexes/sample/query": 405,
		"GET /v1/indexes?x=1": 422, "GET /v1/indexes/sample/entities?limit=": 422, "GET /metrics": 200,
		"GET /v1/indexes/sample/entities?limit=1&limit=2": 422, "GET /v1/indexes?%zz": 400,
		"GET /v1/indexes/sample/entities?limit=+5": 422, "GET /v1/indexes/sample/entities?limit=05": 422,
	} {
		method, path, _ := strings.Cut(route, " ")
		got := f.send(method, path, "")
		header := got.Header()
		assert.True(t, got.Code == status, "%s: %d %s", route, got.Code, got.Body)
		assert.True(t, status != 405 || strings.Contains(got.Body.String(), method) &&
			strings.Contains(got.Body.String(), header.Get("Allow")), "%s: %s", route, got.Body)
		assert.True(t, (status < 300 || header.Get("Content-Type") == "application/problem+json") &&
			header.Get("Location") == "", "%s: %v", route, header)
		assert.True(t, header.Get("X-Content-Type-Options") == "nosniff" && header.Get("Referrer-Policy") == "no-referrer" &&
			strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'"), "%s: %v", route, header)
	}
}

func TestAQueryKeyIsNotToldOfTheInside(t *testing.T) {
	var logged bytes.Buffer
	l := lock(t, func(_ *fixture, config *api.Config) { config.Log = slog.New(slog.NewJSONHandler(&logged, nil)) })
	query, operate := l.key(access.Request{Scope: access.Query}), l.key(access.Request{Scope: access.Operate})
	body := `{"query":"Fram","method":"unweaver"}`
	if got := l.query(body, bearer(query.Text)...); got.Code != 200 {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	for _, code := range fault.Codes() {
		if code == fault.Usage || code == fault.InvalidParam || code == fault.NotFound {
			continue // of requests alone, and of what a vector store has lost
		}
		l.stores.Vectors.Fail(fmt.Errorf("redis 10.0.0.7:6379: %w", code.At("read", "s3://inside/bucket").Because("/etc/x")))
		logged.Reset()
		l.unchecked = code == fault.NoSuchMethod // no route has a wrong method
		got := l.query(body, bearer(query.Text)...)
		var shown problem.Problem
		err := json.Unmarshal(got.Body.Bytes(), &shown)
		require.True(t, err == nil, "%s: %v in %s", code, err, got.Body)
		reported := shown.Detail + shown.Hint
		assert.True(t, shown.Reference != "" || api.Tellable(code), "%s: no reference", code)
		if shown.Reference != "" && (strings.Contains(reported, "inside") || strings.Contains(reported, "10.0.0.7") ||
			!strings.Contains(logged.String(), shown.Reference) || !strings.Contains(logged.String(), "10.0.0.7")) {
			t.Errorf("%s: reported %q, logged %s", code, reported, logged.String())
		}
		full := l.query(body, bearer(operate.Text)...)
		assert.Contains(t, full.Body.String(), "10.0.0.7", "%s: the operator does not see it: %s", code, full.Body)
	}
	assert.False(t, strings.Contains(logged.String(), query.Text[14:]), "a key is in the log")
}

// Without keys everybody on this machine is the operator, but for who sends a key: so a key can be tried.
func TestAKeyNarrowsWhatItsCallerMayWhereNoneIsRequired(t *testing.T) {
	l := lock(t, func(_ *fixture, config *api.Config) { config.Policy.Required = false })
	key := l.key(access.Request{Scope: access.Query, Index: "sampl?"})
	for path, want := range map[string]int{"/metrics": 403, "/v1/indexes/sample": 200, "/v1/indexes/other": 404} {
		assert.Equal(t, want, l.send("GET", path, "", bearer(key.Text)...).Code, "%s", path)
	}
	assert.Equal(t, 200, l.send("GET", "/metrics", "", bearer("sk-something")...).Code, "a text that is no key")
}

func TestLimitsOfAKeyAreKept(t *testing.T) {
	l := lock(t, nil)
	slow := l.key(access.Request{Scope: access.Query, Limits: access.Limits{RequestsPerSecond: 0.01, Burst: 2}})
	var codes []int
	for range 4 {
		got := l.send("GET", "/v1/indexes", "", bearer(slow.Text)...)
		codes = append(codes, got.Code)
		if got.Code == 429 && (got.Header().Get("Retry-After") == "" || !strings.Contains(got.Body.String(), "rate_limited")) {
			t.Errorf("%v %s", got.Header(), got.Body)
		}
	}
	assert.Equal(t, "[200 200 429 429]", fmt.Sprint(codes), "%v", codes)
	talk := l.key(access.Request{Scope: access.Query, Limits: access.Limits{AnswersPerMinute: 1}})
	answer := `{"query":"capital of Norway","answer":true}`
	first := l.query(answer, bearer(talk.Text)...)
	second := l.query(answer, bearer(talk.Text)...)
	plain := l.query(question, bearer(talk.Text)...)
	assert.True(t, first.Code == 200 && second.Code == 429 && plain.Code == 200,
		"answers: %d, %d, without an answer %d", first.Code, second.Code, plain.Code)
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// of gives the lines with a message.
func (l *lines) of(t *testing.T, message string) (out []object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var fields object
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["msg"] == message {
			out = append(out, fields)
		}
	}
	return out
}

func logged(t *testing.T) (*fixture, *lines) {
	t.Helper()
	log := &lines{}
	return serve(t, func(_ *fixture, config *api.Config) { config.Log = slog.New(slog.NewJSONHandler(log, nil)) }), log
}

func TestEveryRequestHasAnIdInAnswerLogAndError(t *testing.T) {
	f, log := logged(t)
	for name, c := range map[string]struct {
		path, sent string
		kept       bool
		status     int
		route      string
	}{
		"sane":              {"/v1/indexes", "abc-1.2_3:4/5", true, 200, "GET /v1/indexes"},
		"none":              {"/v1/indexes", "", false, 200, "GET /v1/indexes"},
		"with a line break": {"/v1/indexes", "a\nmsg=forged", false, 200, "GET /v1/indexes"},
		"too long":          {"/v1/indexes", strings.Repeat("x", 129), false, 200, "GET /v1/indexes"},
		"an error":          {"/v1/indexes/none/generations", "mine", true, 404, "GET /v1/indexes/{index}/generations"},
		"no route":          {"/secret/document.pdf", "mine", true, 404, "none"},
	} {
		before := len(log.of(t, "request"))
		got := f.send("GET", c.path, "", api.HeaderRequestID, c.sent)
		id := got.Header().Get(api.HeaderRequestID)
		assert.True(t, got.Code == c.status && id != "" && (id == c.sent) == c.kept, "%s: %d, id %q", name, got.Code, id)
		entries := log.of(t, "request")[before:]
		require.Len(t, entries, 1, "%s", name)
		entry := entries[0]
		assert.True(t, entry["request_id"] == id && entry["status"] == float64(c.status) && entry["route"] == c.route,
			"%s: %v", name, entry)
		if c.status == 200 {
			continue
		}
		var shown problem.Problem
		err := json.Unmarshal(got.Body.Bytes(), &shown)
		assert.True(t, err == nil && shown.RequestID == id, "%s: %v, %s", name, err, got.Body)
	}
	assert.False(t, strings.Contains(log.text.String(), "document.pdf"), "the log holds a path: %s", log.text.String())
}

func TestRefusedRequestsAreLoggedAndCounted(t *testing.T) {
	f, log := logged(t)
	for _, path := range []string{"/livez", "/metrics"} { // asked every few seconds: no news, unless it fails
		require.Equal(t, 200, f.send("GET", path, "").Code, "%s", path)
	}
	got := f.send("GET", "/v1/indexes", "", "Host", "attacker.example")
	entries := log.of(t, "request")
	assert.True(t, got.Code == 421 && len(entries) == 1 && entries[0]["status"] == 421.0, "%d, %v", got.Code, entries)
	metrics := f.send("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`unweaver_refused_total{code="misdirected"} 1`,
		`unweaver_http_request_seconds_count{route="none",status="Misdirected Request"} 1`,
		"go_goroutines ", "unweaver_build_info{",
	} {
		assert.Contains(t, metrics, want, "metrics lack")
	}
}

// Readiness and metrics name indexes: a key hears of those that it is for.
func TestAKeyForOneIndexHearsOfNoOther(t *testing.T) {
	l := lock(t, nil)
	all := l.key(access.Request{Scope: access.Operate})
	mine := l.key(access.Request{Scope: access.Operate, Index: "samp*"})
	other := l.key(access.Request{Scope: access.Operate, Index: "other"})
	eventually(t, "the index is open",
		func() bool { return l.send("GET", "/readyz", "", bearer(all.Text)...).Code == 200 })
	for name, c := range map[string]struct {
		text     string
		reported bool
		meter    int
	}{
		"of all":     {all.Text, true, 200},
		"of this":    {mine.Text, true, 403},
		"of another": {other.Text, false, 403},
	} {
		got := l.send("GET", "/readyz", "", bearer(c.text)...)
		reported := strings.Contains(got.Body.String(), "index sample")
		assert.True(t, got.Code == 200 && reported == c.reported, "%s: %d %s", name, got.Code, got.Body)
		got = l.send("GET", "/metrics", "", bearer(c.text)...)
		assert.True(t, got.Code == c.meter && (c.meter == 200 || !strings.Contains(got.Body.String(), "sample")),
			"%s: %d %s", name, got.Code, got.Body)
	}
	got := l.query(`{"query":"x"}`, bearer(other.Text)...)
	assert.True(t, got.Code == 404 && strings.Contains(got.Body.String(), "or the key is not for it"),
		"%d %s", got.Code, got.Body)
	got = l.query(`{"query":"x"}`, append(bearer(all.Text),
		"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site")...)
	assert.True(t, got.Code == 403 && strings.Contains(got.Body.String(), "from its own page only") &&
		strings.Contains(got.Body.String(), `"hint":"call this server from the backend`), "%d %s", got.Code, got.Body)
}

// What was asked of one index is remembered for it alone: a key of another must not find out by asking the same.
func TestNoKeyLearnsWhatWasAskedOfAnotherIndex(t *testing.T) {
	l := lock(t, nil)
	retrievetest.Publish(t,
		retrievetest.Build(t, l.stores, "other-one", retrievetest.Sample()[:2], retrievetest.Options{}), 1)
	cached := func(index string) bool {
		key := l.key(access.Request{Scope: access.Query, Index: index}).Text
		var body string
		eventually(t, index+" is open", func() bool {
			got := l.send("POST", "/v1/indexes/"+index+"/query", `{"query":"Who pays for Oslo?"}`,
				append(bearer(key), "Content-Type", "application/json")...)
			body = got.Body.String()
			return got.Code == 200
		})
		return strings.Contains(body, `"embed_cached":true`)
	}
	assert.False(t, cached("sample"), "it was never asked")
	assert.False(t, cached("other-one"), "the other index shows that it was asked before")
	assert.True(t, cached("sample"), "it is embedded again")
}

// A name that no index can have reaches no store, whatever the route.
func TestANameThatIsNoIndexReachesNoStore(t *testing.T) {
	o := operate(t, nil)
	routes, _ := api.ListRoutes()
	for _, route := range routes {
		if !strings.Contains(route.Path, "{index}") || route.Open {
			continue
		}
		for sent, name := range map[string]string{"Sample": "Sample", "a%2Fb": "a/b", "..%2Fsample": "../sample"} {
			path := strings.NewReplacer("{index}", sent, "{", "", "}", "").Replace(route.Path)
			got := o.send(route.Method, path, "{}", asOwner("Content-Type", "application/json")...)
			assert.True(t, got.Code == 404 && strings.Contains(got.Body.String(), "unknown_index"), "%s %s: %d %s",
				route.Method, path, got.Code, got.Body)
			assert.Zero(t, o.store.reads(name), "%s %s", route.Method, path)
		}
	}
	assert.Empty(t, o.control.Asked)
}

func TestAKeySeesItsQuotasAndIsRefusedAboveThem(t *testing.T) {
	chat := sellingChat{usage: model.Usage{Prompt: 5, Completion: 5}, send: true}
	answers, money := 3.0, 7000.0 // an answer is taken to cost about 6,500, and costs 10
	l := lock(t, withFacts(priced, func(c *api.Config) {
		quotas := []config.Quota{{Keys: "*", Answers: &answers, Money: &money}}
		c.Models = models{chat: chat}
		c.Policy.Quotas = middleware.NewQuotas(quotas, coordination.NewQuotas(nil), slog.New(slog.DiscardHandler), nil)
	}))
	key := l.key(access.Request{Scope: access.Query, Index: "*"})
	uses := func() string { return l.send("GET", "/v1/usage", "", bearer(key.Text)...).Body.String() }
	assert.Equal(t, 200, l.query(answered, bearer(key.Text)...).Code)
	assert.Contains(t, uses(), `[{"quota":"answers","limit":3,"used":1},{"quota":"money","limit":7000,"used":10}]`)
	got := l.query(strings.Replace(answered, "{", `{"max_answer_tokens":2000,`, 1), bearer(key.Text)...)
	assert.True(t, got.Code == 429 && strings.Contains(got.Body.String(), "money is 7000 a day: 10 are used"),
		"a dearer answer: %d %s", got.Code, got.Body)
	text, _, failed := call(t, l.agent(key.Text), "answer", object{"index": "sample", "query": "Who designed the Fram?"})
	require.False(t, failed, text)
	assert.Contains(t, uses(), `"used":2},{"quota":"money","limit":7000,"used":20}]`, "a tool is counted once")
	several := strings.Replace(answered, "{", `{"indexes":["sample"],`, 1)
	got = l.send("POST", "/v1/query", several, bearer(key.Text)...)
	require.Equal(t, 200, got.Code, "%s", got.Body)
	assert.Contains(t, uses(), `"used":3},{"quota":"money","limit":7000,"used":30}]`)
	got = l.query(answered, bearer(key.Text)...)
	wait, err := strconv.Atoi(got.Header().Get("Retry-After"))
	_, rest, _ := strings.Cut(uses(), `"renews_in":`)
	renews, _, _ := strings.Cut(rest, ",")
	assert.True(t, err == nil && got.Code == 429 && strings.Contains(got.Body.String(), "budget_spent"), "%s", got.Body)
	assert.InDelta(t, must(strconv.Atoi(renews))(t), wait, 60, "it renews at midnight")
	assert.Equal(t, 200, l.query(question, bearer(key.Text)...).Code, "a search costs nothing")
}

// A panic, as of a file that is damaged, is an error of its request alone: the caller gets an answer.
func TestAPanicIsAnAnswer(t *testing.T) {
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Extra = map[string]http.Handler{"/broken/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/broken/later" {
				_, _ = w.Write([]byte("half"))
			}
			panic("damaged")
		})}
	})
	f.refuse(http.StatusInternalServerError, string(fault.Internal), http.MethodGet, "/broken/now", nil)
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() { f.send(http.MethodGet, "/broken/later", "") },
		"half an answer breaks off")
}
