package api_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// An address that takes other methods says which, whatever it is asked with; HEAD is a GET without its body.
func TestEveryAddressSaysWhichMethodsItTakes(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	for path, allow := range map[string]string{
		"/v1/indexes": "GET, HEAD, OPTIONS", sampleQuery: "POST, OPTIONS", "/": "GET, HEAD, OPTIONS",
		"/openapi.json": "GET, HEAD, OPTIONS", "/livez": "GET, HEAD, OPTIONS",
		"/v1/indexes/sample/runs": "GET, HEAD, POST, OPTIONS", "/v1/indexes/sample/runs/g1": "GET, HEAD, OPTIONS",
		"/v1/indexes/sample/runs/g1/pause": "POST, OPTIONS", "/v1/indexes/sample/runs/report": "GET, HEAD, OPTIONS",
		"/v1/indexes/sample/runs/sample/g1/report": "GET, HEAD, OPTIONS",
		"/v1/indexes/sample/documents":             "GET, HEAD, OPTIONS",
		"/v1/indexes/sample/documents/a/text":      "GET, HEAD, OPTIONS",
		"/v1/indexes/sample/documents/a%2Ftext":    "GET, HEAD, PUT, DELETE, OPTIONS",
		"/v1/indexes/sample/documents/text":        "GET, HEAD, PUT, DELETE, OPTIONS",
		"/v1/indexes/sample/schedule":              "GET, HEAD, PUT, DELETE, OPTIONS",
		"/v1/indexes/sample/generations/g1/tags/t": "PUT, DELETE, OPTIONS",
	} {
		got := f.send("OPTIONS", path, "")
		assert.True(t, got.Code == 204 && got.Header().Get("Allow") == allow && got.Body.Len() <= 0,
			"OPTIONS %s: %d, Allow %q, %s", path, got.Code, got.Header().Get("Allow"), got.Body)
		for _, method := range []string{"DELETE", "PUT", "TRACE", "PATCH"} {
			if strings.Contains(allow, method) {
				continue
			}
			got := f.send(method, path, "")
			said := strings.Split(got.Header().Get("Allow"), ", ")
			assert.True(t, got.Code == 405 && len(said) == strings.Count(allow, ",")+1 &&
				strings.Contains(got.Body.String(), `"code":"method_not_allowed"`), "%s %s: %d, Allow %v, %s", method, path,
				got.Code, said, got.Body)
		}
	}
	address := "http://" + f.listening()
	for _, path := range []string{"/v1/indexes", "/v1/indexes/sample/entities", "/openapi.json", "/"} {
		head := must(http.Head(address + path))(t)
		body, _ := io.ReadAll(head.Body)
		_ = head.Body.Close()
		assert.True(t, head.StatusCode == 200 && len(body) == 0 && head.Header.Get("Content-Type") != "",
			"HEAD %s: %d %v", path, head.StatusCode, head.Header)
	}
}

func TestAnswersArePackedForWhoAcceptsIt(t *testing.T) {
	f := serve(t, nil)
	plain := f.send("GET", "/openapi.json", "")
	packed := f.send("GET", "/openapi.json", "", "Accept-Encoding", "gzip")
	assert.True(t, plain.Header().Get("Content-Encoding") == "" && packed.Header().Get("Content-Encoding") == "gzip" &&
		strings.Contains(strings.Join(packed.Header().Values("Vary"), ","), "Accept-Encoding"), "%v and %v", plain.Header(),
		packed.Header())
	size := packed.Body.Len()
	text, err := io.ReadAll(must(gzip.NewReader(packed.Body))(t))
	assert.True(t, err == nil && string(text) == plain.Body.String() && size <= len(text)/4,
		"%d bytes of %d: %v", size, len(text), err)
	if got := f.send("GET", "/livez", "", "Accept-Encoding", "gzip"); got.Header().Get("Content-Encoding") != "" {
		t.Error("a short answer is packed")
	}
	got := f.send("GET", "/nowhere", "", "Accept-Encoding", "gzip")
	assert.True(t, got.Code == 404 && json.Valid(got.Body.Bytes()), "%d %v %q", got.Code, got.Header(), got.Body)
}

const pageOrigin = "https://app.example.org"

// A page of an origin that is named may ask, with a key in a header; every other is refused as before.
// Promises: 103.
func TestPagesOfNamedOriginsMayAskWithAKey(t *testing.T) {
	l := lock(t, func(_ *fixture, config *api.Config) { config.Policy.Origins = []string{pageOrigin} })
	key := l.key(access.Request{Scope: access.Query})
	preflight := []string{
		"Origin", pageOrigin, "Access-Control-Request-Method", "POST", "Sec-Fetch-Site", "cross-site",
		"Access-Control-Request-Headers", "authorization,content-type",
	}
	for _, path := range []string{
		"/v1/indexes", sampleQuery, "/v1/indexes/sample/documents/a/text", "/readyz", "/nowhere",
	} {
		got := l.send("OPTIONS", path, "", preflight...)
		header := got.Header()
		assert.True(t, got.Code == 204 && header.Get("Access-Control-Allow-Origin") == pageOrigin &&
			strings.Contains(header.Get("Access-Control-Allow-Headers"), "Authorization") &&
			strings.Contains(header.Get("Access-Control-Allow-Methods"), "POST") &&
			strings.Contains(header.Get("Vary"), "Origin") && header.Get("Access-Control-Allow-Credentials") == "", "%s: %d %v",
			path, got.Code, header)
	}
	from := []string{"Origin", pageOrigin, "Sec-Fetch-Site", "cross-site"}
	got := l.query(question, append(from, bearer(key.Text)...)...)
	assert.True(t, got.Code == 200 && got.Header().Get("Access-Control-Allow-Origin") == pageOrigin &&
		strings.Contains(got.Header().Get("Access-Control-Expose-Headers"), "ETag"), "with a key: %d %v", got.Code,
		got.Header())
	got = l.query(question, append(from, "Content-Type", "application/json")...)
	assert.True(t, got.Code == 401 && got.Header().Get("Access-Control-Allow-Origin") == pageOrigin,
		"without a key the page must be able to read why: %d %v", got.Code, got.Header())
	for name, headers := range map[string][]string{
		"another origin":       {"Origin", "https://evil.example"},
		"a longer name":        {"Origin", pageOrigin + ".evil.example"},
		"another scheme":       {"Origin", "http://app.example.org"},
		"another port":         {"Origin", pageOrigin + ":8443"},
		"the null origin":      {"Origin", "null"},
		"another's preflight":  {"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"},
		"no origin, elsewhere": {"Sec-Fetch-Site", "cross-site"},
	} {
		method := "POST"
		if strings.Contains(name, "preflight") {
			method = "OPTIONS"
		}
		got := l.send(method, sampleQuery, question, append(headers, bearer(key.Text)...)...)
		assert.True(t, got.Code == 403 && got.Header().Get("Access-Control-Allow-Origin") == "",
			"%s: %d %v", name, got.Code, got.Header())
	}
}

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	chunk := "/v1/indexes/sample/chunks/" + retrievetest.ChunkID(retrievetest.Sample()[1], 0).String()
	for path, keep := range map[string]string{
		"/v1/indexes": "no-cache", "/v1/indexes/sample": "no-cache", "/v1/indexes/sample/generations": "no-cache",
		"/v1/indexes/sample/generations/g1": "no-cache", "/v1/indexes/sample/entities": "no-cache",
		"/v1/indexes/sample/documents": "no-cache", "/openapi.json": "no-cache", chunk: "no-cache",
		"/v1/indexes/sample/documents/cities/oslo.txt/text": "no-cache",
		chunk + "?generation=g1":                            "max-age=86400, immutable",
		"/v1/indexes/sample/entities?generation=g1":         "max-age=86400, immutable",
		cursor("/v1/indexes/sample/documents", "g1", 2):     "max-age=86400, immutable",
	} {
		first := f.send("GET", path, "")
		tag := first.Header().Get("ETag")
		assert.True(t, first.Code == 200 && tag != "" && first.Header().Get("Cache-Control") == keep,
			"%s: %d, ETag %q, Cache-Control %q", path, first.Code, tag, first.Header().Get("Cache-Control"))
		for _, given := range []string{tag, `"other", ` + tag, strings.TrimPrefix(tag, "W/")} {
			again := f.send("GET", path, "", "If-None-Match", given)
			assert.True(t, again.Code == 304 && again.Body.Len() <= 0 && again.Header().Get("ETag") == tag &&
				again.Header().Get("Cache-Control") == keep, "%s with %s: %d %v %s", path, given, again.Code, again.Header(),
				again.Body)
		}
		for _, given := range []string{`"other"`, "*", ""} {
			again := f.send("GET", path, "", "If-None-Match", given)
			assert.True(t, again.Code == 200 && again.Body.Len() != 0, "%s with %q: %d", path, given, again.Code)
		}
	}
	missing := f.send("GET", "/v1/indexes/sample/documents/nowhere", "")
	assert.True(t, missing.Header().Get("ETag") == "" && missing.Header().Get("Cache-Control") == "no-store",
		"an error is kept: %v", missing.Header())
	asked := f.query(question, "Content-Type", "application/json")
	assert.True(t, asked.Header().Get("Cache-Control") == "no-store", "an answer is kept: %v", asked.Header())
}

func TestAnotherGenerationHasAnotherTag(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	for _, path := range []string{"/v1/indexes/sample/documents", "/v1/indexes/sample", "/v1/indexes"} {
		assert.False(t, f.send("GET", path, "").Header().Get("ETag") == f.send("GET", path+"?", "").Header().Get("ETag") &&
			strings.HasSuffix(path, "documents"), "two addresses share a tag")
	}
	old := f.send("GET", "/v1/indexes/sample/documents", "").Header().Get("ETag")
	card := f.send("GET", "/v1/indexes/sample", "").Header().Get("ETag")
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram).Generation == "g2" })
	got := f.send("GET", "/v1/indexes/sample/documents", "", "If-None-Match", old)
	assert.True(t, got.Code == 200, "documents of another generation: %d", got.Code)
	got = f.send("GET", "/v1/indexes/sample", "", "If-None-Match", card)
	assert.True(t, got.Code == 200, "the card of another generation: %d", got.Code)
}

// What a key may read must not be kept by a cache that others use.
func TestAnswersForAKeyArePrivate(t *testing.T) {
	l := lock(t, nil)
	key := l.key(access.Request{Scope: access.Query})
	for _, path := range []string{"/v1/indexes", "/v1/indexes/sample/entities?generation=g1"} {
		header := l.send("GET", path, "", bearer(key.Text)...).Header()
		assert.True(t, strings.HasPrefix(header.Get("Cache-Control"), "private, ") &&
			strings.Contains(strings.Join(header.Values("Vary"), ","), "Authorization"), "%s: %v", path, header)
	}
	operate := l.key(access.Request{Scope: access.Operate})
	at := l.built.Index.GenerationKey("g1", "report.json")
	must(blob.WriteJSON(t.Context(), l.stores.Blobs, at, core.Report{Status: core.StatusCompleted}, blob.Cond{}))(t)
	for text, reported := range map[string]bool{key.Text: false, operate.Text: true} {
		got := l.send("GET", "/v1/indexes/sample/generations/g1", "", bearer(text)...)
		assert.True(t, got.Code == 200 && reported == strings.Contains(got.Body.String(), `"report":{`),
			"%d %s", got.Code, got.Body)
	}
}

// listening serves on a real connection.
func (f *fixture) listening() string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(f.t)
	go func() { _ = f.server.Serve(listener) }()
	return listener.Addr().String()
}

// long is more than anything takes, also on a machine that has much else to do: who waits for it waits for nothing.
const long = 3 * time.Minute

// dial sends the beginning of a request and keeps the connection open.
func dial(t *testing.T, address, text string) net.Conn {
	connection := must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = connection.Close() })
	must(io.WriteString(connection, text))(t)
	return connection
}

// The answer may take long here: a busy server that does not come to write it within WriteTimeout lets go without.
func TestHalfSentBodiesAreToldSoAndLetGo(t *testing.T) {
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Policy.BodyTimeout, config.Policy.WriteTimeout = 500*time.Millisecond, long
	})
	address := f.listening()
	var halves []net.Conn
	for range 300 {
		halves = append(halves, dial(t, address, "POST /v1/indexes/sample/query HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"query\":"))
	}
	until, open, silent := time.Now().Add(long), 0, 0
	for _, connection := range halves {
		_ = connection.SetReadDeadline(until)
		answer, err := io.ReadAll(connection)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			open++
		}
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 Request Timeout")) ||
			!bytes.Contains(answer, []byte(`"body_timeout"`)) {
			silent++
		}
	}
	assert.True(t, open <= 0 && silent <= 0,
		"of %d half-sent bodies %d stay open, and %d get no answer", len(halves), open, silent)
}

func TestClientsThatDoNotReadAreLetGo(t *testing.T) {
	const deaf = 30
	large := make([]byte, 16<<20)
	ended := make(chan error, deaf)
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Policy.WriteTimeout = 500 * time.Millisecond
		config.Extra = map[string]http.Handler{"/large/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(large)
			ended <- err
		})}
	})
	address := f.listening()
	for range deaf {
		dial(t, address, "GET /large/ HTTP/1.1\r\nHost: localhost\r\n\r\n") // and nothing is read
	}
	patience := time.After(long)
	for i := range deaf {
		select {
		case err := <-ended:
			assert.Error(t, err, "a client that does not read got everything")
		case <-patience:
			t.Fatalf("%d of %d clients that do not read are let go", i, deaf)
		}
	}
}

func TestBeyondLoopbackNobodyIsServedWithoutAKey(t *testing.T) {
	f := serve(t, nil)
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = listener.Close() }()
	musttest.Code(t, f.server.Serve(listener), fault.BadConfig, "a server that asks for no key serves the net")
}

// ponder is a method whose work is heavy and goes on until its context ends.
type ponder struct {
	began chan struct{}
	ended chan error
}

func (ponder) Spec() retrieve.Spec {
	return retrieve.Spec{Name: "ponder", Doc: "it goes on", Entities: 1}
}

func (p ponder) Run(r *retrieve.Request) (retrieve.Explanation, error) {
	if err := r.Admit(1e12); err != nil {
		return nil, err
	}
	p.began <- struct{}{}
	<-r.Context().Done()
	p.ended <- r.Context().Err()
	return nil, r.Context().Err()
}

// doors are the ways to ask a question by the method.
var doors = map[string]struct{ path, body string }{
	"a query":  {sampleQuery, `{"query":"Oslo?","method":"ponder"}`},
	"a stream": {sampleQuery, `{"query":"Oslo?","method":"ponder","answer":true,"stream":true}`},
	"MCP": {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":` +
		`{"index":"sample","query":"Oslo?","method":"ponder"}}}`},
	"chat": {"/v1/chat/completions", `{"model":"unweaver/sample","messages":[{"role":"user","content":"Oslo?"}],` +
		`"unweaver":{"method":"ponder"}}`},
	"chat as a stream": {"/v1/chat/completions", `{"model":"unweaver/sample","stream":true,` +
		`"messages":[{"role":"user","content":"Oslo?"}],"unweaver":{"method":"ponder"}}`},
}

func TestHeavyWorkIsBoundedAndEndsWithItsCaller(t *testing.T) {
	method := ponder{make(chan struct{}), make(chan error, 64)}
	registry, err := retrieve.NewRegistry(append(methods.Registry().All(), method)...)
	require.NoError(t, err)
	f := serve(t, func(_ *fixture, config *api.Config) { config.Methods = registry })
	f.unchecked = true // it is described with the methods of the program
	address := "http://" + f.listening()
	ask := func(ctx context.Context, path, body string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, "POST", address+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil, err
		}
		request.Host = "localhost"
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		return http.DefaultClient.Do(request)
	}
	for name, door := range doors {
		var leave []context.CancelFunc
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			go func() {
				for ctx.Err() == nil { // the one before may not have left its place yet
					if response, err := ask(ctx, door.path, door.body); err == nil {
						_ = response.Body.Close()
					}
				}
			}()
			<-method.began
		}
		for other, door := range doors {
			response := must(ask(t.Context(), door.path, door.body))(t)
			var reported bytes.Buffer
			_, _ = bufio.NewReader(response.Body).WriteTo(&reported)
			_ = response.Body.Close()
			waits := response.StatusCode == 429 && response.Header.Get("Retry-After") != ""
			if !waits && !strings.Contains(reported.String(), "try again in") || !strings.Contains(reported.String(), "expensive") {
				t.Errorf("%s beside heavy work by %s: %d %v %s", other, name, response.StatusCode, response.Header, &reported)
			}
		}
		out := f.ask(object{"query": "What is the capital of Norway?"})
		assert.Nil(t, out.Reason, "an ordinary question beside heavy work by %s", name)
		for _, cancel := range leave {
			cancel()
			err := <-method.ended
			assert.True(t, errors.Is(err, context.Canceled), fmt.Errorf("%s left: %w", name, err))
		}
	}
}

// Signed hints are kept, once each; everything else is refused in words that do not say which indexes there are.
func TestHintsAreTakenWithAFreshSignatureOfTheirIndexAlone(t *testing.T) {
	const secret = "0123456789abcdef"
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.HintSecrets = map[string]string{"sample": secret}
		config.Policy.Required = true
	})
	send := func(index, id, key, body string, at time.Time) (int, string) {
		stamp := strconv.FormatInt(at.Unix(), 10)
		signature := "v1,old " + webhook.Sign(key, id, stamp, []byte(body))
		if key == "none" {
			signature = ""
		}
		recorder := f.send(http.MethodPost, "/v1/indexes/"+index+"/hints", body, "Content-Type", "application/json",
			webhook.HeaderID, id, webhook.HeaderTimestamp, stamp, webhook.HeaderSignature, signature)
		return recorder.Code, recorder.Body.String()
	}
	now, good := time.Now(), `{"keys":["a.md","sub/b.md"]}`
	unread := strings.Repeat(" ", 65<<10) // who reads it refuses its size
	for name, tc := range map[string]struct {
		index, id, key, body string
		at                   time.Time
		status               int
		says                 string
	}{
		"signed":             {"sample", "1", secret, good, now, 202, `"keys":2`},
		"another secret":     {"sample", "2", "fedcba9876543210", good, now, 401, "takes no hints"},
		"an empty secret":    {"sample", "3", "", good, now, 401, "takes no hints"},
		"another index":      {"other", "4", secret, good, now, 401, "takes no hints"},
		"no secret, no hint": {"other", "4", "", good, now, 401, "takes no hints"},
		"too old":            {"sample", "5", secret, unread, now.Add(-6 * time.Minute), 401, "5 minutes"},
		"too early":          {"sample", "6", secret, good, now.Add(6 * time.Minute), 401, "5 minutes"},
		"no id":              {"sample", "", secret, unread, now, 401, "header is missing"},
		"no signature":       {"sample", "12", "none", unread, now, 401, "header is missing"},
		"signed, too large":  {"sample", "13", secret, unread, now, 413, "64 KiB"},
		"outside":            {"sample", "7", secret, `{"keys":["../../etc/passwd"]}`, now, 422, "outside"},
		"too long":           {"sample", "8", secret, `{"keys":["` + strings.Repeat("k", 1025) + `"]}`, now, 422, "1,024"},
		"none":               {"sample", "9", secret, `{"keys":[]}`, now, 422, "1 to 1000"},
		"too many":           {"sample", "10", secret, `{"keys":["k"` + strings.Repeat(`,"k"`, 1e3) + `]}`, now, 422, "1001"},
		"misspelt":           {"sample", "11", secret, `{"key":["a.md"]}`, now, 422, "unknown field"},
	} {
		status, says := send(tc.index, tc.id, tc.key, tc.body, tc.at)
		assert.True(t, status == tc.status && strings.Contains(says, tc.says), "%s: %d %s", name, status, says)
	}
	status, says := send("sample", "1", secret, good, now)
	require.Equal(t, 202, status, says)
	kept := 0
	for _, err := range f.store.List(t.Context(), "sample/hints/inbox/", "") {
		require.NoError(t, err)
		kept++
	}
	assert.Equal(t, 1, kept, "a request that is sent again is kept once")
	for i := range core.MostDeliveries - 1 {
		musttest.Get(blob.Write(t.Context(), f.store, fmt.Sprintf("sample/hints/inbox/%d.json", i), []byte("[]"), blob.Cond{}))(t)
	}
	status, says = send("sample", "14", secret, good, now)
	assert.True(t, status == 429 && strings.Contains(says, "wait for a build"), "a full inbox: %d %s", status, says)
	for _, path := range []string{"/v1/indexes/sample", "/v1/indexes/sample/hints", "/v1/indexes/sample%2Fhints"} {
		assert.Equal(t, http.StatusUnauthorized, f.send(http.MethodGet, path, "").Code, "%s needs a key still", path)
	}
	assert.Equal(t, http.StatusUnauthorized, f.send(http.MethodPost, "/v1/indexes/sample%2Fhints", "").Code)
}
