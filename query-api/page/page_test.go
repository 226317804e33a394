package page_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/page"
	"github.com/unweaver/unweaver/query-api/served"
	"github.com/unweaver/unweaver/query-api/signon"
)

func get(path string, headers ...string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	page.Serve(recorder, request)
	return recorder
}

// paths returns the paths of the files, as they are asked for.
func paths() []string {
	var out []string
	for _, pattern := range page.Paths() {
		out = append(out, strings.TrimSuffix(pattern, "{$}"))
	}
	return out
}

func TestThePageRunsItsOwnFilesAlone(t *testing.T) {
	got := get("/")
	policy, text := got.Header().Get("Content-Security-Policy"), got.Body.String()
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	} {
		assert.Contains(t, policy, want, "the policy has no")
	}
	assert.Equal(t, "same-origin", got.Header().Get("Cross-Origin-Opener-Policy"), "who opened the page can lead it on")
	assert.True(t, !strings.Contains(policy, "unsafe") && !strings.Contains(policy, "*"), "the policy is wide: %s", policy)
	inline := `(?i)<[^>]+\s(on\w+|style)=|javascript:|<style|<script(?:\s+(?:src="page/app.js"|type="module"))*\s*>[^<]`
	assert.False(t, regexp.MustCompile(inline).MatchString(text), "the page has scripts or styles in its markup: %s", text)
	for _, path := range paths() {
		found := regexp.MustCompile(`https?://[^"'\s)]+`).FindAllString(get(path).Body.String(), -1)
		for _, address := range found {
			if !strings.HasPrefix(address, "http://www.w3.org/") { // names of SVG and its like, which no browser fetches
				t.Errorf("%s names %s", path, address)
			}
		}
	}
}

func TestAFileThatABrowserHasIsNotSentAgain(t *testing.T) {
	for _, path := range paths() {
		first := get(path)
		tag := first.Header().Get("ETag")
		assert.True(t, first.Code == http.StatusOK && tag != "" && first.Header().Get("Content-Type") != "",
			"%s: %d %v", path, first.Code, first.Header())
		again := get(path, "If-None-Match", tag)
		assert.True(t, again.Code == http.StatusNotModified && again.Body.Len() == 0, "%s: sent again, %d", path, again.Code)
		changed := get(path, "If-None-Match", `"other"`)
		assert.True(t, changed.Code == http.StatusOK, "%s: a browser that has another one gets %d", path, changed.Code)
	}
	assert.Equal(t, http.StatusNotFound, get("/page/../page.go").Code, "a file that is none of the page's")
}

func TestThePageIsSmall(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	for _, path := range paths() {
		_, _ = writer.Write(get(path).Body.Bytes())
	}
	require.NoError(t, writer.Close())
	t.Logf("%d bytes gzipped", packed.Len())
	assert.True(t, packed.Len() <= 60_000, "%d bytes gzipped, more than 60 000", packed.Len())
}

// Promises: 104.
func TestThePageNeedsNoKeyAndItsDataDoes(t *testing.T) {
	server := serve(t, middleware.Policy{Required: true, Token: token})
	for path, want := range map[string]string{
		"/": "200", "/page/app.js": "200", "/page/style.css": "200", "/page/icon.svg": "200",
		"/page/": "401", "/page/other.js": "401", "/page/../v1/indexes": "401", "/v1/indexes": "401",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(server, "http://")) // no client puts the path right
		require.NoError(t, err)
		_, _ = connection.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
		head := make([]byte, len("HTTP/1.1 200"))
		_, err = io.ReadFull(connection, head)
		assert.True(t, err == nil && string(head[len("HTTP/1.1 "):]) == want, "%s: %q, want %s (%v)", path, head, want, err)
		_ = connection.Close()
	}
}

// Promises: 104.
func TestTheBuiltFilesAreWhatTheSourcesGive(t *testing.T) {
	node := needs(t, "node")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, arguments := range [][]string{{"build.mjs", "--check"}, {"node_modules/typescript/bin/tsc", "--noEmit"}} {
		out, err := exec.CommandContext(ctx, node, arguments...).CombinedOutput()
		assert.NoError(t, err, "node %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

// TestThePageInABrowser runs e2e.mjs against a server that asks for no key and one that does. UNWEAVER_TEST_PAGE takes
// part of a step's name, to run that alone.
func TestThePageInABrowser(t *testing.T) {
	node, chromium := needs(t, "node"), needs(t, "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // half a minute on an idle machine
	defer cancel()
	signOn, provider := serveSignOn(t)
	command := exec.CommandContext(ctx, node, "e2e.mjs", os.Getenv("UNWEAVER_TEST_PAGE"))
	command.Env = append(os.Environ(), "CHROMIUM="+chromium, "TOKEN="+token,
		"OPEN="+serve(t, middleware.Policy{}), "LOCKED="+serve(t, middleware.Policy{Required: true, Token: token}),
		"SIGNON="+signOn, "PROVIDER="+provider)
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	assert.True(t, err == nil, "%v\n%s", err, out)
	t.Logf("%s", out)
}

const token = "the-token-of-this-test"

// needs finds a program, or skips the test and says how to get it.
func needs(t *testing.T, program string) string {
	t.Helper()
	if os.Getenv("UNWEAVER_TEST_BROWSER") == "" {
		t.Skip("UNWEAVER_TEST_BROWSER is not set: make test-servers sets it")
	}
	if _, err := os.Stat(filepath.Join("node_modules", "playwright-core")); err != nil {
		t.Skip("SKIPPED: the page was not tested: its node packages are missing (make browser)")
	}
	for _, name := range []string{program, program + "-browser", "google-" + program} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Skipf("SKIPPED: the page was not tested: %s is missing (make browser; Debian: apt-get install chromium nodejs npm)",
		program)
	return ""
}

// builtIn gives the built-in models.
type builtIn struct{}

func (builtIn) Chat(core.Spec, string) (model.Chat, error) { return builtin.Chat{}, nil }
func (builtIn) Finder(core.Spec) (model.Chat, error)       { return nil, nil } //nolint:nilnil // none is configured
func (builtIn) Ranker(core.Spec) (rerank.Ranker, error)    { return nil, nil } //nolint:nilnil // none is configured

func (builtIn) Embedder(core.Spec, string, int) (model.Embedder, error) {
	return builtin.Embedder{}, nil
}

// serveSignOn starts a server at which Ada signs in, and the identity provider that knows her.
func serveSignOn(t *testing.T) (server, leaves string) {
	provider, err := mockoidc.Run()
	require.NoError(t, err)
	t.Cleanup(func() { _ = provider.Shutdown() })
	for range 5 {
		provider.QueueUser(&mockoidc.MockUser{Subject: "ada", Groups: []string{"staff"}})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	settings := config.Default().QueryAPI.OIDC
	settings.Issuer, settings.ClientID = provider.Issuer(), provider.ClientID
	settings.ClientScopes = []string{"openid", "groups"}
	settings.Audience = "http://" + listener.Addr().String()
	settings.ClientSecretFile = filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(settings.ClientSecretFile, []byte(provider.ClientSecret), 0o600))
	settings.Groups = []config.OIDCGroup{{Group: "staff", Indexes: []string{"sample"}, Scopes: []string{"query"}}}
	policy := middleware.Policy{}
	require.NoError(t, signon.AddTo(&policy, settings, slog.New(slog.DiscardHandler)))
	return serveAt(t, listener, policy), provider.Addr()
}

// serve starts a server with two generations of the sample.
func serve(t *testing.T, policy middleware.Policy) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveAt(t, listener, policy)
}

func serveAt(t *testing.T, listener net.Listener, policy middleware.Policy) string {
	stores := retrievetest.NewStores(t)
	documents := retrievetest.Sample()
	retrievetest.Publish(t, retrievetest.Build(t, stores, "sample", documents[:5], retrievetest.Options{}), 1)
	second := retrievetest.Options{Generation: "g2", Seq: 2}
	retrievetest.Publish(t, retrievetest.Build(t, stores, "sample", documents, second), 2)
	server := api.New(api.Config{
		Models: builtIn{}, Policy: policy,
		Config: served.Config{
			Artifacts: stores.Blobs, Records: stores.Records, Readers: stores.Readers, Runs: stores.Readers,
			Vectors: stores.Vectors,
			Cache:   stores.Cache, Log: slog.New(slog.DiscardHandler),
		},
	})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
	return "http://" + listener.Addr().String()
}
