package api_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/query-api/api"
)

// An address that takes other methods says which, whatever it is asked with; HEAD is a GET without its body.
func TestEveryAddressSaysWhichMethodsItTakes(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	for path, allow := range map[string]string{
		"/v1/indexes": "GET, HEAD, OPTIONS", "/v1/indexes/sample/query": "POST, OPTIONS", "/": "GET, HEAD, OPTIONS",
		"/openapi.json": "GET, HEAD, OPTIONS", "/livez": "GET, HEAD, OPTIONS",
	} {
		got := f.send("OPTIONS", path, "")
		if got.Code != http.StatusNoContent || got.Header().Get("Allow") != allow || got.Body.Len() > 0 {
			t.Errorf("OPTIONS %s: %d, Allow %q, %s", path, got.Code, got.Header().Get("Allow"), got.Body)
		}
		for _, method := range []string{"DELETE", "PUT", "TRACE"} {
			got := f.send(method, path, "")
			said := strings.Split(got.Header().Get("Allow"), ", ")
			if got.Code != http.StatusMethodNotAllowed || len(said) != strings.Count(allow, ",")+1 ||
				!strings.Contains(got.Body.String(), `"code":"method_not_allowed"`) {
				t.Errorf("%s %s: %d, Allow %v, %s", method, path, got.Code, said, got.Body)
			}
		}
	}
	address := "http://" + f.listening()
	for _, path := range []string{"/v1/indexes", "/v1/indexes/sample/entities", "/openapi.json", "/"} {
		head, err := http.Head(address + path)
		require.NoError(t, err)
		body, _ := io.ReadAll(head.Body)
		_ = head.Body.Close()
		assert.True(t, head.StatusCode == http.StatusOK && len(body) == 0 && head.Header.Get("Content-Type") != "",
			"HEAD %s: %d %v", path, head.StatusCode, head.Header)
	}
}

func TestAnswersArePackedForWhoAcceptsIt(t *testing.T) {
	f := serve(t, nil)
	plain := f.send("GET", "/openapi.json", "")
	packed := f.send("GET", "/openapi.json", "", "Accept-Encoding", "gzip")
	if plain.Header().Get("Content-Encoding") != "" || packed.Header().Get("Content-Encoding") != "gzip" ||
		!strings.Contains(strings.Join(packed.Header().Values("Vary"), ","), "Accept-Encoding") {
		t.Errorf("%v and %v", plain.Header(), packed.Header())
	}
	size := packed.Body.Len()
	reader, err := gzip.NewReader(packed.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	assert.True(t, err == nil && string(text) == plain.Body.String() && size <= len(text)/4,
		"%d bytes of %d: %v", size, len(text), err)
	if got := f.send("GET", "/livez", "", "Accept-Encoding", "gzip"); got.Header().Get("Content-Encoding") != "" {
		t.Error("a short answer is packed")
	}
	got := f.send("GET", "/nowhere", "", "Accept-Encoding", "gzip")
	assert.True(t, got.Code == 404 && json.Valid(got.Body.Bytes()), "%d %v %q", got.Code, got.Header(), got.Body)
}

// What a handler flushes arrives at once, whether the client accepts packed answers or not.
func TestAStreamOfEventsArrivesWhileItIsWritten(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Extra = map[string]http.Handler{"/events/": http.HandlerFunc(
			func(w http.ResponseWriter, request *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: first\n\n")
				assert.NoError(t, http.NewResponseController(w).Flush())
				select {
				case <-end:
				case <-request.Context().Done():
				}
			})}
	})
	address := "http://" + f.listening()
	for _, accepts := range []string{"gzip", "identity"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events/", nil)
		require.NoError(t, err)
		request.Header.Set("Accept-Encoding", accepts)
		client := http.Client{Timeout: long}
		response, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: nothing arrives: %v", accepts, err)
			continue
		}
		first := make([]byte, len("data: first\n\n"))
		if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "data: first\n\n" ||
			response.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %q, %v, %v", accepts, first, response.Header, err)
		}
		_ = response.Body.Close()
	}
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
		"/v1/indexes", "/v1/indexes/sample/query", "/v1/indexes/sample/documents/a/text", "/readyz", "/nowhere",
	} {
		got := l.send("OPTIONS", path, "", preflight...)
		header := got.Header()
		if got.Code != http.StatusNoContent || header.Get("Access-Control-Allow-Origin") != pageOrigin ||
			!strings.Contains(header.Get("Access-Control-Allow-Headers"), "Authorization") ||
			!strings.Contains(header.Get("Access-Control-Allow-Methods"), "POST") ||
			!strings.Contains(header.Get("Vary"), "Origin") || header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %v", path, got.Code, header)
		}
	}
	from := []string{"Origin", pageOrigin, "Sec-Fetch-Site", "cross-site"}
	got := l.send("POST", "/v1/indexes/sample/query", question, append(from, bearer(key.Text)...)...)
	if got.Code != 200 || got.Header().Get("Access-Control-Allow-Origin") != pageOrigin ||
		!strings.Contains(got.Header().Get("Access-Control-Expose-Headers"), "ETag") {
		t.Errorf("with a key: %d %v", got.Code, got.Header())
	}
	got = l.send("POST", "/v1/indexes/sample/query", question, append(from, "Content-Type", "application/json")...)
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
		got := l.send(method, "/v1/indexes/sample/query", question, append(headers, bearer(key.Text)...)...)
		assert.True(t, got.Code == http.StatusForbidden && got.Header().Get("Access-Control-Allow-Origin") == "",
			"%s: %d %v", name, got.Code, got.Header())
	}
}
