package modeltest

import (
	"maps"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/model"
)

// Cost is what requests of one task came to.
type Cost struct {
	Calls      int64 `json:"calls"` // answered with a 200
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// Stats is what was asked and paid. A request is started when it arrives, and answered, and so paid, when it gets a
// 200, whether or not its content is of use and whether or not its sender still waits.
type Stats struct {
	Started          int64           `json:"started"`
	Chat             int64           `json:"chat"`        // answered
	Embed            int64           `json:"embed_calls"` // answered
	Texts            int64           `json:"embed_texts"`
	PromptTokens     int64           `json:"prompt_tokens"` // of chat requests
	CompletionTokens int64           `json:"completion_tokens"`
	EmbedTokens      int64           `json:"embed_tokens"`
	Tasks            map[string]Cost `json:"tasks"`      // extract, shorten, answer, embed
	Duplicates       int64           `json:"duplicates"` // paid answers to a prompt that had a good answer before
	EmbedTwice       int64           `json:"embed_twice"`
	Probes           int64           `json:"probes"` // answered; each asks how the server is now, and is no duplicate
	InFlight         int64           `json:"in_flight"`
	MaxFlight        int64           `json:"max_inflight"`
	ChatInFlight     int64           `json:"chat_in_flight"` // those that are served, and not booked yet
	Extract          int64           `json:"extract"`
}

// ledger is the book of a server.
type ledger struct {
	mu       sync.Mutex
	stats    Stats
	starts   []time.Time
	paid     map[string]int // prompt -> good answers
	embedded map[string]int // text -> times
}

func newLedger() *ledger {
	book := &ledger{}
	book.reset()
	return book
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats = Stats{InFlight: l.stats.InFlight, ChatInFlight: l.stats.ChatInFlight, Tasks: map[string]Cost{}}
	l.starts, l.paid, l.embedded = nil, map[string]int{}, map[string]int{}
}

func (l *ledger) count(change func(*Stats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}

// start counts the start of a request and returns its number, from 1.
func (l *ledger) start(at time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts = append(l.starts, at)
	stats := &l.stats
	stats.Started++
	stats.InFlight++
	stats.MaxFlight = max(stats.MaxFlight, stats.InFlight)
	return stats.Started
}

// chat books an answered chat request.
func (l *ledger) chat(task, prompt, user string, cost Cost, bad bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := &l.stats
	stats.Chat++
	stats.PromptTokens += cost.Prompt
	stats.CompletionTokens += cost.Completion
	stats.add(task, cost)
	if task == "extract" {
		stats.Extract++
	}
	probe := user == model.ProbeText
	if probe {
		stats.Probes++
	}
	if bad {
		return
	}
	if l.paid[prompt]++; l.paid[prompt] > 1 && !probe {
		stats.Duplicates++
	}
}

// embed books an answered request for embeddings.
func (l *ledger) embed(texts []string, cost Cost) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := &l.stats
	stats.Embed++
	stats.Texts += int64(len(texts))
	stats.EmbedTokens += cost.Prompt
	stats.add("embed", cost)
	for _, text := range texts {
		if l.embedded[text]++; l.embedded[text] > 1 {
			stats.EmbedTwice++
		}
	}
}

func (s *Stats) add(task string, cost Cost) {
	sum := s.Tasks[task]
	sum.Calls++
	sum.Prompt += cost.Prompt
	sum.Completion += cost.Completion
	s.Tasks[task] = sum
}

// Stats gives a copy.
func (s *Server) Stats() Stats {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	out := s.book.stats
	out.Tasks = maps.Clone(out.Tasks)
	return out
}

// StartedSince counts the requests that arrived after mark: none may, once a pause or a cancel is acknowledged.
func (s *Server) StartedSince(mark time.Time) int64 {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	n := int64(0)
	for i := len(s.book.starts) - 1; i >= 0; i-- {
		if s.book.starts[i].After(mark) {
			n++
		}
	}
	return n
}

// Reset empties the book; what is in flight stays in flight.
func (s *Server) Reset() { s.book.reset() }
