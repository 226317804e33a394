package run

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

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
	t.Helper()
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
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(2 * lookEvery)
		test(t)
	})
}

func isolated(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
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
							if err := storm(worker(t, store, spec), to, callers); !fault.Is(err, fault.BudgetSpent) {
								t.Errorf("refused with %v", err)
							}
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
				if err := storm(worker(t, memory.New(), spec), to, callers); !fault.Is(err, fault.BudgetSpent) {
					t.Fatal(err)
				}
				if calls := to.calls.Load(); calls < 20 || calls > 21 {
					t.Errorf("%d calls, want 20", calls)
				}
			})
		}
	}
}

func TestTheRefusalTellsTheTrueNumber(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		through := worker(t, memory.New(), core.Spec{Budget: core.Budget{Calls: 3}})
		err := storm(through, &server{}, 1)
		require.True(t, err != nil && errors.As(err, new(*fault.Error)), "%v", err)
		for _, want := range []string{"3 calls", "330 tokens", "budget is 3 calls", "--budget-calls"} {
			assert.Contains(t, err.Error(), want, "%q does not say", err)
		}
	})
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
				group.Go(func() {
					if err := storm(through, to, 32); !fault.Is(err, code) {
						t.Errorf("refused with %v", err)
					}
				})
			}
			for to.calls.Load() < 100 {
				time.Sleep(time.Millisecond)
			}
			_, err := Steer(t.Context(), store, "i/g", command, nil)
			require.NoError(t, err)
			acknowledged := to.calls.Load()
			group.Wait()
			if later := to.calls.Load() - acknowledged; later != 0 {
				t.Errorf("%d calls started after %s was acknowledged", later, command)
			}
		})
	}
}

func TestACommandThatStopsARunTellsWhatIsInFlight(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		workers := []*Book{worker(t, store, core.Spec{}), worker(t, store, core.Spec{})}
		var ends []func(model.Usage, bool)
		for i := range 5 {
			end, err := workers[i%2].Begin(t.Context(), "extract", 100)
			require.NoError(t, err)
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
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		through := worker(t, store, core.Spec{})
		reported := 0
		through.Limited = func(index string, limits *core.LiveLimits) {
			if reported = 0; limits != nil && index == "i" {
				reported = *limits.Concurrency
			}
		}
		for _, want := range []int{2, 7} {
			require.NoError(t, WriteLimits(t.Context(), store, "i/g", nil, &core.LiveLimits{Concurrency: &want}))
			for _, command := range []string{CommandPause, CommandResume} {
				_, err := Steer(t.Context(), store, "i/g", command, nil)
				require.NoError(t, err)
			}
			end, err := through.Begin(t.Context(), "extract", 1)
			require.True(t, err == nil && reported == want,
				"a call was admitted by a concurrency of %d, want %d: %v", reported, want, err)
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
		for _, through := range opened {
			require.NoError(t, through.Flush(t.Context()))
		}
		total, err := ReadTotals(t.Context(), store, "i/g")
		require.NoError(t, err)
		calls := to.calls.Load()
		if total.Calls.Extract != calls || total.Tokens.Prompt != 100*calls || total.Tokens.Completion != 10*calls ||
			total.Cost != float64(100*calls) || total.InFlight.Sum() != 0 {
			t.Errorf("accounts say %+v, the server counted %d calls", total, calls)
		}
	})
}

func TestACallAfterItsCallerGaveUpIsNotSent(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := &far{Store: memory.New(), wait: 20 * time.Millisecond}
		through := worker(t, store, core.Spec{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Millisecond, cancel)
		if _, err := through.Begin(ctx, "extract", 100); !errors.Is(err, context.Canceled) {
			t.Errorf("begin gave %v", err)
		}
		require.NoError(t, through.Flush(t.Context()))
		total, err := ReadTotals(t.Context(), store, "i/g")
		assert.True(t, err == nil && total.InFlight.Sum() == 0, "in flight: %+v, %v", total.InFlight, err)
	})
}

func TestAStoreThatIsAwayAdmitsNothingAndForgetsNothing(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := &far{Store: memory.New()}
		through := worker(t, store, core.Spec{})
		to := &server{}
		require.NoError(t, call(t.Context(), through, to))
		store.away.Store(true)
		if err := call(t.Context(), through, to); !fault.Is(err, fault.StoreDown) {
			t.Errorf("a call was admitted although the control record could not be read: %v", err)
		}
		store.away.Store(false)
		require.NoError(t, call(t.Context(), through, to))
		require.NoError(t, through.Flush(t.Context()))
		total, err := ReadTotals(t.Context(), store, "i/g")
		assert.True(t, err == nil && total.Calls.Extract == 2 && total.InFlight.Sum() == 0, "%+v, %v", total, err)
	})
}

func TestAStoreThatLostItsMemoryHearsTheWholeAccountAgain(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		through := worker(t, store, core.Spec{})
		to := &server{}
		for range 5 {
			require.NoError(t, call(t.Context(), through, to))
		}
		require.NoError(t, through.Flush(t.Context()))
		require.NoError(t, store.ForgetRun(t.Context(), "i/g"))
		require.NoError(t, call(t.Context(), through, to))
		require.NoError(t, through.Flush(t.Context()))
		if total, err := ReadTotals(t.Context(), store, "i/g"); err != nil || total.Calls.Extract != 6 {
			t.Errorf("%+v, %v", total, err)
		}
	})
}

func TestAWatchedUnitIsStoppedWithoutAPaidCall(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		through := worker(t, store, core.Spec{})
		watched, end := through.Watch(t.Context(), "extract")
		defer end()
		_, err := Steer(t.Context(), store, "i/g", CommandPause, nil)
		require.NoError(t, err)
		select {
		case <-watched.Done():
			err := context.Cause(watched)
			assert.True(t, fault.Is(err, fault.Paused), "stopped by %v", err)
		case <-time.After(10 * time.Second):
			t.Fatal("a paused run's unit went on")
		}
		if err := through.CheckControl(t.Context()); !fault.Is(err, fault.Paused) {
			t.Errorf("a unit that begins now: %v", err)
		}
		_, err = Steer(t.Context(), store, "i/g", CommandResume, nil)
		require.NoError(t, err)
		assert.NoError(t, through.CheckControl(t.Context()), "resumed")
		if control, err := ReadControl(t.Context(), store, "i/g"); err != nil || control.Resumed.IsZero() {
			t.Errorf("%+v, %v", control, err)
		}
	})
}

func TestARecordThatNobodyUnderstandsStopsTheRunUntilItIsResumed(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		through := worker(t, store, core.Spec{})
		require.NoError(t, store.SetControl(t.Context(), "i/g", []byte("{broken")))
		to := &server{}
		if err := call(t.Context(), through, to); !fault.Is(err, fault.ControlUnreadable) || to.calls.Load() != 0 {
			t.Errorf("%v after %d calls", err, to.calls.Load())
		}
		if _, err := Steer(t.Context(), store, "i/g", CommandPause, nil); !fault.Is(err, fault.ControlUnreadable) {
			t.Errorf("pause: %v", err)
		}
		_, err := Steer(t.Context(), store, "i/g", CommandResume, nil)
		require.NoError(t, err)
		assert.NoError(t, call(t.Context(), through, to))
	})
}

func TestProgressCountsFinishedUnitsOnceAndUnfinishedOnesNot(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := memory.New()
		through := worker(t, store, core.Spec{})
		unit := func() *Progress { return &Progress{Stage: "extract", Book: through} }
		one, two, three := unit(), unit(), unit()
		one.SetDone(10)
		one.SetDone(20)
		one.Finish(core.Progress{Done: 64, Hits: core.Calls{Extract: 4}, Written: core.Written{Segments: 1}})
		one.Drop() // it is finished: nothing to take back
		two.SetDone(30)
		three.SetDone(5)
		two.Drop()
		require.NoError(t, through.Flush(t.Context()))
		total, err := ReadTotals(t.Context(), store, "i/g")
		assert.True(t, err == nil && total.Done["extract"] == 69 && total.Hits.Extract == 4 && total.Written.Segments == 1,
			"%+v, %v", total, err)
	})
}

func TestAnAdmissionThatGrewOldIsAskedForAgain(t *testing.T) {
	inOwnTime(t, func(t *testing.T) {
		store := &far{Store: memory.New()}
		through := worker(t, store, core.Spec{})
		var ticks atomic.Int64
		start := time.Now()
		through.Clock = func() time.Time { // counted, began, came back, sent: the first call is sent late
			if ticks.Add(1) <= 3 {
				return start
			}
			return start.Add(time.Minute)
		}
		require.NoError(t, call(t.Context(), through, &server{}))
		if looks := store.looks.Load(); looks < 2 {
			t.Errorf("a call was sent a minute after its admission, after %d looks", looks)
		}
	})
}

func TestALookThatTookTooLongAdmitsNothing(t *testing.T) {
	store := &far{Store: memory.New(), back: slowLook + 50*time.Millisecond}
	to := &server{}
	if err := call(t.Context(), worker(t, store, core.Spec{}), to); !fault.Is(err, fault.StoreDown) ||
		to.calls.Load() != 0 {
		t.Errorf("%v after %d calls", err, to.calls.Load())
	}
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
			_, err := through.Begin(t.Context(), task, 100)
			require.NoError(t, err)
		}
		require.NoError(t, through.Flush(t.Context()))
		total, err := ReadTotals(t.Context(), store, "i/g")
		require.NoError(t, err)
		assert.True(t, total.Expected.Completion == 10+500 && total.Risk == 100+20+100+1000 && total.Expected.Prompt == 200,
			"unsettled: %+v, cost %v", total.Expected, total.Risk)
	})
}
