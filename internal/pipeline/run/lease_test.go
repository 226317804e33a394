package run

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

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
