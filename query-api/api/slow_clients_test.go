package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// listening serves on a real connection.
func (f *fixture) listening() string {
	f.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f.t, err)
	go func() { _ = f.server.Serve(listener) }()
	return listener.Addr().String()
}

// long is more than anything takes, also on a machine that has much else to do: who waits for it waits for nothing.
const long = 3 * time.Minute

// dial sends the beginning of a request and keeps the connection open.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	_, err = io.WriteString(connection, text)
	require.NoError(t, err)
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

// A busy machine may need longer than a timeout of the test's for what no timeout is about; with a longer one it does
// not. A server that counts the time of its work as the client's fails with each.
func TestAnAnswerMayTakeLongerThanABody(t *testing.T) {
	var last string
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second} {
		if last = answeredLate(t, timeout); last == "" {
			return
		}
	}
	t.Error(last)
}

// answeredLate asks twice on one connection for what takes four times as long as bodies and writes may; what goes wrong
// is what it gives.
func answeredLate(t *testing.T, timeout time.Duration) string {
	t.Helper()
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Policy.BodyTimeout, config.Policy.WriteTimeout, config.Timeout = timeout, timeout, long
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return late{inner, 4 * timeout} }}
	})
	url := "http://" + f.listening() + "/v1/indexes/sample/query"
	for _, query := range []string{"Oslo", "Bergen"} { // the vector of a question is kept
		began := time.Now()
		response, err := http.Post(url, "application/json", strings.NewReader(`{"query":"`+query+`","method":"vector"}`))
		if err != nil {
			return err.Error()
		}
		_, err = io.Copy(io.Discard, response.Body)
		if closing := response.Body.Close(); err != nil || closing != nil || response.StatusCode != http.StatusOK {
			return fmt.Sprint(response.Status, err, closing)
		}
		took := time.Since(began)
		require.True(t, took >= 4*timeout, "it takes %v: nothing is tested", took)
	}
	return ""
}

type late struct {
	model.Embedder
	by time.Duration
}

func (l late) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	select {
	case <-time.After(l.by):
	case <-ctx.Done():
		return nil, model.Usage{}, ctx.Err()
	}
	return l.Embedder.Embed(ctx, texts)
}

// WithIDF implements model.Weighable: without it the embedder inside would be asked, at once.
func (l late) WithIDF(weight func(stem string) float64) model.Embedder {
	return late{l.Embedder.(model.Weighable).WithIDF(weight), l.by}
}

func TestBeyondLoopbackNobodyIsServedWithoutAKeyUnlessThatIsSaidTwice(t *testing.T) {
	everywhere, local := &net.TCPAddr{IP: net.IPv4zero, Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 1}
	for _, c := range []struct {
		auth     string
		public   bool
		at       net.Addr
		required bool
		refused  bool
	}{
		{"auto", false, everywhere, true, false}, {"auto", false, local, false, false},
		{"required", false, local, true, false}, {"required", false, everywhere, true, false},
		{"none", false, local, false, false}, {"none", false, everywhere, false, true},
		{"none", true, everywhere, false, false}, {"auto", true, everywhere, true, false},
	} {
		policy, err := middleware.NewPolicy(config.QueryAPI{Auth: c.auth, Public: c.public}, c.at, nil)
		assert.True(t, (err != nil) == c.refused && policy.Required == c.required, "%+v: %+v %v", c, policy, err)
	}
	f := serve(t, nil)
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = listener.Close() }()
	if err := f.server.Serve(listener); !fault.Is(err, fault.BadConfig) {
		t.Errorf("a server that asks for no key serves the net: %v", err)
	}
}

func BenchmarkQueryWithAndWithoutAKey(b *testing.B) {
	store := blobmemory.New()
	made, err := access.Book{Store: store}.CreateKey(b.Context(), access.Request{Scope: access.Query})
	require.NoError(b, err)
	ring := access.NewRing(store, slog.New(slog.DiscardHandler), nil)
	require.NoError(b, ring.Refresh(b.Context()))
	done := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	fail := func(w http.ResponseWriter, _ *http.Request, err error) { b.Fatal(err) }
	limits := access.Limits{RequestsPerSecond: 1e9, Burst: 1e9, Concurrency: 100}
	for name, handler := range map[string]http.Handler{
		"without a guard": done,
		"with a key": middleware.New(middleware.Policy{Keys: ring, Required: true, AnyHost: true, Limits: limits}, fail).
			Wrap(done, func(string) bool { return false }),
	} {
		b.Run(name, func(b *testing.B) {
			request := httptest.NewRequest(http.MethodPost, "/v1/indexes/sample/query", http.NoBody)
			request.Header.Set("Authorization", "Bearer "+made.Text)
			request.Header.Set("Content-Type", "application/json")
			for b.Loop() {
				handler.ServeHTTP(httptest.NewRecorder(), request)
			}
		})
	}
}
