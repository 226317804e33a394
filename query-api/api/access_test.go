package api_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/query-api/api"
)

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
func (l *lines) of(t *testing.T, message string) (out []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var fields map[string]any
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

func (f *fixture) as(method, path, id string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(f.t.Context(), method, path, nil)
	request.Host = "localhost:8080"
	if id != "" {
		request.Header.Set(api.HeaderRequestID, id)
	}
	f.server.Handler().ServeHTTP(recorder, request)
	return recorder
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
		got := f.as("GET", c.path, c.sent)
		id := got.Header().Get(api.HeaderRequestID)
		assert.True(t, got.Code == c.status && id != "" && (id == c.sent) == c.kept, "%s: %d, id %q", name, got.Code, id)
		entries := log.of(t, "request")[before:]
		require.Len(t, entries, 1, "%s", name)
		entry := entries[0]
		assert.True(t, entry["request_id"] == id && entry["status"] == float64(c.status) && entry["route"] == c.route,
			"%s: %v", name, entry)
		if c.status == http.StatusOK {
			continue
		}
		var problem api.Problem
		err := json.Unmarshal(got.Body.Bytes(), &problem)
		assert.True(t, err == nil && problem.RequestID == id, "%s: %v, %s", name, err, got.Body)
	}
	assert.False(t, strings.Contains(log.text.String(), "document.pdf"), "the log holds a path: %s", log.text.String())
}

// What machines ask every few seconds is no news, unless it fails.
func TestProbesAreNotLogged(t *testing.T) {
	f, log := logged(t)
	for _, path := range []string{"/livez", "/metrics"} {
		require.Equal(t, http.StatusOK, f.as("GET", path, "").Code, "%s", path)
	}
	if entries := log.of(t, "request"); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
}

func TestRefusedRequestsAreLoggedAndCounted(t *testing.T) {
	f, log := logged(t)
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/indexes", nil)
	request.Host = "attacker.example"
	recorder := httptest.NewRecorder()
	f.server.Handler().ServeHTTP(recorder, request)
	entries := log.of(t, "request")
	assert.True(t, recorder.Code == http.StatusMisdirectedRequest && len(entries) == 1 && entries[0]["status"] == 421.0,
		"%d, %v", recorder.Code, entries)
	metrics := f.as("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`unweaver_refused_total{code="misdirected"} 1`,
		`unweaver_http_request_seconds_count{route="none",status="Misdirected Request"} 1`,
		"go_goroutines ", "unweaver_build_info{",
	} {
		assert.Contains(t, metrics, want, "metrics lack")
	}
}
