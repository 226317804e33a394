package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/limits"
	"github.com/unweaver/unweaver/internal/store/coordination"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// must returns a value that comes without an error.
func must[T any](value T, err error) func(testing.TB) T { return musttest.Get(value, err) }

// far is a coordination store that answers only after a while, as a real one does, and may be away.
type far struct {
	coordination.Store
	wait  time.Duration // on the way there
	back  time.Duration // on the way back: its answer is that old
	away  atomic.Bool
	looks atomic.Int64
}

func (f *far) ExchangeAccount(
	ctx context.Context, run, worker string, value []byte,
) ([]byte, map[string][]byte, error) {
	time.Sleep(f.wait)
	if f.away.Load() {
		return nil, nil, fault.StoreDown.At("reach", "the store")
	}
	f.looks.Add(1)
	control, accounts, err := f.Store.ExchangeAccount(ctx, run, worker, value)
	time.Sleep(f.back)
	return control, accounts, err
}

// worker returns the book of a separate process: the accounts of two never share memory.
func worker(t *testing.T, store coordination.Store, spec core.Spec) *Book {
	all := &books{}
	opened := all.openBook(&Ports{Coordination: store}, "i/g", 1)
	opened.setPrices(spec)
	return opened
}

// server counts what it is asked for.
type server struct {
	latency time.Duration
	calls   atomic.Int64
	most    atomic.Int64
	now     atomic.Int64
}

func (s *server) ask() model.Usage {
	inFlight := s.now.Add(1)
	for {
		most := s.most.Load()
		if inFlight <= most || s.most.CompareAndSwap(most, inFlight) {
			break
		}
	}
	s.calls.Add(1)
	time.Sleep(s.latency)
	s.now.Add(-1)
	return model.Usage{Prompt: 100, Completion: 10}
}

// call makes one paid call through the gate.
func call(ctx context.Context, through *Book, to *server) error {
	end, err := through.Begin(ctx, "extract", 100)
	if err != nil {
		return err
	}
	end(to.ask(), true)
	return nil
}

// storm makes calls from as many callers as are given until each is refused; it gives the first refusal.
func storm(through *Book, to *server, callers int) error {
	var group sync.WaitGroup
	refusals := make(chan error, callers)
	for range callers {
		group.Go(func() {
			for {
				if err := call(context.Background(), through, to); err != nil {
					refusals <- err
					return
				}
			}
		})
	}
	group.Wait()
	return <-refusals
}

// inOwnTime runs a test in time of its own: what the gate counts on takes no longer on a machine that is busy. The
// loops of accounts end when they have nothing to do at their next look.
func inOwnTime(t *testing.T, test func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(2 * lookEvery)
		test(t)
	})
}

// withBook runs a test of the book of one worker in time of its own.
func withBook(t *testing.T, test func(t *testing.T, store *far, through *Book)) {
	inOwnTime(t, func(t *testing.T) {
		store := &far{Store: memory.New()}
		test(t, store, worker(t, store, core.Spec{}))
	})
}

// flushed returns the totals once books have written down theirs.
func flushed(t *testing.T, store coordination.Store, books ...*Book) Account {
	for _, through := range books {
		require.NoError(t, through.Flush(t.Context()))
	}
	return must(ReadTotals(t.Context(), store, "i/g"))(t)
}

func isolated(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { inOwnTime(t, test) })
}

// Promises: 22.
func TestABudgetOfCallsIsNeverOvershot(t *testing.T) {
	for _, latency := range []time.Duration{0, 2 * time.Millisecond, 20 * time.Millisecond} {
		for _, callers := range []int{1, 8, 64, 512} {
			for _, workers := range []int{1, 3} {
				isolated(t, fmt.Sprintf("%s, %d callers, %d workers", latency, callers, workers), func(t *testing.T) {
					store := &far{Store: memory.New(), wait: 100 * time.Microsecond}
					to := &server{latency: latency}
					spec := core.Spec{Budget: core.Budget{Calls: 20}}
					var group sync.WaitGroup
					for range workers {
						group.Go(func() {
							musttest.Code(t, storm(worker(t, store, spec), to, callers), fault.BudgetSpent, "refused with")
						})
					}
					group.Wait()
					assert.Equal(t, int64(20), to.calls.Load())
				})
			}
		}
	}
}

// A process sends no more calls at once than are expected to fit: also the first, of whose answers nothing is known.
func TestABudgetOfTokensOrMoneyIsOvershotByACallAtMost(t *testing.T) {
	price := core.Price{Prompt: 10_000, Completion: 0} // 100 tokens cost 1
	for name, budget := range map[string]core.Budget{"tokens": {Tokens: 20 * 110}, "money": {Money: 20}} {
		for _, callers := range []int{1, 8, 64} {
			isolated(t, fmt.Sprintf("%s, %d callers", name, callers), func(t *testing.T) {
				to := &server{latency: time.Millisecond}
				spec := core.Spec{Budget: budget, Chat: core.ChatModel{Price: price}}
				musttest.Code(t, storm(worker(t, memory.New(), spec), to, callers), fault.BudgetSpent)
				calls := to.calls.Load()
				assert.True(t, calls >= 20 && calls <= 21, "%d calls, want 20", calls)
			})
		}
	}
}

// Promises: 21.
func TestNoCallStartsAfterPauseOrCancelIsAcknowledged(t *testing.T) {
	for command, code := range map[string]fault.Code{CommandPause: fault.Paused, CommandCancel: fault.Cancelled} {
		isolated(t, command, func(t *testing.T) {
			store := &far{Store: memory.New(), back: 50 * time.Millisecond}
			to := &server{latency: 3 * time.Millisecond}
			var group sync.WaitGroup
			for range 2 {
				through := worker(t, store, core.Spec{})
				group.Go(func() { musttest.Code(t, storm(through, to, 32), code, "refused with") })
			}
			for to.calls.Load() < 100 {
				time.Sleep(time.Millisecond)
			}
			must(Steer(t.Context(), store, "i/g", command, nil))(t)
			acknowledged := to.calls.Load()
			group.Wait()
			later := to.calls.Load() - acknowledged
			assert.True(t, later == 0, "%d calls started after %s was acknowledged", later, command)
		})
	}
}

func TestACommandThatStopsARunTellsWhatIsInFlight(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		workers := []*Book{worker(t, store, core.Spec{}), worker(t, store, core.Spec{})}
		var ends []func(model.Usage, bool)
		for i := range 5 {
			end := must(workers[i%2].Begin(t.Context(), "extract", 100))(t)
			ends = append(ends, end)
		}
		for _, want := range []int64{5, 3} {
			for _, command := range []string{CommandPause, CommandCancel} {
				inFlight, err := Steer(t.Context(), store, "i/g", command, nil)
				assert.True(t, err == nil && inFlight == want, "%s: %d calls in flight, %v; want %d", command, inFlight, err, want)
			}
			if want == 5 { // one is answered and one is not: both are over, and an answer that comes late is paid for
				ends[0](model.Usage{Prompt: 10}, true)
				ends[1](model.Usage{}, false)
				for _, through := range workers {
					require.NoError(t, through.Flush(t.Context()))
				}
			}
		}
		total, err := ReadTotals(t.Context(), store, "i/g")
		assert.True(t, err == nil && total.Calls.Extract == 1 && total.InFlight.Extract == 3, "%+v %v", total, err)
	})
}

func TestLimitsAreToldBeforeACallIsAdmittedAndOutliveAPause(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		reported := 0
		through.Limited = func(index string, limits *core.LiveLimits) {
			if reported = 0; limits != nil && index == "i" {
				reported = *limits.Concurrency
			}
		}
		for _, want := range []int{2, 7} {
			require.NoError(t, WriteLimits(t.Context(), store, "i/g", nil, &core.LiveLimits{Concurrency: &want}))
			for _, command := range []string{CommandPause, CommandResume} {
				must(Steer(t.Context(), store, "i/g", command, nil))(t)
			}
			end := musttest.Get(through.Begin(t.Context(), "extract", 1))(t)
			require.True(t, reported == want, "a call was admitted by a concurrency of %d, want %d", reported, want)
			end(model.Usage{}, false)
		}
		zero := 0
		err := WriteLimits(t.Context(), store, "i/g", nil, &core.LiveLimits{Concurrency: &zero})
		assert.Error(t, err, "a concurrency of 0 was written down")
	})
}

// Promises: 23.
func TestAccountsEqualWhatTheServerCounted(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		to := &server{latency: time.Millisecond}
		var opened []*Book
		for range 3 {
			opened = append(opened, worker(t, store, core.Spec{Chat: core.ChatModel{Price: core.Price{Prompt: 1e6}}}))
		}
		var group sync.WaitGroup
		for i := range 300 {
			group.Go(func() {
				through := opened[i%3]
				end, err := through.Begin(t.Context(), "extract", 100)
				if err != nil {
					t.Error(err)
					return
				}
				if i%5 == 0 { // the server never answered: nothing is paid
					end(model.Usage{}, false)
					return
				}
				end(to.ask(), true)
			})
		}
		group.Wait()
		total := flushed(t, store, opened...)
		calls := to.calls.Load()
		assert.True(t, total.Calls.Extract == calls && total.Tokens.Prompt == 100*calls &&
			total.Tokens.Completion == 10*calls && total.Cost == float64(100*calls) && total.InFlight.Sum() == 0,
			"accounts say %+v, the server counted %d calls", total, calls)
	})
}

func TestACallAfterItsCallerGaveUpIsNotSent(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := &far{Store: memory.New(), wait: 20 * time.Millisecond}
		through := worker(t, store, core.Spec{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		_, err := through.Begin(ctx, "extract", 100)
		assert.True(t, errors.Is(err, context.Canceled), "begin gave %v", err)
		total := flushed(t, store, through)
		assert.True(t, total.InFlight.Sum() == 0, "in flight: %+v", total.InFlight)
	})
}

func TestAStoreThatIsAwayAdmitsNothingAndForgetsNothing(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		to := &server{}
		require.NoError(t, call(t.Context(), through, to))
		store.away.Store(true)
		if err := call(t.Context(), through, to); !fault.Is(err, fault.StoreDown) {
			t.Errorf("a call was admitted although the control record could not be read: %v", err)
		}
		store.away.Store(false)
		require.NoError(t, call(t.Context(), through, to))
		total := flushed(t, store, through)
		assert.True(t, total.Calls.Extract == 2 && total.InFlight.Sum() == 0, "%+v", total)
	})
}

func TestAStoreThatLostItsMemoryHearsTheWholeAccountAgain(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		to := &server{}
		for range 5 {
			require.NoError(t, call(t.Context(), through, to))
		}
		require.NoError(t, through.Flush(t.Context()))
		require.NoError(t, store.ForgetRun(t.Context(), "i/g"))
		require.NoError(t, call(t.Context(), through, to))
		total := flushed(t, store, through)
		assert.True(t, total.Calls.Extract == 6, "%+v", total)
	})
}

func TestAWatchedUnitIsStoppedWithoutAPaidCall(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		watched, end := through.Watch(t.Context(), "extract")
		defer end()
		must(Steer(t.Context(), store, "i/g", CommandPause, nil))(t)
		select {
		case <-watched.Done():
			musttest.Code(t, context.Cause(watched), fault.Paused, "stopped by")
		case <-time.After(10 * time.Second):
			t.Fatal("a paused run's unit went on")
		}
		musttest.Code(t, through.CheckControl(t.Context()), fault.Paused, "a unit that begins now")
		must(Steer(t.Context(), store, "i/g", CommandResume, nil))(t)
		assert.NoError(t, through.CheckControl(t.Context()), "resumed")
		control, err := ReadControl(t.Context(), store, "i/g")
		assert.True(t, err == nil && !control.Resumed.IsZero(), "%+v, %v", control, err)
	})
}

func TestARecordThatNobodyUnderstandsStopsTheRunUntilItIsResumed(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		require.NoError(t, store.SetControl(t.Context(), "i/g", []byte("{broken")))
		to := &server{}
		if err := call(t.Context(), through, to); !fault.Is(err, fault.ControlUnreadable) || to.calls.Load() != 0 {
			t.Errorf("%v after %d calls", err, to.calls.Load())
		}
		musttest.Code(t, musttest.Err(Steer(t.Context(), store, "i/g", CommandPause, nil)), fault.ControlUnreadable, "pause")
		must(Steer(t.Context(), store, "i/g", CommandResume, nil))(t)
		assert.NoError(t, call(t.Context(), through, to))
	})
}

func TestProgressCountsFinishedUnitsOnceAndUnfinishedOnesNot(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		unit := func() *Progress { return &Progress{Stage: "extract", Book: through} }
		one, two, three := unit(), unit(), unit()
		one.SetDone(10)
		one.SetDone(20)
		one.Finish(core.Progress{Done: 64, Hits: core.Calls{Extract: 4}, Written: core.Written{Segments: 1}})
		one.Drop() // it is finished: nothing to take back
		two.SetDone(30)
		three.SetDone(5)
		two.Drop()
		total := flushed(t, store, through)
		assert.True(t, total.Done["extract"] == 69 && total.Hits.Extract == 4 && total.Written.Segments == 1, "%+v", total)
	})
}

func TestAnAdmissionThatGrewOldIsAskedForAgain(t *testing.T) {
	withBook(t, func(t *testing.T, store *far, through *Book) {
		var ticks atomic.Int64
		start := time.Now()
		through.Clock = func() time.Time { // counted, began, came back, sent: the first call is sent late
			if ticks.Add(1) <= 3 {
				return start
			}
			return start.Add(time.Minute)
		}
		require.NoError(t, call(t.Context(), through, &server{}))
		looks := store.looks.Load()
		assert.True(t, looks >= 2, "a call was sent a minute after its admission, after %d looks", looks)
	})
}

func TestALookThatTookTooLongAdmitsNothing(t *testing.T) {
	store := &far{Store: memory.New(), back: slowLook + 50*time.Millisecond}
	to := &server{}
	err := call(t.Context(), worker(t, store, core.Spec{}), to)
	assert.True(t, fault.Is(err, fault.StoreDown) && to.calls.Load() == 0, "%v after %d calls", err, to.calls.Load())
}

// What was sent and never answered is reckoned with an answer as long as the others of its task.
func TestUnansweredCallsAreReckonedWithAnAnswer(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		price := core.Price{Prompt: 1e6, Completion: 2e6}
		through := worker(t, store, core.Spec{Chat: core.ChatModel{Price: price}})
		for range 3 {
			require.NoError(t, call(t.Context(), through, &server{}))
		}
		for _, task := range []string{"extract", "shorten"} { // of shorten nothing is known
			must(through.Begin(t.Context(), task, 100))(t)
		}
		total := flushed(t, store, through)
		assert.True(t, total.Expected.Completion == 10+500 && total.Risk == 100+20+100+1000 && total.Expected.Prompt == 200,
			"unsettled: %+v, cost %v", total.Expected, total.Risk)
	})
}

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
			group.Go(func() { assert.NoError(t, musttest.Err(way.Complete(t.Context(), model.Call{Task: model.Extract}))) })
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
			musttest.Code(t, crowd(places(through, to, width), 3*width+2), fault.BudgetSpent, "refused with")
			assert.Equal(t, int64(budget), to.calls.Load())
			settled(t, through, store, budget)
		})
	}
}

// settled reports whether the account has these calls and none in flight.
func settled(t *testing.T, through *Book, store *far, calls int64) {
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
			must(Steer(t.Context(), store, "i/g", CommandPause, nil))(t)
			acknowledged := to.calls.Load()
			err := <-started
			assert.True(t, fault.Is(err, fault.Paused), "refused with %v", err)
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
				cancel()
				assert.True(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
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

// What is in flight, here or in another process, or was when one died, counts as spent.
// Promises: 22.
func TestABudgetCountsWhatIsInFlight(t *testing.T) {
	var paid, flying Account
	paid.Calls, paid.Tokens, paid.Cost = core.Calls{Extract: 6}, core.Tokens{Prompt: 50, Completion: 5, Embedding: 5}, 6
	flying.CountFlight(Flight{Task: "extract", Prompt: 10, Completion: 2, Cost: 1}, 2)
	flying.CountFlight(Flight{Task: taskEmbed, Prompt: 16, Cost: 2}, 1)
	both := paid
	both.addAccount(flying)
	for name, c := range map[string]struct {
		budget core.Budget
		total  Account
		spent  bool
	}{
		"none":                               {core.Budget{}, both, false},
		"calls with room for one":            {core.Budget{Calls: 10}, both, false},
		"calls that are in flight":           {core.Budget{Calls: 9}, both, true},
		"calls that were paid for":           {core.Budget{Calls: 6}, paid, true},
		"calls, none of them in flight":      {core.Budget{Calls: 7}, paid, false},
		"tokens with room for one":           {core.Budget{Tokens: 101}, both, false},
		"tokens that are in flight":          {core.Budget{Tokens: 100}, both, true},
		"tokens, none of them in flight":     {core.Budget{Tokens: 61}, paid, false},
		"tokens that were paid for":          {core.Budget{Tokens: 60}, paid, true},
		"money with room":                    {core.Budget{Money: 10.5}, both, false},
		"money that is in flight":            {core.Budget{Money: 10}, both, true},
		"money, none of it in flight":        {core.Budget{Money: 6.5}, paid, false},
		"the calls of several, of all kinds": {core.Budget{Calls: 100, Tokens: 1000, Money: 10}, both, true},
	} {
		err := CheckBudget(c.budget, c.total, "i/g")
		assert.True(t, fault.Is(err, fault.BudgetSpent) == c.spent && (err != nil) == c.spent, "%s: %v", name, err)
	}
}

// A budget that counts too little is none: an account that cannot be read, or is impossible, is an error.
// Promises: 22.
func TestADamagedAccountIsNoEmptyOne(t *testing.T) {
	whole := must(json.Marshal(Account{Calls: core.Calls{Extract: 3}, Cost: 1}))(t)
	for name, raw := range map[string]string{
		"cut": string(whole[:len(whole)/2]), "null": "null", "another kind": "[]",
		"calls below zero": `{"calls":{"extract":-3}}`, "money below zero": `{"cost":-1}`,
		"in flight below zero": `{"in_flight":{"embed":-1}}`, "tokens below zero": `{"tokens":{"prompt":-1}}`,
	} {
		accounts := map[string][]byte{"one": whole, "two": []byte(raw)}
		total, err := sumAccounts("i/g", accounts, "")
		assert.True(t, fault.Is(err, fault.ControlUnreadable), "%s: %+v, %v", name, total, err)
		total, err = sumAccounts("i/g", accounts, "two")
		assert.True(t, err == nil && total.Calls.Extract == 3, "%s, its own: %+v, %v", name, total, err)
	}
	large := must(json.Marshal(Account{Calls: core.Calls{Extract: math.MaxInt64 - 1}}))(t)
	accounts := map[string][]byte{"one": large, "two": large}
	total, err := sumAccounts("i/g", accounts, "")
	assert.True(t, fault.Is(err, fault.ControlUnreadable), "two that overflow: %+v, %v", total, err)
}

// A model that other calls of the run reach is not away, however long one unit fails.
func TestAModelIsAwayOnceNothingIsAnsweredForAWhile(t *testing.T) {
	store := memory.New()
	here, there := worker(t, store, core.Spec{}), worker(t, store, core.Spec{})
	there.Worker = "another process"
	now := time.Now()
	here.Clock = func() time.Time { return now }
	answer := func(through *Book) {
		through.Change(func(account *Account) { account.Calls.Extract++ })
		require.NoError(t, through.Flush(t.Context()))
		require.NoError(t, here.Flush(t.Context()))
	}
	fails := func(passed time.Duration, away bool) {
		now = now.Add(passed)
		assert.Equal(t, away, here.ModelAway())
	}
	fails(0, false)
	fails(awayFor-1, false)
	answer(here)
	fails(1, false)
	fails(awayFor-1, false)
	answer(there)
	fails(1, false)
	fails(awayFor, true)
	fails(10*time.Minute, true) // after a wait
}
