package api_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob/memory"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/guard"
)

// listening serves on a real connection.
func (f *fixture) listening() string {
	f.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	go func() { _ = f.server.Serve(listener) }()
	return listener.Addr().String()
}

func TestHalfSentBodiesAndClientsThatDoNotReadAreLetGo(t *testing.T) {
	large := make([]byte, 16<<20)
	ended := make(chan error, 100)
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Policy.BodyTimeout, config.Policy.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond
		config.Extra = map[string]http.Handler{"/large/": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(large)
			ended <- err
		})}
	})
	address := f.listening()
	dial := func(text string) net.Conn {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		if _, err := io.WriteString(connection, text); err != nil {
			t.Fatal(err)
		}
		return connection
	}
	const deaf = 30
	for range deaf {
		dial("GET /large/ HTTP/1.1\r\nHost: localhost\r\n\r\n") // and nothing is read
	}
	var halves []net.Conn
	for range 300 {
		halves = append(halves, dial("POST /v1/indexes/sample/query HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"query\":"))
	}
	until, open := time.Now().Add(10*time.Second), 0
	for _, connection := range halves {
		_ = connection.SetReadDeadline(until)
		answer, err := io.ReadAll(connection)
		if err != nil || !bytes.Contains(answer, []byte("408 Request Timeout")) {
			open++
		}
	}
	if open > 0 {
		t.Errorf("%d of %d half-sent bodies stay open, or are told nothing", open, len(halves))
	}
	for i := range deaf {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a client that does not read got everything")
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d clients that do not read are let go", i, deaf)
		}
	}
}

func TestAnAnswerMayTakeLongerThanABody(t *testing.T) {
	f := serve(t, func(_ *fixture, config *api.Config) {
		config.Policy.BodyTimeout, config.Policy.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder { return late{inner} }}
	})
	url := "http://" + f.listening() + "/v1/indexes/sample/query"
	for range 2 { // on one connection
		response, err := http.Post(url, "application/json", strings.NewReader(`{"query":"Oslo","method":"vector"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, _ = io.Copy(io.Discard, response.Body); response.StatusCode != http.StatusOK {
			t.Errorf("%s", response.Status)
		}
		_ = response.Body.Close()
	}
}

type late struct{ model.Embedder }

func (l late) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	select {
	case <-time.After(400 * time.Millisecond):
	case <-ctx.Done():
		return nil, model.Usage{}, ctx.Err()
	}
	return l.Embedder.Embed(ctx, texts)
}

func (l late) Unwrap() model.Embedder { return l.Embedder }

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
		policy, err := guard.NewPolicy(config.QueryAPI{Auth: c.auth, Public: c.public}, c.at, nil)
		if (err != nil) != c.refused || policy.Required != c.required {
			t.Errorf("%+v: %+v %v", c, policy, err)
		}
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
	store := memory.New()
	made, err := access.Book{Store: store}.CreateKey(b.Context(), access.Request{Scope: access.Query})
	if err != nil {
		b.Fatal(err)
	}
	ring := access.NewRing(store, slog.New(slog.DiscardHandler), nil)
	if err := ring.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	done := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	fail := func(w http.ResponseWriter, _ *http.Request, err error) { b.Fatal(err) }
	limits := access.Limits{RequestsPerSecond: 1e9, Burst: 1e9, Concurrency: 100}
	for name, handler := range map[string]http.Handler{
		"without a guard": done,
		"with a key": guard.New(guard.Policy{Keys: ring, Required: true, AnyHost: true, Limits: limits}, fail).
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
