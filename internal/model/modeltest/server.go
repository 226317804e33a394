// Package modeltest is a model server for tests and benchmarks: it speaks the contract of DESIGN §8 over HTTP,
// replays recorded extractions where it knows a passage and extracts by rule elsewhere, injects faults on demand, and
// keeps a ledger of what was paid, so that a caller that pays twice is seen. It is a measuring device, not a model.
package modeltest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/model/builtin"
)

// Options of a server; all may be changed while it runs through Set.
type Options struct {
	Latency      time.Duration // of a chat call
	EmbedLatency time.Duration
	Dimension    int           // of embeddings; 0 = 256
	P429         float64       // share of calls refused with Retry-After
	RetryAfter   time.Duration // of a 429
	P500         float64
	PHang        float64 // share that never answers
	PGarbage     float64 // share of contents that are no JSON
	PTruncate    float64 // share of contents that are cut
	Poison       string  // prompts with this string always get garbage
	Status       int     // not 0: every call is answered with this status
	ErrorCode    string  // error.code of Status
	Key          string  // not empty: calls must carry it
	Model        string  // not empty: other chat models are unknown
	Shuffle      bool    // embeddings come in another order, with their index
	Drop         int     // embeddings: this many are left out
	NaN, Zero    bool    // embeddings: the first vector is NaN, or zero
	Float        bool    // embeddings as numbers even when base64 is asked for
	Capacity     int     // calls served at once; 0 = any number
}

// Stats is what was asked and paid.
type Stats struct {
	Chat       int64         `json:"chat"`
	Embed      int64         `json:"embed"`
	Texts      int64         `json:"texts"`
	Duplicates int64         `json:"duplicates"` // paid answers to a prompt that had a good answer before
	EmbedTwice int64         `json:"embed_twice"`
	Refused    int64         `json:"refused"`
	MaxFlight  int64         `json:"max_in_flight"`
	Busy       time.Duration `json:"busy"` // sum of the time that calls were served
	Extract    int64         `json:"extract"`
	First      time.Time     `json:"first"` // arrival of the first and of the last extraction
	Last       time.Time     `json:"last"`
}

// Server is an http.Handler with a ledger.
type Server struct {
	mu       sync.Mutex
	opt      Options
	recorded map[string][]byte // first bytes of a passage -> {"entities":[...]}
	paid     map[string]int    // prompt -> good answers
	embedded map[string]int    // text -> times
	stats    Stats
	flight   atomic.Int64
	gate     chan struct{}
	http     *http.Server
	URL      string // base URL with /v1, once Listen was called
}

// New makes a server.
func New(o Options) *Server {
	s := &Server{recorded: map[string][]byte{}, paid: map[string]int{}, embedded: map[string]int{}}
	s.Set(o)
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
	s.gate = nil
	if options.Capacity > 0 {
		s.gate = make(chan struct{}, options.Capacity)
	}
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

// Stats gives a copy.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// passageBytes identify a recorded passage in a prompt.
const passageBytes = 48

// Replay loads a corpus (id, text) and extractions (chunk_id, entities) to answer from.
func (s *Server) Replay(corpus, extractions string) error {
	byID := map[string]json.RawMessage{}
	err := lines(extractions, func(b []byte) error {
		var r struct {
			ChunkID  string            `json:"chunk_id"`
			Entities []json.RawMessage `json:"entities"`
		}
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		es := []builtin.Entity{}
		for _, raw := range r.Entities {
			var entity builtin.Entity
			if json.Unmarshal(raw, &entity.Name) != nil && json.Unmarshal(raw, &entity) != nil {
				continue
			}
			es = append(es, entity)
		}
		v, err := json.Marshal(map[string]any{"entities": es})
		byID[r.ChunkID] = v
		return err
	})
	if err != nil {
		return err
	}
	return lines(corpus, func(b []byte) error {
		var r struct{ ID, Text string }
		if err := json.Unmarshal(b, &r); err != nil {
			return err
		}
		if v, ok := byID[r.ID]; ok && len(r.Text) >= passageBytes {
			s.recorded[r.Text[:passageBytes]] = v
		}
		return nil
	})
}

func lines(path string, f func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	sc := bufio.NewScanner(file)
	sc.Buffer(make([]byte, 1<<20), 1<<27)
	for sc.Scan() {
		if err := f(sc.Bytes()); err != nil {
			return err
		}
	}
	return sc.Err()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	options, gate := s.opt, s.gate
	s.mu.Unlock()
	switch {
	case request.URL.Path == "/stats":
		_ = json.NewEncoder(w).Encode(s.Stats())
		return
	case options.Key != "" && request.Header.Get("Authorization") != "Bearer "+options.Key:
		refuse(w, http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided", 0)
		return
	}
	if gate != nil {
		gate <- struct{}{}
		defer func() { <-gate }()
	}
	n := s.flight.Add(1)
	defer s.flight.Add(-1)
	start := time.Now()
	s.count(func(t *Stats) { t.MaxFlight = max(t.MaxFlight, n) })
	if s.fault(w, request, options) {
		return
	}
	switch request.URL.Path {
	case "/v1/chat/completions":
		s.chat(w, request, options, start)
		s.count(func(t *Stats) { t.Busy += time.Since(start) })
	case "/v1/embeddings":
		s.embed(w, request, options)
	default:
		http.NotFound(w, request)
	}
}

func (s *Server) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

func refuse(w http.ResponseWriter, status int, code, message string, after time.Duration) {
	if after > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(max(1, int(after.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).
		Encode(map[string]any{"error": map[string]string{"message": message, "type": "error", "code": code}})
}

// fault injects one; it reports whether the call is over.
func (s *Server) fault(w http.ResponseWriter, request *http.Request, options Options) bool {
	p := rand.Float64()
	switch {
	case options.Status != 0:
		refuse(w, options.Status, options.ErrorCode, "injected "+options.ErrorCode, 0)
	case p < options.P429:
		refuse(
			w,
			http.StatusTooManyRequests,
			"rate_limit_exceeded",
			"slow down",
			max(options.RetryAfter, time.Second),
		)
	case p < options.P429+options.P500:
		refuse(w, http.StatusInternalServerError, "server_error", "boom", 0)
	case p < options.P429+options.P500+options.PHang:
		<-request.Context().Done()
	default:
		return false
	}
	s.count(func(t *Stats) { t.Refused++ })
	return true
}

type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	ResponseFormat struct {
		JSONSchema struct {
			Name string `json:"name"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request, options Options, start time.Time) {
	var request chatRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "bad_request", err.Error(), 0)
		return
	}
	if options.Model != "" && request.Model != options.Model {
		refuse(w, http.StatusNotFound, "model_not_found", "The model `"+request.Model+"` does not exist", 0)
		return
	}
	if options.Latency > 0 {
		time.Sleep(options.Latency)
	}
	user := ""
	all := sha256.New()
	size := 0
	for _, m := range request.Messages {
		_, _ = io.WriteString(all, m.Role+"\x00"+m.Content+"\x00") // never fails
		size += len(m.Content)
		if m.Role == "user" {
			user = m.Content
		}
	}
	content := s.content(request.ResponseFormat.JSONSchema.Name, user)
	key := hex.EncodeToString(all.Sum(nil))
	bad := false
	switch p := rand.Float64(); {
	case options.Poison != "" && strings.Contains(user, options.Poison), p < options.PGarbage:
		content, bad = "I am sorry, there is nothing that I could list.", true
	case p < options.PGarbage+options.PTruncate:
		content, bad = content[:len(content)*2/3], true
	}
	s.count(func(stats *Stats) {
		stats.Chat++
		if request.ResponseFormat.JSONSchema.Name == "extract" {
			stats.Extract++
			if stats.First.IsZero() || start.Before(stats.First) {
				stats.First = start
			}
			if start.After(stats.Last) {
				stats.Last = start
			}
		}
		if !bad {
			if s.paid[key]++; s.paid[key] > 1 {
				stats.Duplicates++
			}
		}
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).
		Encode(map[string]any{
			"id": "chatcmpl-" + key[:12], "object": "chat.completion", "created": time.Now().Unix(), "model": request.Model,
			"choices": []any{
				map[string]any{
					"index":         0,
					"finish_reason": "stop",
					"message":       map[string]any{"role": "assistant", "content": content},
				},
			},
			"usage": map[string]int{
				"prompt_tokens":     size / 4,
				"completion_tokens": len(content) / 4,
				"total_tokens":      (size + len(content)) / 4,
			},
		})
}

func (s *Server) content(task, user string) string {
	switch task {
	case "extract":
		if len(user) >= passageBytes {
			if v, ok := s.recorded[user[:passageBytes]]; ok {
				return string(v)
			}
		}
		b, _ := json.Marshal(map[string]any{"entities": builtin.Entities(user)}) // strings always marshal
		return string(b)
	case "shorten":
		b, _ := json.Marshal(map[string]string{"description": builtin.Summary(user, 800)})
		return string(b)
	}
	return "An answer from the test server."
}

func (s *Server) embed(w http.ResponseWriter, request *http.Request, options Options) {
	var q struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}
	if err := json.NewDecoder(request.Body).Decode(&q); err != nil {
		refuse(w, http.StatusBadRequest, "bad_request", err.Error(), 0)
		return
	}
	time.Sleep(options.EmbedLatency)
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	out := make([]item, 0, len(q.Input))
	tok := 0
	for i, t := range q.Input {
		vector := Vector(t, options.Dimension)
		if i == 0 && options.NaN {
			vector[0] = float32(math.NaN())
		}
		if i == 0 && options.Zero {
			clear(vector)
		}
		tok += len(t) / 4
		var e any = vector
		if q.Format == "base64" && !options.Float {
			raw := make([]byte, 0, 4*len(vector))
			for _, x := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			e = base64.StdEncoding.EncodeToString(raw)
		}
		out = append(out, item{"embedding", i, e})
	}
	if options.Shuffle {
		rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	out = out[:max(0, len(out)-options.Drop)]
	s.count(func(stats *Stats) {
		stats.Embed++
		stats.Texts += int64(len(q.Input))
		for _, x := range q.Input {
			if s.embedded[x]++; s.embedded[x] > 1 {
				stats.EmbedTwice++
			}
		}
	})
	w.Header().Set("Content-Type", "application/json")
	var b bytes.Buffer
	_ = json.NewEncoder(&b).
		Encode(map[string]any{"object": "list", "model": q.Model, "data": out, "usage": map[string]int{"prompt_tokens": tok, "total_tokens": tok}})
	_, _ = w.Write(b.Bytes()) // the caller may have gone
}

// Vector is the server's embedding: signed hashing of words.
func Vector(t string, dim int) []float32 {
	vector := make([]float32, dim)
	for _, w := range strings.Fields(strings.ToLower(t)) {
		h := sha256.Sum256([]byte(strings.Trim(w, ".,;:!?()\"'")))
		x := binary.LittleEndian.Uint64(h[:])
		if x>>63 == 1 {
			vector[x%uint64(dim)]--
		} else {
			vector[x%uint64(dim)]++
		}
	}
	vector[0] += 0.01 // no text has length zero
	return vector
}
