package storm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/workflows"
)

// stuckAfter is how long a run may go without anything that is wanted, or any progress, before the storm gives up.
const stuckAfter = 6 * time.Minute

// slow is from which on a report says what a restart waited for, in seconds.
const slow = 8

// brief is below which an activity is killed without asking the engine once more whether it is in flight.
const brief = 100 * time.Millisecond

// strike waits until something that is wanted is in flight, kills the stack at a random instant of it, starts it again
// and waits until work goes on. over says that the run ended instead, or that no kill is wanted any more.
func (s *storm) strike(ctx context.Context, number int, run string) (over bool, err error) {
	aim, over, err := s.aim(ctx, run)
	if over || err != nil {
		return over, err
	}
	kill := Kill{Build: number, Aim: aim.Type}
	before := s.models.Stats()
	kill.Chat, kill.Texts = before.ChatInFlight, before.TextsInFlight
	at := time.Now()
	s.stack.Kill()
	if err := s.stack.Start(ctx); err != nil {
		return false, err
	}
	kill.Ready = time.Since(s.stack.Begun).Seconds()
	if err := s.look(ctx, run, at, &kill); err != nil {
		return false, err
	}
	s.book(kill)
	return false, nil
}

// book counts a kill for what it hit.
func (s *storm) book(kill Kill) {
	for activity := range kill.Hit {
		s.left[activity]--
		s.done[activity]++
		kill.Paid = kill.Paid || paid[activity]
	}
	s.result.Kills = append(s.result.Kills, kill)
	if s.Log != nil {
		s.Log("seed %d, build %d, kill %d at %s hit %v: ready after %.1f s, progress after %.1f s",
			s.Seed, kill.Build, len(s.result.Kills), kill.Aim, kill.Hit, kill.Ready, kill.Progress)
		if kill.Progress > slow {
			s.Log("waited for %s", kill.Waited)
		}
	}
}

// aim waits for an activity that is wanted and began after the last restart, and then for a random instant of it.
func (s *storm) aim(ctx context.Context, run string) (aim Flight, over bool, err error) {
	id := workflows.WorkflowID(run)
	for begun := time.Now(); time.Since(begun) < stuckAfter; time.Sleep(time.Millisecond) {
		if !s.wanted() {
			return aim, true, nil
		}
		flights, open, err := Flights(ctx, s.stack.Engine, id)
		if absent(err) {
			s.start(ctx)
			continue
		}
		if err != nil || !open {
			return aim, err == nil, err
		}
		s.note(flights)
		aim, found := s.choose(flights)
		if !found {
			if len(flights) == 0 {
				if err := s.paused(ctx, run); err != nil {
					return aim, false, err
				}
			}
			continue
		}
		lasts := s.typical[aim.Type]
		if lasts < brief { // a part of it is over already, and asking again takes as long as the rest
			time.Sleep(time.Duration(s.random.Int64N(int64(lasts/3 + time.Millisecond))))
			return aim, false, nil
		}
		time.Sleep(time.Duration(s.random.Int64N(int64(lasts))))
		if again, _, err := Flights(ctx, s.stack.Engine, id); err == nil {
			s.note(again)
			for _, flight := range again {
				if flight.Running && flight.Type == aim.Type && flight.Started.After(s.stack.Begun) {
					return flight, false, nil
				}
			}
		}
	}
	return aim, false, fmt.Errorf("nothing that is wanted was in flight for %s", stuckAfter)
}

// note remembers what was in flight before a kill.
func (s *storm) note(flights []Flight) {
	s.before = map[place]Flight{}
	for _, flight := range flights {
		s.before[flight.place()] = flight
	}
}

// cut reports whether an activity that is seen after a kill was in flight when it came.
func (s *storm) cut(flight Flight, at time.Time) bool {
	before, known := s.before[flight.place()]
	if !known { // it was given out after the last look before the kill
		return flight.Running && flight.Started.Before(at) || flight.Failure != ""
	}
	// A new attempt may have failed by itself since: its number shows it.
	return flight.Running && flight.Started.Before(at) || before.Running && flight.Attempt > before.Attempt
}

// ended finds what was in flight at a kill and has ended since: its history has the attempt and the time.
func (s *storm) ended(ctx context.Context, now []Flight, at time.Time, kill *Kill) {
	there := map[place]bool{}
	for _, flight := range now {
		there[flight.place()] = true
	}
	for place, before := range s.before {
		if there[place] || !before.Running {
			continue
		}
		attempt, when, found := Ended(ctx, s.stack.Engine, place.workflow, place.id)
		if found && (attempt > before.Attempt || when.After(at)) {
			kill.Hit[before.Type]++
			kill.Lasted = max(kill.Lasted, at.Sub(before.Started).Seconds())
		}
	}
}

// absent says that the engine does not know a run.
func absent(err error) bool {
	var unknown *serviceerror.NotFound
	return errors.As(err, &unknown)
}

// choose takes the first activity in flight of which kills are wanted.
func (s *storm) choose(flights []Flight) (Flight, bool) {
	for _, flight := range flights {
		if flight.Running && flight.Started.After(s.stack.Begun) && s.left[flight.Type] > 0 &&
			s.done[flight.Type] < s.PerBuild {
			return flight, true
		}
	}
	return Flight{}, false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// paused returns an error where the run waits for a person: nothing of a storm may need one.
func (s *storm) paused(ctx context.Context, run string) error {
	status, err := s.stack.Control.ReadStatus(ctx, run)
	if err == nil && status.Status == core.StatusPaused {
		return fmt.Errorf("%w: %s %s %v", errPaused, status.Reason, status.Detail, status.Problems)
	}
	return nil
}

// look finds what a kill hit, and waits until work goes on: an attempt begins that was not there, or the run ends.
func (s *storm) look(ctx context.Context, run string, at time.Time, kill *Kill) error {
	id := workflows.WorkflowID(run)
	hit := map[place]bool{}
	kill.Hit = map[string]int{}
	waited := ""
	for time.Since(s.stack.Begun) < stuckAfter {
		flights, open, err := Flights(ctx, s.stack.Engine, id)
		if absent(err) { // the kill came before the run was there
			return nil
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		goesOn, since := !open, time.Now()
		for _, flight := range flights {
			if s.cut(flight, at) && !hit[flight.place()] {
				hit[flight.place()] = true
				kill.Hit[flight.Type]++
				if before := s.before[flight.place()]; before.Running {
					kill.Lasted = max(kill.Lasted, at.Sub(before.Started).Seconds())
				}
			}
			if flight.Running && flight.Started.After(s.stack.Begun) {
				goesOn = true
				since = earlier(since, flight.Started)
			}
		}
		if goesOn {
			for hit := range hit {
				delete(s.before, hit)
			}
			s.ended(ctx, flights, at, kill)
			kill.Progress = since.Sub(s.stack.Begun).Seconds()
			kill.Waited = waited
			return nil
		}
		if waited = fmt.Sprintf("%+v", flights); len(flights) == 0 {
			if err := s.paused(ctx, run); err != nil {
				return err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("no work went on for %s after a restart: %s", stuckAfter, tail(s.stack.Dir+".log"))
}
