package middleware_test

import (
	"context"
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
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/query-api/middleware"
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

// silent takes an answer and forgets it.
type silent struct{ header http.Header }

func (s silent) Header() http.Header         { return s.header }
func (s silent) Write(p []byte) (int, error) { return len(p), nil }
func (s silent) WriteHeader(int)             {}

// BenchmarkGuard measures what a request with a valid key costs before its route sees it.
func BenchmarkGuard(b *testing.B) {
	store := blobmemory.New()
	made, err := access.Book{Store: store}.CreateKey(b.Context(), access.Request{Scope: access.Query})
	require.NoError(b, err)
	ring := access.NewRing(store, slog.New(slog.DiscardHandler), nil)
	require.NoError(b, ring.Refresh(b.Context()))
	stand := middleware.New(
		middleware.Policy{
			Keys: ring, Required: true, AnyHost: true,
			Limits: access.Limits{RequestsPerSecond: 1e9, Burst: 1e6, Concurrency: 1000},
		},
		func(_ http.ResponseWriter, _ *http.Request, err error) { b.Fatal(err) },
	)
	passed := 0
	handler := stand.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }),
		func(string) bool { return false })
	request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/indexes/sample/query",
		http.NoBody)
	request.Header.Set("Authorization", "Bearer "+made.Text)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(silent{http.Header{}}, request)
	}
	require.True(b, passed != 0, "no request got through")
}
