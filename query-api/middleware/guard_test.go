package middleware_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
)

// Promises: 103.
func TestEveryPageMayAskOnlyWhereKeysAreRequired(t *testing.T) {
	settings := config.Default().QueryAPI
	settings.CORS.Origins = []string{middleware.AnyOrigin}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	if _, err := middleware.NewPolicy(settings, local, nil); err == nil || !strings.Contains(err.Error(), "cors.origins") {
		t.Errorf("every page may ask a server without keys: %v", err)
	}
	settings.Auth = "required"
	policy, err := middleware.NewPolicy(settings, local, nil)
	assert.True(t, err == nil && len(policy.Origins) == 1, "%v %v", policy.Origins, err)
	settings.Auth, settings.CORS.Origins = "auto", []string{"https://app.example.org"}
	_, err = middleware.NewPolicy(settings, local, nil)
	assert.NoError(t, err, "one origin on loopback")
}

// A refusal ends a connection only where the rest of a body would have to be read: others keep theirs.
func TestARefusalEndsAConnectionOnlyForItsBody(t *testing.T) {
	stand := middleware.New(middleware.Policy{Required: true, AnyHost: true},
		func(w http.ResponseWriter, _ *http.Request, _ error) {
			problem.WriteJSON(w, http.StatusUnauthorized, nil)
		})
	handler := stand.Wrap(http.NotFoundHandler(), func(*http.Request) bool { return false })
	for name, c := range map[string]struct {
		body  string
		major int
		want  string
	}{"a body": {"{}", 1, "close"}, "no body": {"", 1, ""}, "HTTP/2": {"{}", 2, ""}} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/indexes", strings.NewReader(c.body))
		request.ProtoMajor = c.major
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		assert.Equal(t, http.StatusUnauthorized, answer.Code, name)
		assert.Equal(t, c.want, answer.Header().Get("Connection"), name)
	}
}

// silent takes an answer and forgets it.
type silent struct{ header http.Header }

func (s silent) Header() http.Header         { return s.header }
func (s silent) Write(p []byte) (int, error) { return len(p), nil }
func (s silent) WriteHeader(int)             {}

// BenchmarkGuard measures what a request with a valid key costs before its route sees it, without a quota and with one
// that is counted in this process.
func BenchmarkGuard(b *testing.B) {
	many := 1e15
	quota := []config.Quota{{Keys: "*", Requests: &many}}
	b.Run("plain", func(b *testing.B) { benchmarkGuard(b, nil) })
	b.Run("quota", func(b *testing.B) {
		benchmarkGuard(b, middleware.NewQuotas(quota, memory.NewQuotas(nil), slog.New(slog.DiscardHandler), nil))
	})
}

func benchmarkGuard(b *testing.B, quotas *middleware.Quotas) {
	store := blobmemory.New()
	made, err := access.Book{Store: store}.CreateKey(b.Context(), access.Request{Scope: access.Query})
	require.NoError(b, err)
	ring := access.NewRing(store, slog.New(slog.DiscardHandler), nil)
	require.NoError(b, ring.Refresh(b.Context()))
	stand := middleware.New(
		middleware.Policy{
			Keys: ring, Required: true, AnyHost: true, Quotas: quotas,
			Limits: access.Limits{RequestsPerSecond: 1e9, Burst: 1e6, Concurrency: 1000},
		},
		func(_ http.ResponseWriter, _ *http.Request, err error) { b.Fatal(err) },
	)
	passed := 0
	handler := stand.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }),
		func(*http.Request) bool { return false })
	request := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/indexes/sample/query", http.NoBody)
	request.Header.Set("Authorization", "Bearer "+made.Text)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(silent{http.Header{}}, request)
	}
	require.True(b, passed != 0, "no request got through")
}

func TestABodyThatIsNoJSONIsRefusedWithItsPlace(t *testing.T) {
	for body, why := range map[string]string{
		``: "the body is empty", ` {"query": "x`: "ends in the middle of a JSON value (byte 13)",
		`{"query": x}`:          "no JSON at byte 10: invalid character 'x'",
		"{\"query\": \"\xff\"}": "no JSON at byte 11: invalid UTF-8",
		`{"query": "\ud800"}`:   "no JSON at byte 11: invalid surrogate pair",
		`{} {}`:                 "something follows the JSON object at byte 2",
	} {
		err := middleware.CheckJSON([]byte(body))
		assert.True(t, fault.Is(err, fault.Usage), "%q: %v", body, err)
		assert.ErrorContains(t, err, why)
	}
	assert.NoError(t, middleware.CheckJSON([]byte(" {\"query\": \"\ufffd\", \"query\": 1}\n")))
}

func TestBodiesAreNestedToALimit(t *testing.T) {
	nested := func(levels int, inside string) string {
		return strings.Repeat("[", levels) + inside + strings.Repeat("]", levels)
	}
	for name, c := range map[string]struct {
		body string
		fits bool
	}{
		"as deep as may be":        {nested(32, `1`), true},
		"a level more":             {nested(33, ``), false},
		"never ended":              {strings.Repeat("[", 60), false},
		"beside each other":        {nested(1, strings.Repeat(`[],{},`, 100)+`1`), true},
		"brackets of a text":       {`{"query":"` + strings.Repeat("[", 60) + `"}`, true},
		"after a quote in a text":  {`{"query":"\"` + strings.Repeat("[", 60) + `"}`, true},
		"after a text that ends":   {`{"query":"\\","a":` + strings.Repeat("[", 60), false},
		"a text that never ends":   {`{"query":"\`, true},
		"at the end of a long one": {`[` + strings.Repeat(`"",`, 10_000) + nested(32, ``) + `]`, false},
	} {
		err := middleware.CheckJSON([]byte(c.body)) // some are no JSON
		assert.Equal(t, err == nil || !strings.Contains(err.Error(), "nested more than 32"), c.fits, "%s: %v", name, err)
	}
}
