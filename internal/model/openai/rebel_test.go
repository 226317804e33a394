package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text"
)

// rebelServer writes what REBEL writes of sentences "A <relation> B."; it keeps what it was sent.
type rebelServer struct {
	*httptest.Server
	mu     sync.Mutex
	sizes  []int
	answer http.HandlerFunc
}

func newRebelServer(t *testing.T) *rebelServer {
	server := &rebelServer{}
	server.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.mu.Lock()
		answer := server.answer
		server.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		var asked struct {
			Model  string
			Inputs []string
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.Method != http.MethodPost ||
			r.URL.Path != "/v1/triples" || asked.Model != "rebel-large" {
			http.Error(w, "not of the contract", http.StatusBadRequest)
			return
		}
		outputs := []string{}
		for _, input := range asked.Inputs {
			words := strings.Fields(strings.TrimRight(input, " ."))
			outputs = append(outputs, fmt.Sprintf("<s><triplet> %s <subj> %s <obj> %s</s><pad>",
				words[0], words[len(words)-1], strings.Join(words[1:len(words)-1], " ")))
		}
		server.mu.Lock()
		server.sizes = append(server.sizes, len(asked.Inputs))
		server.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"outputs": outputs})
	}))
	t.Cleanup(server.Close)
	return server
}

func (s *rebelServer) answering(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func TestTriplesOfAServerOfREBELNameTheirSentences(t *testing.T) {
	server := newRebelServer(t)
	chat := openai.NewRebel(openai.Config{BaseURL: server.URL + "/v1", Model: "rebel-large", Timeout: time.Minute})
	var content strings.Builder
	for i := range 70 {
		fmt.Fprintf(&content, "Town%d lies beside River%d. ", i, i)
	}
	parts := triples.Parts(text.In("en"), content.String())
	if len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	var found []triples.Triple
	for _, part := range parts {
		reply, err := chat.Complete(t.Context(), part.Call("d"))
		if err != nil {
			t.Fatal(err)
		}
		said, ok := part.Read(reply.Text)
		if !ok {
			t.Fatalf("%s cannot be read", reply.Text)
		}
		found = append(found, said.Triples...)
	}
	if len(found) != 70 {
		t.Fatalf("%d triples", len(found))
	}
	for i, triple := range found {
		want := triples.Triple{Head: fmt.Sprint("Town", i), Relation: "lies beside", Tail: fmt.Sprint("River", i),
			Source: triples.Source{Sentence: i}}
		if triple != want {
			t.Errorf("got %v, want %v", triple, want)
		}
	}
	if len(server.sizes) != 2 || server.sizes[0] != 64 || server.sizes[1] != 6 {
		t.Errorf("requests of %v sentences", server.sizes)
	}
	tooMany := model.Call{Task: model.Triples, Sentences: make([]string, 65)}
	if _, err := chat.Complete(t.Context(), tooMany); err == nil || len(server.sizes) != 2 {
		t.Errorf("65 sentences in one call: %v, requests of %v sentences", err, server.sizes)
	}
	if info := chat.Info(); !info.Paid || info.Model != "rebel-large" {
		t.Errorf("it is known as %+v", info)
	}
	if _, err := chat.Complete(t.Context(), model.Call{Task: model.Extract, Input: model.ProbeText}); err == nil {
		t.Error("it does other tasks, too")
	}
}

func TestAServerThatBreaksTheContractOfTriplesIsTold(t *testing.T) {
	server := newRebelServer(t)
	chat := openai.NewRebel(openai.Config{BaseURL: server.URL + "/v1", Model: "rebel-large", Timeout: time.Minute})
	call := triples.Question(text.In("en"), "Who knows Oslo?").Call("")
	for name, c := range map[string]struct {
		status int
		body   string
		want   fault.Code
	}{
		"too few outputs":   {200, `{"outputs":[]}`, fault.ModelUnavailable},
		"no JSON":           {200, `<html>`, fault.ModelUnreadable},
		"numbers":           {200, `{"outputs":[1]}`, fault.ModelUnreadable},
		"no key":            {401, `{"error":"who are you"}`, fault.ModelAuth},
		"no such path":      {404, `{}`, fault.ModelUnknown},
		"busy":              {429, `{}`, fault.ModelRateLimited},
		"out of order":      {503, `{}`, fault.ModelUnavailable},
		"an endless output": {200, `{"outputs":["` + strings.Repeat("x", 4<<20) + `"]}`, fault.ModelUnavailable},
	} {
		server.answering(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		if _, err := chat.Complete(t.Context(), call); !fault.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
