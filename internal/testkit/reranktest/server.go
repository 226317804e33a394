// Package reranktest has a rerank server for tests, which scores by shared words, and what every adapter of the port
// must do with its answers, the bad ones too.
package reranktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Form is how a server reads its requests and writes its answers.
type Form string

// The forms that servers have.
const (
	Documents Form = "documents" // vLLM, Jina, Cohere: {results: [{index, relevance_score}]}
	Data      Form = "data"      // the same with data in the place of results
	Texts     Form = "texts"     // text-embeddings-inference: {query, texts} to [{index, score}]
)

// Server scores by the share of the question's words that a text holds, or answers as Answering and Saying tell it,
// also between requests.
type Server struct {
	*httptest.Server
	Form Form

	mu       sync.Mutex
	answer   http.HandlerFunc
	requests []Request
}

// Request is what a server was sent.
type Request struct {
	Path          string   `json:"-"`
	Authorization string   `json:"-"`
	Model         string   `json:"model"`
	Query         string   `json:"query"`
	Documents     []string `json:"documents"`
	TopN          int      `json:"top_n"`
	Texts         []string `json:"texts"`
}

// NewServer starts one that ends with the test.
func NewServer(t testing.TB, form Form) *Server {
	t.Helper()
	server := &Server{Form: form}
	server.Server = httptest.NewServer(http.HandlerFunc(server.serve))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server
}

// Answering has requests answered by a handler; nil: by scores.
func (s *Server) Answering(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Saying has requests answered with a body.
func (s *Server) Saying(body string) {
	s.Answering(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, body)
	})
}

// Requests returns the requests that came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Forget has Requests begin again.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	asked := Request{Path: r.URL.Path, Authorization: r.Header.Get("Authorization")}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, asked)
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	texts := asked.Documents
	if s.Form == Texts {
		if texts = asked.Texts; texts == nil {
			http.Error(w, "Failed to deserialize the JSON body into the target type: missing field `texts` at line 1",
				http.StatusUnprocessableEntity)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Form.of(Score(asked.Query, texts)))
}

// of writes scores as servers of the form do: the best first.
func (f Form) of(scores []float64) any {
	name := "relevance_score"
	if f == Texts {
		name = "score"
	}
	results := make([]map[string]any, 0, len(scores))
	for i := len(scores) - 1; i >= 0; i-- { // in another order than they were sent
		results = append(results, map[string]any{"index": i, name: scores[i], "document": map[string]string{"text": "…"}})
	}
	switch f {
	case Texts:
		return results
	case Data:
		return map[string]any{"data": results, "usage": map[string]int{"total_tokens": 7}}
	}
	return map[string]any{"id": "1", "results": results, "usage": map[string]int{"total_tokens": 7}}
}

// Score returns the scores of texts: the share of the question's words that each holds.
func Score(question string, texts []string) []float64 {
	words := strings.Fields(strings.ToLower(question))
	scores := make([]float64, len(texts))
	for i, text := range texts {
		held := 0
		for _, word := range words {
			if strings.Contains(strings.ToLower(text), strings.Trim(word, "?.,")) {
				held++
			}
		}
		scores[i] = float64(held) / float64(max(1, len(words)))
	}
	return scores
}
