package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// engine says how runs stand.
type engine map[run.Holder]run.Standing

func (e engine) standing(_ context.Context, holder run.Holder) (run.Standing, error) {
	return e[holder], nil
}

var (
	ours   = core.Engine{Cluster: "ours", Address: "here:7233", Namespace: "default"}
	theirs = core.Engine{Cluster: "theirs", Address: "there:7233", Namespace: "default"}
)

// beats is the heartbeat of the runs of these tests.
const beats = 8 * time.Second

var (
	one = run.Holder{Workflow: "build/docs/one", Run: "1", Engine: ours, Heartbeat: beats}
	two = run.Holder{Workflow: "build/docs/two", Run: "2", Engine: ours, Heartbeat: beats}
)

// asked returns a holder as it is asked about.
func asked(holder run.Holder) run.Holder {
	return run.Holder{Workflow: holder.Workflow, Run: holder.Run}
}

func emptyIndex() artifact.Index { return artifact.Index{Store: blobmemory.New(), Name: "docs"} }

// take takes the lease and ends the test where it cannot.
func take(t *testing.T, index artifact.Index, holder run.Holder, known engine) int64 {
	t.Helper()
	fence, err := run.TakeLease(t.Context(), index, holder, known.standing)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

func lease(t *testing.T, index artifact.Index) core.Lease {
	t.Helper()
	out, _, err := run.ReadLease(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t *testing.T, index artifact.Index, lease core.Lease) {
	t.Helper()
	if _, err := blob.WriteJSON(t.Context(), index.Store, index.LeaseKey(), lease, blob.Cond{}); err != nil {
		t.Fatal(err)
	}
}

// Promises: 29.
func TestTheLeasePassesOnOnlyWhenItsHolderIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index, known := emptyIndex(), engine{}
		began := time.Now()
		first := take(t, index, one, known)
		if again := take(t, index, one, known); again != first || first != 1 {
			t.Errorf("fences %d and %d", first, again)
		}
		known[asked(one)] = run.StandingOpen
		_, err := run.TakeLease(t.Context(), index, two, known.standing)
		if !fault.Is(err, fault.LeaseHeld) || !strings.Contains(err.Error(), "unweaver cancel docs/one") {
			t.Errorf("held by one: %v", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a free lease, and one that is held, took %s", took)
		}
		known[asked(one)] = run.StandingClosed
		second := take(t, index, two, known)
		if took := time.Since(began); second != first+1 || took < beats || took > beats+beats/4 {
			t.Errorf("fence %d after %d, in %s", second, first, took)
		}
		if err := run.GiveLease(t.Context(), index, one); err != nil { // it is not its any more
			t.Fatal(err)
		}
		known[asked(two)] = run.StandingOpen
		if _, err = run.TakeLease(t.Context(), index, one, known.standing); !fault.Is(err, fault.LeaseHeld) {
			t.Errorf("a lease was given back by a run that did not hold it: %v", err)
		}
		if err := run.GiveLease(t.Context(), index, two); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if third := take(t, index, one, known); third != second+1 || time.Since(began) != 0 {
			t.Errorf("fence %d after %d, in %s", third, second, time.Since(began))
		}
	})
}

func TestALeaseSaysWhoHasIt(t *testing.T) {
	index := emptyIndex()
	take(t, index, one, engine{})
	got := lease(t, index)
	if got.Engine != ours || got.Workflow != one.Workflow || got.Run != "1" || got.Fence != 1 || got.Heartbeat != beats ||
		got.Taken.IsZero() || got.Renewed.IsZero() {
		t.Errorf("%+v", got)
	}
}

// Promises: 29.
func TestALeaseThatAProcessRenewsIsNotTakenAlsoWhenItsRunIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index, known := emptyIndex(), engine{asked(one): run.StandingClosed}
		take(t, index, one, known)
		began := time.Now()
		for beat := range 5 { // a process that is cut off from its engine, and works for two heartbeats more
			time.AfterFunc(time.Duration(beat)*beats/2, func() {
				renewed := lease(t, index)
				renewed.Renewed = time.Now()
				write(t, index, renewed)
			})
		}
		take(t, index, two, known)
		if took := time.Since(began); took < 3*beats {
			t.Errorf("taken after %s", took)
		}
	})
}

func TestALeaseThatIsRenewedForEverIsGivenUpWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index, known := emptyIndex(), engine{asked(one): run.StandingClosed}
		take(t, index, one, known)
		var process sync.WaitGroup
		defer process.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		process.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(beats / 2)
				renewed := lease(t, index)
				renewed.Renewed = time.Now()
				write(t, index, renewed)
			}
		})
		_, err := run.TakeLease(t.Context(), index, two, known.standing)
		if !fault.Is(err, fault.LeaseHeld) || !strings.Contains(err.Error(), "a process still works on it") {
			t.Error(err)
		}
	})
}

// Promises: 29.
func TestARunThatNobodyCanAskAboutHoldsItsLease(t *testing.T) {
	for name, test := range map[string]struct {
		held     core.Lease
		standing run.Standing
		passes   bool
		says     []string
	}{
		"the engine does not know it": {
			core.Lease{Engine: ours, Workflow: "build/docs/one", Run: "1", Fence: 3}, run.StandingUnknown, false,
			[]string{"docs/one (1)", "here:7233, namespace default", "unweaver cancel docs/one --lost"},
		},
		"it is another engine's": {
			core.Lease{Engine: theirs, Workflow: "build/docs/one", Run: "1", Fence: 3}, run.StandingClosed, false,
			[]string{"docs/one (1)", "there:7233, namespace default", "unweaver cancel docs/one --lost"},
		},
		"it is another namespace's": {
			core.Lease{
				Engine:   core.Engine{Cluster: "ours", Address: "here:7233", Namespace: "test"},
				Workflow: "build/docs/one", Run: "1", Fence: 3,
			}, run.StandingClosed, false, []string{"namespace test", "--lost"},
		},
		"the same engine by another address": {
			core.Lease{
				Engine:   core.Engine{Cluster: "ours", Address: "10.0.0.1:7233", Namespace: "default"},
				Workflow: "build/docs/one", Run: "1", Fence: 3,
			}, run.StandingClosed, true, nil,
		},
		"the last release wrote it, and it is over": {
			core.Lease{Workflow: "build/docs/one", Run: "1", Fence: 3}, run.StandingClosed, true, nil,
		},
		"the last release wrote it, and it is unknown": {
			core.Lease{Workflow: "build/docs/one", Run: "1", Fence: 3}, run.StandingUnknown, false, []string{"--lost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				index := emptyIndex()
				write(t, index, test.held)
				fence, err := run.TakeLease(t.Context(), index, two, engine{asked(one): test.standing}.standing)
				if test.passes {
					if err != nil || fence != 4 {
						t.Errorf("fence %d, %v", fence, err)
					}
					return
				}
				if !fault.Is(err, fault.LeaseHeld) {
					t.Fatalf("fence %d, %v", fence, err)
				}
				for _, part := range test.says {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
			})
		})
	}
}

func TestALeaseWrittenByHandIsNamedWithWhatMendsIt(t *testing.T) {
	for name, raw := range map[string]string{
		"empty": "", "rubbish": "{", "nothing": "{}", "null": "null", "another kind": `["build/docs/one"]`,
		"a fence below zero":       `{"workflow":"build/docs/one","run":"1","fence":-1}`,
		"no fence":                 `{"workflow":"build/docs/one","run":"1"}`,
		"a fence that cannot rise": `{"fence":9223372036854775807}`,
		"a fence beyond numbers":   `{"fence":99999999999999999999}`,
		"of another index":         `{"workflow":"build/other/one","run":"1","fence":2}`,
		"of no build":              `{"workflow":"restore/docs","run":"1","fence":2}`,
		"half of a run":            `{"workflow":"build/docs/one","fence":2}`,
		"half of an engine":        `{"engine":{"address":"x"},"workflow":"build/docs/one","run":"1","fence":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			index := emptyIndex()
			if _, err := blob.Write(t.Context(), index.Store, index.LeaseKey(), []byte(raw), blob.Cond{}); err != nil {
				t.Fatal(err)
			}
			_, _, err := run.ReadLease(t.Context(), index)
			if !fault.Is(err, fault.SegmentDamage) || !strings.Contains(err.Error(), "lease.json") ||
				!strings.Contains(err.Error(), "unweaver cancel docs --lost") {
				t.Fatal(err)
			}
			if err := run.MendLease(t.Context(), index); err != nil {
				t.Fatal(err)
			}
			if fence := take(t, index, two, engine{}); fence < 2 {
				t.Errorf("fence %d", fence)
			}
		})
	}
}

// A lease that is cut or empty stops no night: the engine decides. While it runs a build whose scratch is there the
// lease is that build's; where it runs none, the next build has it a heartbeat later, with a higher fence.
// Promises: 86.
func TestALeaseThatCannotBeReadIsDecidedByTheEngine(t *testing.T) {
	for name, raw := range map[string]string{"empty": "", "cut": `{"engine":{"clus`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				index := emptyIndex()
				for key, content := range map[string]string{index.LeaseKey(): raw, index.RunKey("one", "7", "plan.json"): "{}"} {
					if _, err := blob.Write(t.Context(), index.Store, key, []byte(content), blob.Cond{}); err != nil {
						t.Fatal(err)
					}
				}
				open := engine{{Workflow: one.Workflow}: run.StandingOpen}
				if _, err := run.TakeLease(t.Context(), index, two, open.standing); !fault.Is(err, fault.LeaseHeld) ||
					!strings.Contains(err.Error(), "unweaver cancel docs/one") {
					t.Errorf("while a build is open: %v", err)
				}
				began := time.Now()
				if fence := take(t, index, two, engine{{Workflow: one.Workflow}: run.StandingClosed}); fence < 8 {
					t.Errorf("fence %d", fence)
				}
				if took := time.Since(began); took < beats {
					t.Errorf("taken after %s: a process may still delete by a look at it", took)
				}
				if held := lease(t, index); held.Workflow != two.Workflow {
					t.Errorf("%+v", held)
				}
			})
		})
	}
}

func TestOneOfManyAtOnceGetsTheLease(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	var group sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 16 {
		group.Go(func() {
			holder := run.Holder{Workflow: "build/docs/x", Run: string(rune('a' + i)), Engine: ours}
			_, err := run.TakeLease(t.Context(), index, holder, engine{}.standing)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if !fault.Is(err, fault.LeaseHeld) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if won != 1 {
		t.Errorf("%d runs have the lease", won)
	}
}

func TestALeaseWhoseEngineDoesNotAnswerIsNotTaken(t *testing.T) {
	index := emptyIndex()
	take(t, index, one, engine{})
	away := errors.New("the engine is away")
	ask := func(context.Context, run.Holder) (run.Standing, error) {
		return run.StandingUnknown, away
	}
	if _, err := run.TakeLease(t.Context(), index, two, ask); !errors.Is(err, away) {
		t.Errorf("an engine that does not answer: %v", err)
	}
}
