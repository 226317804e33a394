// Package storm kills a build while work is in flight, again and again, and measures what comes of it: whether the
// index is the same as an undisturbed one, what was paid twice, and how long it takes until work goes on. What is in
// flight is asked of the engine before a kill and again after it, so a kill counts only where it hit something.
package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/workflows"
)

// Options of a storm.
type Options struct {
	Folder    string         // of its data; it must be empty
	Seed      uint64         // of the instants of the kills
	Quota     map[string]int // kills wanted in each kind of activity
	PerBuild  int            // kills in one kind of activity within one build, at most: each costs it a retry
	Builds    int            // at most; a build from nothing and a night of changes alternate
	Deadline  time.Time      // no kill after it; what is left undone then is in the result
	Documents Documents
	Flight    int // calls in flight at most
	Latency   time.Duration
	Embed     time.Duration // latency of an embedding request
	Heartbeat time.Duration
	Shape     workflows.Shape
	Log       func(format string, values ...any)

	Spec func(index, documents, models string) (core.Spec, error) // models is the base URL of the model server
}

// Index is the index of a storm.
const Index = "storm"

// Night is how one build ended, and what the index answers after it.
type Night struct {
	Status  control.Status
	Answers []string
}

// Kill is one kill.
type Kill struct {
	Build    int            `json:"build"`
	Aim      string         `json:"aim"`               // the activity that was in flight before it
	Hit      map[string]int `json:"hit"`               // activities that were in flight when it came
	Ready    float64        `json:"ready_seconds"`     // from the restart until the stack answers
	Progress float64        `json:"progress_seconds"`  // from the restart until work begins
	Chat     int64          `json:"chat_in_flight"`    // paid requests in flight
	Texts    int64          `json:"texts_in_flight"`   // to be embedded
	Paid     bool           `json:"paid_work_was_hit"` // an activity that calls a model
	Lasted   float64        `json:"lasted_seconds"`    // how long what was hit had been going
	Waited   string         `json:"waited_for"`        // what the engine showed before work went on
}

// storm is a running one.
type storm struct {
	Options
	stack   *Stack
	models  *modeltest.Server
	random  *rand.Rand
	typical map[string]time.Duration // how long an activity lasts
	left    map[string]int           // kills that are wanted still
	done    map[string]int           // kills of this build
	before  map[place]Flight         // the build's activities, as seen last
	request control.IndexRequest
	started chan struct{} // closed once the request was answered
	result  Result
}

// Calm does the builds of a storm without a kill: what they end in, and how long each kind of activity lasts.
func Calm(ctx context.Context, options Options) (result Result, typical map[string]time.Duration, err error) {
	options.Quota, options.Builds = nil, 2
	s, err := begin(ctx, options)
	if err != nil {
		return Result{}, nil, err
	}
	defer s.end()
	if err := s.run(ctx); err != nil {
		return Result{}, nil, err
	}
	s.settle()
	return s.result, s.typical, nil
}

// Run does a storm. typical is what Calm measured.
func Run(ctx context.Context, options Options, typical map[string]time.Duration) (Result, error) {
	s, err := begin(ctx, options)
	if err != nil {
		return Result{}, err
	}
	defer s.end()
	s.typical = typical
	err = s.run(ctx)
	s.result.Left = s.left
	s.settle()
	return s.result, err
}

func begin(ctx context.Context, options Options) (*storm, error) {
	s := &storm{
		Options: options, random: rand.New(rand.NewPCG(options.Seed, 26)),
		typical: map[string]time.Duration{}, left: map[string]int{},
	}
	for activity, quota := range options.Quota {
		s.left[activity] = quota
	}
	s.models = modeltest.New(modeltest.Options{
		Latency: options.Latency, EmbedLatency: options.Embed, Shuffle: true, Dimension: 64,
	})
	if err := s.models.Listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.stack = &Stack{Child: Child{
		Dir: filepath.Join(options.Folder, "data"), Heartbeat: options.Heartbeat, Shape: options.Shape,
		Settings: []string{"models.endpoints=" + s.models.URL + "=E2E_KEY"},
	}}
	if err := s.stack.Start(ctx); err != nil {
		s.models.Close()
		return nil, err
	}
	return s, nil
}

func (s *storm) end() {
	s.stack.Kill()
	s.models.Close()
}

// wanted reports whether kills are wanted still.
func (s *storm) wanted() bool {
	for _, left := range s.left {
		if left > 0 {
			return time.Now().Before(s.Deadline)
		}
	}
	return false
}

// run does the builds: two at least, more while kills are wanted, always a night of changes last.
func (s *storm) run(ctx context.Context) error {
	for number := 0; number < s.Builds; number++ {
		if number >= 2 && number%2 == 0 && !s.wanted() {
			break
		}
		night, err := s.build(ctx, number)
		if err != nil {
			return fmt.Errorf("build %d: %w", number, err)
		}
		s.result.Nights = append(s.result.Nights, night)
	}
	return nil
}

// build does one build. Every second one begins a new index over new models, so that nothing is known.
func (s *storm) build(ctx context.Context, number int) (Night, error) {
	folder := filepath.Join(s.Folder, "documents")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return Night{}, err
	}
	if err := s.Documents.Write(folder, number%2); err != nil {
		return Night{}, err
	}
	if number > 0 && number%2 == 0 { // from nothing again: everything is paid again, and is to be
		if err := s.startFresh(ctx); err != nil {
			return Night{}, err
		}
	}
	spec, err := s.Spec(Index, folder, s.models.URL)
	if err != nil {
		return Night{}, err
	}
	generation := fmt.Sprintf("n%d", number)
	s.done, s.started, s.before = map[string]int{}, nil, map[place]Flight{}
	s.request = control.IndexRequest{Spec: spec, Generation: generation}
	run := Index + "/" + generation
	s.start(ctx)
	for {
		over, err := s.strike(ctx, number, run)
		if err != nil {
			return Night{}, err
		}
		if over {
			break
		}
	}
	return s.finish(ctx, run)
}

// start asks for the build, also again where a kill came before the engine had it. It does not wait: what the build
// does first is to be hit as well.
func (s *storm) start(ctx context.Context) {
	if s.started != nil {
		select {
		case <-s.started:
		default:
			return
		}
	}
	begun, control := make(chan struct{}), s.stack.Control
	s.started = begun
	go func() {
		defer close(begun)
		_, _ = control.BuildIndex(ctx, s.request) // the engine is asked whether it is there
	}()
}

// startFresh begins again with an empty data directory and a model server that was paid nothing.
func (s *storm) startFresh(ctx context.Context) error {
	s.stack.Kill()
	s.settle()
	s.models.Reset()
	if err := os.RemoveAll(s.stack.Dir); err != nil {
		return err
	}
	return s.stack.Start(ctx)
}

// settle books what was paid twice, once the model server has answered those who have gone too.
func (s *storm) settle() {
	for s.models.Stats().InFlight > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	s.result.keep(s.models.Stats())
}

// finish waits for a run's end and asks the index.
func (s *storm) finish(ctx context.Context, run string) (night Night, err error) {
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(20 * time.Millisecond) {
		night.Status, err = s.stack.Control.ReadStatus(ctx, run)
		if err != nil || !core.IsTerminal(night.Status.Status) {
			continue
		}
		if night.Status.Status != core.StatusCompleted {
			return night, fmt.Errorf("%s is %s: %s %s", run, night.Status.Status, night.Status.Reason,
				night.Status.Detail)
		}
		if s.Quota == nil {
			if err := s.learn(ctx, run); err != nil {
				return night, err
			}
		}
		night.Answers, err = Ask(ctx, s.stack.HTTP, Index)
		return night, err
	}
	return night, fmt.Errorf("%s did not end: %s %s (%w)", run, night.Status.Status, night.Status.Stage, err)
}

// learn keeps how long activities last.
func (s *storm) learn(ctx context.Context, run string) error {
	all, err := Durations(ctx, s.stack.Engine, workflows.WorkflowID(run))
	for activity, of := range all {
		s.typical[activity] = max(s.typical[activity], median(of))
	}
	return err
}

var errPaused = errors.New("the run paused")
