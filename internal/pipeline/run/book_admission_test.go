package run

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

// chat is a paid server of so many places, behind its limits and a run's account.
type chat struct{ *server }

func (chat) Info() model.Info { return model.Info{Endpoint: "http://e", Paid: true} }

func (c chat) Complete(context.Context, model.Call) (model.Reply, error) {
	return model.Reply{Usage: c.ask()}, nil
}

// places returns the way to a server of so many places: its calls are admitted while others have the places.
func places(through *Book, to *server, width int) limits.Chat {
	gate := limits.NewGate()
	gate.SetLimit("i", width)
	return limits.Chat{Chat: model.MeterChat(chat{to}, through), Limits: limits.Limits{Gate: gate}}
}

// crowd makes calls from so many callers until one is refused, which ends the others, as those of a unit; it gives the
// first refusal.
func crowd(through limits.Chat, callers int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	refusals := make(chan error, callers)
	for range callers {
		group.Go(func() {
			for {
				if _, err := through.Complete(ctx, model.Call{Task: model.Extract}); err != nil {
					refusals <- err
					cancel()
					return
				}
			}
		})
	}
	group.Wait()
	return <-refusals
}

// With a place for one call after the other, and a store that takes a fifth of a call to admit one, a call's place is
// taken by the next at once.
func TestCallsAreAdmittedWhileOthersHaveThePlaces(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		const calls, latency, asking = 50, 50 * time.Millisecond, 10 * time.Millisecond
		store := &far{Store: memory.New(), wait: asking}
		through, to := worker(t, store, core.Spec{}), &server{latency: latency}
		way := places(through, to, 1)
		begun := time.Now()
		var group sync.WaitGroup
		for range calls {
			group.Go(func() {
				_, err := way.Complete(t.Context(), model.Call{Task: model.Extract})
				assert.NoError(t, err)
			})
		}
		group.Wait()
		least := calls*latency + asking // the first is admitted before anybody has a place
		if took := time.Since(begun); took > least+5*asking || to.most.Load() != 1 {
			t.Errorf("%d calls took %s, want some %s; %d at once", calls, took, least, to.most.Load())
		}
	})
}

func TestABudgetIsKeptAndNothingStaysInFlightWhereCallsAreAdmittedAhead(t *testing.T) {
	for _, width := range []int{1, 8, 64} {
		isolated(t, "places", func(t *testing.T) {
			store := &far{Store: memory.New(), wait: 2 * time.Millisecond}
			const budget = roomyCalls + 300 // it ends where no call is admitted ahead any more
			through := worker(t, store, core.Spec{Budget: core.Budget{Calls: budget}})
			to := &server{latency: 20 * time.Millisecond}
			if err := crowd(places(through, to, width), 3*width+2); !fault.Is(err, fault.BudgetSpent) {
				t.Errorf("refused with %v", err)
			}
			assert.Equal(t, int64(budget), to.calls.Load())
			settled(t, through, store, budget)
		})
	}
}

// settled reports whether the account has these calls and none in flight.
func settled(t *testing.T, through *Book, store *far, calls int64) {
	t.Helper()
	_ = through.Flush(t.Context())
	total, err := ReadTotals(t.Context(), store, "i/g")
	assert.True(t, err == nil && total.Calls.Extract == calls && total.InFlight.Sum() == 0,
		"the account is %+v (%v), want %d calls and none in flight", total, err, calls)
}

func TestNoCallThatWasAdmittedAheadStartsAfterPauseIsAcknowledged(t *testing.T) {
	for _, latency := range []time.Duration{3 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second} {
		isolated(t, latency.String(), func(t *testing.T) {
			store := &far{Store: memory.New(), wait: 5 * time.Millisecond}
			through, to := worker(t, store, core.Spec{}), &server{latency: latency}
			started := make(chan error, 1)
			go func() { started <- crowd(places(through, to, 8), 40) }()
			time.Sleep(3*latency + 100*time.Millisecond)
			_, err := Steer(t.Context(), store, "i/g", CommandPause, nil)
			require.NoError(t, err)
			acknowledged := to.calls.Load()
			if err := <-started; !fault.Is(err, fault.Paused) {
				t.Errorf("refused with %v", err)
			}
			assert.Zero(t, to.calls.Load()-acknowledged)
			settled(t, through, store, to.calls.Load())
		})
	}
}

func TestAnAdmissionIsGivenBackWhereItsCallIsNotSent(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := &far{Store: memory.New(), wait: time.Millisecond}
		through, to := worker(t, store, core.Spec{}), &server{latency: time.Hour}
		way := places(through, to, 1)
		var group sync.WaitGroup
		group.Go(func() { _, _ = way.Complete(context.Background(), model.Call{Task: model.Extract}) })
		time.Sleep(time.Second)
		for range 3 { // one gives up while it is admitted, one when that is too old
			for _, patience := range []time.Duration{10 * time.Millisecond, time.Minute} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, err := way.Complete(ctx, model.Call{Task: model.Extract})
				if cancel(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			}
		}
		require.NoError(t, through.Flush(t.Context()))
		if total, err := ReadTotals(t.Context(), store, "i/g"); err != nil || total.InFlight.Sum() != 1 {
			t.Errorf("%+v in flight, want the one that is out (%v)", total.InFlight, err)
		}
		group.Wait()
	})
}

func TestAnAdmissionHoldsAQuarterOfASecondAndOnce(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		through := worker(t, memory.New(), core.Spec{})
		admitted, err := through.AdmitAhead(t.Context(), model.Extract, 100)
		require.True(t, err == nil && admitted.Holds() && time.Until(admitted.Until) == admission, "%+v %v", admitted, err)
		time.Sleep(admission)
		assert.False(t, admitted.Holds(), "it holds, although a pause may have been acknowledged since")
		admitted.GiveBack()
		admitted.GiveBack()
		assert.Zero(t, through.Mine.InFlight.Sum(), "%+v in flight after it was given back", through.Mine.InFlight)
	})
}
