// Package modeltest is a model server for tests and benchmarks: it speaks the contract of model servers over HTTP
// (docs/reference/formats.md, Model servers), replays recorded extractions where it knows a passage and extracts by
// rule elsewhere, injects faults on demand, and keeps a book of what was asked and paid, so that a caller that pays
// twice, or after it said that it would not, is seen. It is a measuring device, not a model.
package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Options of a server; all may be changed while it runs through Set.
type Options struct {
	Latency      time.Duration // of a chat call
	EmbedLatency time.Duration
	Dimension    int    // of embeddings; 0 = 256
	Poison       string // prompts with this string always get garbage
	Key          string // not empty: calls must carry it
	Blind        bool   // pictures are refused
	Shuffle      bool   // embeddings come in another order, with their index
	Drop         int    // embeddings: this many are left out
	NaN, Zero    bool   // embeddings: the first vector is NaN, or zero
	Float        bool   // embeddings as numbers even when base64 is asked for

	// Script decides about each request, in place of latencies. It is called concurrently.
	Script func(Seen) Injection
}

// Server is an http.Handler with a book.
type Server struct {
	mu       sync.Mutex
	opt      Options
	recorded map[string][]byte // first bytes of a passage -> {"entities":[...]}
	book     *ledger
	batches  batches
	http     *http.Server
	URL      string // base URL with /v1, once Listen was called
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{recorded: map[string][]byte{}, book: newLedger()}
	s.Set(o)
	return s
}

// Start returns a server on loopback that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := New(o)
	require.NoError(t, s.Listen("127.0.0.1:0"))
	t.Cleanup(s.Close)
	return s
}

// Set changes the options of a running server.
func (s *Server) Set(options Options) {
	if options.Dimension == 0 {
		options.Dimension = 256
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt = options
}

// Listen serves on a loopback address ("127.0.0.1:0" = any port) until Close.
func (s *Server) Listen(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.URL = "http://" + listener.Addr().String() + "/v1"
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(listener) }() // ends with Close
	return nil
}

// Close stops serving.
func (s *Server) Close() {
	if s.http != nil {
		_ = s.http.Close()
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	options := s.opt
	s.mu.Unlock()
	switch path := request.URL.Path; {
	case path == "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"test","object":"model"}]}`)
		return
	case ofBatches(path):
		if options.Key != "" && request.Header.Get("Authorization") != "Bearer "+options.Key {
			refuse(w, http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided", 0)
			return
		}
		s.batch(w, request)
		return
	case path != "/v1/chat/completions" && path != "/v1/embeddings":
		http.NotFound(w, request)
		return
	}
	number := s.book.start(time.Now())
	defer s.book.count(func(stats *Stats) { stats.InFlight-- })
	if options.Key != "" && request.Header.Get("Authorization") != "Bearer "+options.Key {
		refuse(w, http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided", 0)
		return
	}
	call := call{options: options, number: number}
	if request.URL.Path == "/v1/embeddings" {
		s.embed(w, request, call)
		return
	}
	s.chat(w, request, call)
}

// call is one request to a model.
type call struct {
	options Options
	number  int64
}

// admit waits as the injection says, and refuses; it reports whether the request is to be answered.
func (s *Server) admit(w http.ResponseWriter, request *http.Request, injection Injection) bool {
	time.Sleep(injection.Latency) // a server goes on working when its caller has gone
	if injection.answered() {
		return true
	}
	switch {
	case injection.Hang:
		<-request.Context().Done()
	case injection.Cut:
		panic(http.ErrAbortHandler)
	default:
		refuse(w, injection.Status, "injected", "injected", injection.RetryAfter)
	}
	return false
}

// digest names a prompt.
func digest(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts {
		_, _ = io.WriteString(hash, part+"\x00") // never fails
	}
	return hex.EncodeToString(hash.Sum(nil))
}
