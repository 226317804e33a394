package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordination "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/served"
)

// object is one of JSON.
type object = map[string]any

const sampleQuery = "/v1/indexes/sample/query"

// models are the built-in ones, unless a test puts others in front.
type models struct {
	embedder func(model.Embedder) model.Embedder
	chat     model.Chat
	ranker   rerank.Ranker
}

func (m models) Chat(core.Spec, string) (model.Chat, error) {
	if m.chat != nil {
		return m.chat, nil
	}
	return builtin.Chat{}, nil
}

func (m models) Embedder(core.Spec, string, int) (model.Embedder, error) {
	if m.embedder != nil {
		return m.embedder(builtin.Embedder{}), nil
	}
	return builtin.Embedder{}, nil
}

func (m models) Ranker(core.Spec) (rerank.Ranker, error) { return m.ranker, nil }

// watched counts reads of the artifact store and can hold or fail them.
type watched struct {
	blob.Store
	mu      sync.Mutex
	gets    map[string]int
	hold    map[string]chan struct{} // reads of keys that contain the text wait until it is closed, or until ctx ends
	failure error
	failing string           // the failure is that of keys that contain this
	wrote   func(key string) // after every write; nil: nothing
}

func (w *watched) Put(ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond) (blob.Info, error) {
	info, err := w.Store.Put(ctx, key, body, size, cond)
	w.mu.Lock()
	wrote := w.wrote
	w.mu.Unlock()
	if wrote != nil && err == nil {
		wrote(key)
	}
	return info, err
}

func watch(store blob.Store) *watched {
	return &watched{Store: store, gets: map[string]int{}, hold: map[string]chan struct{}{}}
}

func (w *watched) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	w.mu.Lock()
	w.gets[key]++
	var failure error
	if strings.Contains(key, w.failing) {
		failure = w.failure
	}
	var wait chan struct{}
	for part, hold := range w.hold {
		if strings.Contains(key, part) {
			wait = hold
		}
	}
	w.mu.Unlock()
	if failure != nil {
		return nil, blob.Info{}, failure
	}
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, blob.Info{}, ctx.Err()
		}
	}
	return w.Store.Get(ctx, key, r)
}

// stall lets reads of keys wait until the function that it gives is called.
func (w *watched) stall(part string) func() {
	hold := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold[part] = hold
	return sync.OnceFunc(func() {
		w.mu.Lock()
		delete(w.hold, part)
		w.mu.Unlock()
		close(hold)
	})
}

func (w *watched) reads(part string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for key, count := range w.gets {
		if strings.Contains(key, part) {
			n += count
		}
	}
	return n
}

// fail has reads of keys that contain a text fail; nil: none.
func (w *watched) fail(part string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing, w.failure = part, err
}

// fixture is a server over real stores with one index, "sample".
type fixture struct {
	t      testing.TB
	stores retrievetest.Stores
	store  *watched
	server *api.Server
	built  retrievetest.Built
	runs   *coordination.Store

	here      bool   // requests come from this machine
	token     string // that do sends; empty: none
	unchecked bool   // answers are not compared with the description
}

// serve publishes the sample and starts a server; edit may change its configuration, and what is published before.
func serve(t testing.TB, edit func(*fixture, *api.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, stores: retrievetest.NewStores(t)}
	f.store = watch(f.stores.Blobs)
	f.runs = coordination.New()
	f.built = retrievetest.Build(t, f.stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	retrievetest.Publish(t, f.built, 1)
	config := api.Config{Models: models{}, Config: served.Config{
		Artifacts: f.store, Records: f.stores.Records, Readers: f.stores.Readers, Runs: f.runs, Vectors: f.stores.Vectors,
		Cache: f.stores.Cache, Log: slog.New(slog.DiscardHandler), Timeout: long,
	}}
	if edit != nil {
		edit(f, &config)
	}
	f.server = api.New(config)
	t.Cleanup(f.shutdown)
	return f
}

func (f *fixture) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	assert.NoError(f.t, f.server.Shutdown(ctx), "shutdown")
}

// do sends a request and decodes the answer.
func (f *fixture) do(method, path string, body any) (int, object, http.Header) {
	var sent io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		sent = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		require.NoError(f.t, err)
		sent = bytes.NewReader(raw)
	}
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(f.t.Context(), method, path, sent)
	request.Host = "localhost:8080"
	if f.here {
		request.RemoteAddr = "127.0.0.1:40000"
	}
	if sent != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if f.token != "" {
		request.Header.Set("Authorization", "Bearer "+f.token)
	}
	f.server.Handler().ServeHTTP(recorder, request)
	f.asDescribed(request, recorder)
	var out object
	if strings.Contains(recorder.Header().Get("Content-Type"), "json") {
		err := json.Unmarshal(recorder.Body.Bytes(), &out)
		assert.True(f.t, err == nil, "%s %s: %v in %q", method, path, err, recorder.Body)
	}
	return recorder.Code, out, recorder.Header()
}

func (f *fixture) get(path string) object {
	status, out, _ := f.do("GET", path, nil)
	require.True(f.t, status == 200, "GET %s: %d %v", path, status, out)
	return out
}

// refuse sends a request that is refused with a status and a code (empty: any), and returns the problem.
func (f *fixture) refuse(status int, code, method, path string, body any) object {
	f.t.Helper()
	got, out, _ := f.do(method, path, body)
	assert.True(f.t, got == status && (code == "" || out["code"] == code), "%s %s %v: %d %v", method, path, body, got, out)
	return out
}

// ask asks the sample a question that it answers.
func (f *fixture) ask(body object) (out answer.Response) {
	f.asked(sampleQuery, body, &out)
	return out
}

// askRaw gives the fields of an answer as they came.
func (f *fixture) askRaw(body object) (out object) {
	f.asked(sampleQuery, body, &out)
	return out
}

func (f *fixture) asked(path string, body object, out any) {
	f.t.Helper()
	got := f.send("POST", path, string(must(json.Marshal(body))(f.t)), "Content-Type", "application/json")
	require.Equal(f.t, 200, got.Code, "query %v: %s", body, got.Body)
	require.NoError(f.t, json.Unmarshal(got.Body.Bytes(), out))
}

// reasonOf returns why nothing was found; empty: something was.
func reasonOf(out answer.Response) string {
	if out.Reason == nil {
		return ""
	}
	return *out.Reason
}

// eventually waits for something that the server does beside requests.
var eventually = musttest.Reach

// publishNext publishes a second generation, with one document less, under the next epoch.
func (f *fixture) publishNext(epoch int64) retrievetest.Built {
	f.t.Helper()
	documents := retrievetest.Sample()[:5]
	built := retrievetest.Build(f.t, f.stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
	retrievetest.Publish(f.t, built, epoch)
	return built
}

// must returns the value of a call that has to succeed.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
