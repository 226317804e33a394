package run

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// paced gives the pace of a stage by accounts.
func paced(t *testing.T, state core.RunState, now time.Time, accounts ...Account) core.Pace {
	store := memory.New()
	for number, account := range accounts {
		raw := must(json.Marshal(account))(t)
		musttest.Get2(store.ExchangeAccount(t.Context(), "i/g", string(rune('a'+number)), raw))(t)
	}
	_, pace := musttest.Get2(ReadPace(t.Context(), store, "i/g", state, now))(t)
	return pace
}

func TestAPaceIsOfTheProcessesThatGetOn(t *testing.T) {
	now := time.Now().UTC()
	begun := now.Add(-10 * time.Hour) // most of which nothing ran
	state := core.RunState{Stage: "extract", Total: 100, StageAt: begun}
	working := Account{
		Done: map[string]int64{"extract": 20}, Worked: map[string]float64{"extract": 90}, Moved: now.Add(-time.Second),
		Lately: map[string]Lately{"extract": {Done: 20, Seconds: 10}},
	}
	killed := Account{
		Done: map[string]int64{"extract": 30}, Worked: map[string]float64{"extract": 1}, Moved: now.Add(-time.Hour),
		Lately: map[string]Lately{"extract": {Done: 30, Seconds: 1}},
	}
	pace := paced(t, state, now, working, killed)
	assert.True(t, pace.Done == 50 && pace.Share == 0.5 && pace.Rate == 2 && pace.Seconds == 25,
		"%+v, want 50 of 100, two a second by the one that works, 25 s left", pace)
	pace = paced(t, state, now, killed)
	assert.True(t, pace.Rate == 0 && pace.Seconds == 0 && pace.Done == 30, "nothing moves: %+v", pace)
}

// A restart finds most of a stage in the ledger: the rate and the time left are those of what is paid for since.
func TestWhatTheLedgerHadIsNoPartOfTheRate(t *testing.T) {
	store := memory.New()
	through := worker(t, store, core.Spec{})
	now := time.Now()
	through.Clock = func() time.Time { return now }
	state := core.RunState{Stage: "extract", Total: 1000, StageAt: now}
	_, end := through.Watch(t.Context(), "extract")
	defer end()
	unit := &Progress{Stage: "extract", Book: through}
	report := core.Progress{Done: 600, Hits: core.Calls{Extract: 600}}
	pass := func(seconds int, each int64) core.Pace {
		for range seconds {
			now = now.Add(time.Second)
			report.Done += each
			unit.Report(report)
			require.NoError(t, through.Flush(t.Context()))
		}
		_, pace, err := ReadPace(t.Context(), store, "i/g", state, time.Now())
		require.NoError(t, err)
		return pace
	}
	pace := pass(1, 0)
	assert.True(t, pace.Done == 600 && pace.Rate == 0 && pace.Seconds == 0, "from the ledger alone: %+v", pace)
	pace = pass(10, 10)
	assert.True(t, pace.Done == 700 && pace.Rate > 9 && pace.Rate <= 10 && pace.Seconds < 34, "ten a second: %+v", pace)
	pace = pass(200, 1)
	assert.True(t, pace.Rate > 0.9 && pace.Rate < 1.5, "one a second for some minutes: %+v", pace)
}

func TestAHugeDocumentIsFollowedByItsBytes(t *testing.T) {
	now := time.Now().UTC()
	state := core.RunState{Stage: "chunk", Total: 101, Bytes: 31_000_000, StageAt: now.Add(-20 * time.Second)}
	account := Account{
		Done: map[string]int64{"chunk": 100}, Bytes: map[string]int64{"chunk": 16_000_000},
		Worked: map[string]float64{"chunk": 16}, Moved: now,
		Lately: map[string]Lately{"chunk": {Done: 100, Bytes: 16_000_000, Seconds: 16}},
	}
	pace := paced(t, state, now, account)
	assert.False(t, pace.Done != 100 || pace.Share < 0.5 || pace.Share > 0.53 || pace.Seconds != 15,
		"%+v, want half of the bytes and 15 s left", pace)
}

func TestProgressDoesNotFallBackWhileAUnitIsDoneAgain(t *testing.T) {
	store := memory.New()
	through := worker(t, store, core.Spec{})
	state := core.RunState{Stage: "chunk", Total: 100, Bytes: 1000, StageAt: time.Now()}
	shown := func() (int64, float64) {
		require.NoError(t, through.Flush(t.Context()))
		_, pace, err := ReadPace(t.Context(), store, "i/g", state, time.Now())
		require.NoError(t, err)
		return pace.Done, pace.Share
	}
	first := &Progress{Stage: "chunk", Book: through}
	first.SetWork(30, 300)
	first.Drop()
	done, share := shown()
	assert.True(t, done == 30 && share == 0.3, "after a unit was given up: %d, %g", done, share)
	second := &Progress{Stage: "chunk", Book: through}
	second.SetWork(20, 200)
	done, share = shown()
	assert.True(t, done == 30 && share == 0.3, "while it is done again: %d, %g", done, share)
	second.Finish(core.Progress{Done: 40, Bytes: 400})
	done, share = shown()
	assert.True(t, done == 40 && share == 0.4, "after it is finished: %d, %g; want what is done, once", done, share)
}

func TestTheTimeInWhichUnitsRunIsCountedByStage(t *testing.T) {
	through := worker(t, memory.New(), core.Spec{})
	var passed atomic.Int64
	begin := time.Now()
	through.Clock = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	_, end := through.Watch(t.Context(), "extract")
	passed.Add(int64(4 * time.Second))
	end()
	passed.Add(int64(time.Hour)) // nothing runs
	_, end = through.Watch(t.Context(), "load")
	passed.Add(int64(2 * time.Second))
	end()
	through.Mu.Lock()
	defer through.Mu.Unlock()
	worked := through.Mine.Worked
	assert.True(t, worked["extract"] == 4 && worked["load"] == 2, "worked %v", worked)
}

func TestWhatUnitsFailWithIsCountedByStageAndCode(t *testing.T) {
	store := memory.New()
	one, two := worker(t, store, core.Spec{}), worker(t, store, core.Spec{})
	for _, through := range []*Book{one, two} {
		through.Refused("extract", fault.ModelRateLimited.At("call", "m"))
		for _, code := range []string{"model_rate_limited", "model_rate_limited", "store_unavailable"} {
			unit := &Progress{Stage: "extract", Book: through}
			unit.CountFailure(core.Problem{Code: code, Object: "extract", Detail: "429 at " + through.Worker})
		}
		require.NoError(t, through.Flush(t.Context()))
	}
	total := must(ReadTotals(t.Context(), store, "i/g"))(t)
	var report core.Report
	total.FillAccount(&report)
	assert.True(t, len(report.Retries) == 2 && report.Retries[0].Code == "model_rate_limited" &&
		report.Retries[0].Count == 6 && report.Retries[0].Detail == "429 at "+two.Worker && report.Retries[1].Count == 2,
		"%+v", report.Retries)
}

// scratchRun returns a unit of work of a process, with its scratch in the artifact store.
func scratchRun(ports *Ports) *Run {
	return &Run{Ports: ports, Scratch: Scratch{Store: ports.Artifacts, Prefix: "i/runs/g/1"}}
}

// However many units of work begin in a process, each file that all of them need is read once; what was not there is
// looked for again.
func TestAProcessReadsAFileOfItsRunOnce(t *testing.T) {
	requests := distance.New(0)
	ports := &Ports{Artifacts: distance.Blob(blobmemory.New(), requests)}
	run := scratchRun(ports)
	require.Error(t, musttest.Err(ReadKept(t.Context(), run, ShardsFile)), "a file that is not there was read")
	want := Shards{Chunks: []int{3, 1}}
	require.NoError(t, ShardsFile.Write(t.Context(), run.Scratch, want))
	requests.Take()
	for range 100 {
		got, err := ReadKept(t.Context(), scratchRun(ports), ShardsFile)
		require.True(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "%v, %v", got, err)
	}
	assert.Equal(t, int64(1), requests.Take().Of(""), "it was read")
	for unit := range 3 * mostKept {
		file := numberFiles[int]("other-%d.json")(unit)
		require.NoError(t, file.Write(t.Context(), run.Scratch, unit))
		got, err := ReadKept(t.Context(), run, file)
		require.True(t, err == nil && got == unit, "%d, %v", got, err)
	}
	assert.LessOrEqual(t, len(ports.Kept.values), mostKept, "files are kept")
}

// Files of units are read side by side: at 15 ms a request 640 take 20 times that, not 640 times.
func TestFilesOfUnitsAreReadSideBySide(t *testing.T) {
	const units = 20 * readWidth
	near := blobmemory.New()
	file := numberFiles[int]("unit-%d.json")
	run := scratchRun(&Ports{Artifacts: near})
	for unit := range units {
		require.NoError(t, file(unit).Write(t.Context(), run.Scratch, unit))
	}
	requests := distance.New(15 * time.Millisecond)
	far := scratchRun(&Ports{Artifacts: distance.Blob(near, requests)})
	want := 0
	for unit, err := range ReadEach(t.Context(), far, units, file) {
		require.True(t, err == nil && unit == want, "unit %d, want %d, %v", unit, want, err)
		want++
	}
	chain := requests.Take().Chain
	assert.True(t, want == units && chain <= 4*units/readWidth, "%d files in a chain of %d requests", want, chain)
}

// An engine may run a workflow again under its name: the lease of a run is not the next one's to keep or to give back.
// Promises: 134.
func TestALeaseIsOfOneRunOfItsWorkflow(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	first := Holder{Workflow: "build/docs/g1", Run: "1", Heartbeat: 8 * time.Second}
	next := first
	next.Run = "2"
	open := func(context.Context, Holder) (Standing, error) { return StandingOpen, nil }
	fence := must(TakeLease(t.Context(), index, first, open))(t)
	for _, standing := range []Standing{StandingOpen, StandingUnknown} { // an engine that lost its memory knows no run
		says := func(context.Context, Holder) (Standing, error) { return standing, nil }
		if _, err := TakeLease(t.Context(), index, next, says); !fault.Is(err, fault.LeaseHeld) {
			t.Errorf("standing %d: the next run of the workflow takes it: %v", standing, err)
		}
	}
	require.NoError(t, GiveLease(t.Context(), index, next))
	lease, _, err := ReadLease(t.Context(), index)
	assert.True(t, err == nil && lease.Run == "1" && lease.Fence == fence, "the lease is %+v, %v", lease, err)
	for name, c := range map[string]struct {
		holder Holder
		fence  int64
		holds  bool
	}{
		"the run":                        {first, fence, true},
		"the next run of the workflow":   {next, fence, false},
		"another workflow":               {Holder{Workflow: "build/docs/g2", Run: "1"}, fence, false},
		"the run as it was before":       {first, fence - 1, false},
		"the run with a later lease":     {first, fence + 1, false},
		"one that has nothing but fence": {Holder{}, fence, true},
	} {
		lease, _, err := ReadLease(t.Context(), index)
		if work := (&Run{Job: Job{Fence: c.fence, Holder: c.holder}}); err != nil || work.holdsLease(lease) != c.holds {
			t.Errorf("%s holds it: %t, %v", name, work.holdsLease(lease), err)
		}
		err = HoldLease(t.Context(), index, c.holder, c.fence)
		assert.True(t, c.holder.Run == "" || (err == nil) == c.holds, "%s renews it: %v", name, err)
	}
}

// Whatever happens between a look at the lease and its write, one run has it, and one that renews it keeps it.
// Promises: 134.
func TestALeaseIsWrittenAsItWasSeen(t *testing.T) {
	one := Holder{Workflow: "build/docs/g1", Run: "1", Heartbeat: 8 * time.Second}
	two := Holder{Workflow: "build/docs/g2", Run: "2", Heartbeat: 8 * time.Second}
	open := func(context.Context, Holder) (Standing, error) { return StandingOpen, nil }
	for name, given := range map[string]bool{"no run had it": false, "it was given back": true} {
		plain := artifact.Index{Store: blobmemory.New(), Name: "docs"}
		take := func(index artifact.Index, holder Holder) (int64, error) {
			return TakeLease(t.Context(), index, holder, open)
		}
		if given {
			must(take(plain, one))(t)
			require.NoError(t, GiveLease(t.Context(), plain, one))
		}
		beside := func(happens func() error) blob.Store { // it happens right before the lease is written
			once := sync.OnceValue(happens)
			return &stagetest.Tampered{Store: plain.Store, OnPut: func(string) error { return once() }}
		}
		index := artifact.Index{Name: "docs", Store: beside(func() error { return musttest.Err(take(plain, two)) })}
		fence, err := take(index, one)
		assert.True(t, fault.Is(err, fault.LeaseHeld), "%s: two runs have the lease, one with fence %d: %v", name, fence, err)
		// Its own process renews it while it is given back; another has it while it is declared lost.
		renewed, _, err := ReadLease(t.Context(), plain)
		require.True(t, err == nil && renewed.Run == "2", "%s: %+v, %v", name, renewed, err)
		index.Store = beside(func() error {
			renewed.Renewed = renewed.Renewed.Add(time.Second)
			return musttest.Err(blob.WriteJSON(t.Context(), plain.Store, plain.LeaseKey(), renewed, blob.Cond{}))
		})
		err = GiveLease(t.Context(), index, two)
		assert.True(t, err == nil, "%s: %v", name, err)
		lease, _, err := ReadLease(t.Context(), plain)
		assert.True(t, err == nil && lease.Workflow == "" && lease.Fence == renewed.Fence,
			"%s: after it was given back it is %+v, %v", name, lease, err)
	}
}

// A run that is declared lost and whose process renews the lease just then is not lost.
// Promises: 134.
func TestALeaseThatIsRenewedIsNotFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
		one := Holder{Workflow: "build/docs/g1", Run: "1", Heartbeat: 8 * time.Second}
		must(TakeLease(t.Context(), index, one, nil))(t)
		open, began := true, time.Now()
		free := func() error {
			return FreeLease(t.Context(), index, "", func(context.Context, Holder) (bool, error) { return open, nil })
		}
		if err := free(); !fault.Is(err, fault.LeaseHeld) || time.Since(began) != 0 {
			t.Errorf("the engine runs it: %v after %s", err, time.Since(began))
		}
		open = false
		time.AfterFunc(7*time.Second, func() {
			lease, _, err := ReadLease(t.Context(), index)
			if err == nil {
				lease.Renewed = time.Now()
				_, err = blob.WriteJSON(t.Context(), index.Store, index.LeaseKey(), lease, blob.Cond{})
			}
			assert.NoError(t, err)
		})
		musttest.Code(t, free(), fault.LeaseHeld, "a process renews it")
		began = time.Now()
		err := free()
		assert.True(t, err == nil && time.Since(began) == one.Heartbeat, "freed after %s: %v", time.Since(began), err)
		lease, _, err := ReadLease(t.Context(), index)
		assert.True(t, err == nil && lease.Workflow == "" && lease.Fence == 1, "the lease is %+v, %v", lease, err)
	})
}

// A process looks at its lease when that needs no renewal yet, and stands still. What the look permits is over before
// another run, which begins to watch as late as it may, has the lease.
// Promises: 134.
func TestWhatALookPermitsIsOverBeforeAnotherRunHasTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
		one := Holder{Workflow: "build/docs/g1", Run: "1", Heartbeat: 8 * time.Second}
		fence := must(TakeLease(t.Context(), index, one, nil))(t)
		work := &Run{
			Ports: &Ports{Artifacts: index.Store}, Index: index, Book: &Book{},
			Job: Job{Index: "docs", Generation: "g1", Fence: fence, Holder: one},
		}
		if err := work.GuardLease(t.Context()); err != nil { // it renews what it has not renewed itself yet
			t.Fatal(err)
		}
		taken := make(chan time.Time)
		go func() {
			closed := func(context.Context, Holder) (Standing, error) { return StandingClosed, nil }
			assert.NoError(t, musttest.Err(TakeLease(t.Context(), index, Holder{Workflow: "build/docs/g2", Run: "2"}, closed)))
			taken <- time.Now()
		}()
		time.Sleep(one.Heartbeat/renewals - time.Millisecond)
		before, _, _ := ReadLease(t.Context(), index)
		require.NoError(t, work.GuardLease(t.Context()))
		after, _, err := ReadLease(t.Context(), index)
		assert.True(t, err == nil && after == before, "it was renewed: %+v, %v", after, err)
		permitted := time.Now().Add(work.PermitTime())
		at := <-taken
		assert.True(t, at.After(permitted), "another run has the lease %s before the permit is over", permitted.Sub(at))
	})
}

// A lease that cannot be understood is mended above every fence that any run of the index, or of a branch, ever had.
// Promises: 134.
func TestAMendedLeaseIsAboveEveryFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
		highest := int64(41)
		for _, scratch := range []string{index.RunKey("g1", "41", "build.json"), ""} { // then all of it is collected
			if scratch == "" {
				require.NoError(t, index.Store.Delete(t.Context(), index.RunKey("g1", "41", "build.json")))
			} else if _, err := blob.Write(t.Context(), index.Store, scratch, []byte("{}"), blob.Cond{}); err != nil {
				t.Fatal(err)
			}
			must(blob.Write(t.Context(), index.Store, index.LeaseKey(), []byte(`{"fence":`), blob.Cond{}))(t)
			require.NoError(t, MendLease(t.Context(), index))
			fence, err := TakeLease(t.Context(), index, Holder{Workflow: "build/docs/g3", Run: "3"}, nil)
			assert.True(t, err == nil && fence > highest, "the next fence is %d, %v", fence, err)
			highest = fence
			time.Sleep(time.Second)
		}
	})
}
