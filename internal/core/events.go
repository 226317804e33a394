package core

import (
	"slices"
	"time"
)

// Kinds of events of a run. What follows a stream of them, one JSON object a line, adds EventProgress, EventProblem and
// EventReport (docs/reference/cli.md).
const (
	EventStarted  = "started"
	EventStage    = "stage"   // it begins
	EventWaiting  = "waiting" // for an outage to end; Count tries failed
	EventPaused   = "paused"
	EventResumed  = "resumed" // by a person
	EventEnded    = "ended"   // Code is the reason, where there is one
	EventProgress = "progress"
	EventProblem  = "problem"
	EventReport   = "report"
)

// Event is something that happened to a run. Events are in the order of time.
type Event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"event"`
	Stage  string    `json:"stage,omitempty"`
	Status string    `json:"status,omitempty"` // of the run, by an end
	Code   string    `json:"code,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Count  int       `json:"count,omitempty"`
}

// Retry is what units of a stage failed with and were tried again for, over all processes.
type Retry struct {
	Stage  string    `json:"stage"`
	Code   string    `json:"code"`
	Count  int64     `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Detail string    `json:"detail,omitempty"` // of the last one
}

// A report holds the first and the last events of a run that had more.
const (
	firstEvents = 50
	mostEvents  = 200
)

// AddEvent adds an event. One that equals the last one is the last one again: activities may be repeated.
func (r *Report) AddEvent(event Event) {
	if n := len(r.Events); n > 0 {
		last := &r.Events[n-1]
		if last.Kind == event.Kind && last.Stage == event.Stage && last.Code == event.Code {
			last.Count, last.Detail = max(last.Count, event.Count), event.Detail
			return
		}
	}
	if len(r.Events) >= mostEvents {
		r.Events = slices.Delete(r.Events, firstEvents, firstEvents+1)
	}
	r.Events = append(r.Events, event)
}

// Stop notes that a run pauses or waits: nothing of it is in flight.
func (s *RunState) Stop(now time.Time) {
	if s.Stopped == nil {
		s.Stopped = &now
	}
}

// GoOn ends a pause or a wait. What it took counts neither for the stage nor for what is left.
func (s *RunState) GoOn(now time.Time) {
	if s.Stopped == nil {
		return
	}
	idle := max(0, now.Sub(*s.Stopped).Seconds())
	s.Report.IdleSeconds += idle
	s.StageIdle += idle
	s.Stopped = nil
}

// IdleSeconds returns for how many seconds the run paused or waited so far, in all and in the running stage.
func (s RunState) IdleSeconds(now time.Time) (run, stage float64) {
	s.GoOn(now)
	return s.Report.IdleSeconds, s.StageIdle
}
