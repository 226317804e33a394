package show

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// quietest is how long a stream says nothing at most: what reads it can tell a run that is slow from one that is gone.
const quietest = 10 * time.Second

// Stream writes what happens to a run as JSON lines: each event once, progress when it moves but at most once a second,
// each problem once. docs/reference/cli.md describes it.
type Stream struct {
	to   *json.Encoder
	seen map[string]bool
	last time.Time
	was  progressEvent
	err  error
}

// NewStream returns a stream to a writer.
func NewStream(to io.Writer) *Stream {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return &Stream{to: encoder, seen: map[string]bool{}}
}

// progressEvent is how a run stands.
type progressEvent struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"event"`
	Run     string    `json:"run"`
	Status  string    `json:"status"`
	Stage   string    `json:"stage"`
	Done    int64     `json:"done"`
	Total   int64     `json:"total"` // 0: not known
	Unit    string    `json:"unit"`
	Rate    float64   `json:"rate"`
	Overall float64   `json:"overall"`
	ETA     float64   `json:"eta_seconds"` // 0: not known
	Seconds float64   `json:"seconds"`
	Idle    float64   `json:"idle_seconds"`

	Documents int64       `json:"documents"`
	Chunks    int64       `json:"chunks"`
	Classes   int64       `json:"classes"`
	Calls     core.Calls  `json:"calls"`
	Tokens    core.Tokens `json:"tokens"`
	Cost      float64     `json:"cost"`
	Currency  string      `json:"currency,omitempty"`
}

// WriteBegin says which run it is about.
func (s *Stream) WriteBegin(run control.Run) {
	s.write(struct {
		At   time.Time `json:"at"`
		Kind string    `json:"event"`
		control.Run
	}{time.Now().UTC(), "run", run})
}

func (s *Stream) write(line any) {
	if s.err == nil {
		s.err = s.to.Encode(line)
	}
}

// ShowStatus says what is new in a status.
func (s *Stream) ShowStatus(status control.Status) {
	for _, event := range status.Events {
		key := fmt.Sprint(event.At.UnixNano(), event.Kind, event.Stage, event.Count)
		if !s.seen[key] {
			s.seen[key] = true
			s.write(event)
		}
	}
	for _, problem := range status.Problems {
		key := problem.Code + "\x00" + problem.Object + "\x00" + problem.Detail
		if !s.seen[key] {
			s.seen[key] = true
			s.write(struct {
				At   time.Time `json:"at"`
				Kind string    `json:"event"`
				core.Problem
			}{time.Now().UTC(), core.EventProblem, problem})
		}
	}
	if status.Stage != "" {
		s.writeProgress(status)
	}
}

func (s *Stream) writeProgress(status control.Status) {
	now := progressEvent{
		At: time.Now().UTC(), Kind: core.EventProgress, Run: status.Run, Status: status.Status, Stage: status.Stage,
		Unit: status.Unit, Rate: status.Rate, Overall: status.Overall, ETA: status.ETASeconds, Seconds: status.Seconds,
		Idle: status.IdleSeconds, Documents: status.Documents, Chunks: status.Chunks, Classes: status.Classes,
		Calls: status.Calls, Tokens: status.Tokens, Cost: status.Cost, Currency: status.Currency,
	}
	if n := len(status.Stages); n > 0 {
		now.Done, now.Total = status.Stages[n-1].Done, status.Stages[n-1].Total
	}
	since := time.Since(s.last)
	stage := now.Stage != s.was.Stage || now.Status != s.was.Status
	moved := now.Done != s.was.Done || now.Calls != s.was.Calls
	if !stage && (!moved || since < time.Second) && since < quietest {
		return
	}
	s.last, s.was = time.Now(), now
	s.write(now)
}

// EndStatus implements Watcher.
func (s *Stream) EndStatus() {}

// WriteReport writes the last line of a stream, which has the report.
func (s *Stream) WriteReport(status control.Status) error {
	s.write(struct {
		At   time.Time `json:"at"`
		Kind string    `json:"event"`
		control.Status
	}{time.Now().UTC(), core.EventReport, status})
	return s.err
}
