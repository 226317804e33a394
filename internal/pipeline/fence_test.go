package pipeline_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// begin takes the lease for the next run of a site.
func (s *site) begin(t *testing.T) (run.Job, artifact.Index) {
	t.Helper()
	job, holder := s.job(t)
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	holder.Heartbeat = beats
	job.Fence, job.Holder = take(t, index, holder, engine{}), holder
	return job, index
}

// passOn gives the lease to another run, as after a run that was declared lost.
func passOn(t *testing.T, index artifact.Index) {
	t.Helper()
	was := lease(t, index)
	write(t, index, core.Lease{Workflow: "build/docs/other", Run: "o", Fence: was.Fence + 1, Renewed: time.Now()})
}

func keysBelow(t *testing.T, store blob.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range store.List(t.Context(), prefix, "") {
		require.NoError(t, err)
		keys = append(keys, info.Key)
	}
	return keys
}

// Promises: 30.
func TestARunThatLostItsLeasePublishesNothing(t *testing.T) {
	for _, stage := range []string{"load", "segment", "publish"} {
		t.Run("lost before "+stage, func(t *testing.T) {
			s := newSite(t, sample(6))
			first := s.night(t)
			s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			job, index := s.begin(t)
			lost := false
			s.before = func(now string) {
				if now == stage && !lost {
					lost = true
					passOn(t, index)
				}
			}
			_, err := s.stages(t.Context(), job, job.Holder)
			assert.True(t, lost && fault.Is(err, fault.LeaseLost) && strings.Contains(err.Error(), "docs/other"),
				"the run ended with %v", err)
			current, _, err := index.ReadPointer(t.Context())
			assert.True(t, err == nil && current.Generation == first.manifest.Generation, "current is %+v, %v", current, err)
			if _, err := index.GenerationRef(t.Context(), job.Generation); !fault.Is(err, fault.UnknownGen) {
				t.Errorf("its generation has a reference: %v", err)
			}
		})
	}
}

// Promises: 30.
func TestARunThatLostItsLeaseCollectsNothing(t *testing.T) {
	s := newSite(t, sample(6))
	s.spec.Keep = 1
	s.night(t)
	s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	job, index := s.begin(t)
	var before []string
	s.before = func(stage string) {
		if stage == "collect" {
			before = keysBelow(t, s.Artifacts, "docs/")
			passOn(t, index)
		}
	}
	if _, err := s.stages(t.Context(), job, job.Holder); !fault.Is(err, fault.LeaseLost) {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, key := range keysBelow(t, s.Artifacts, "docs/") {
		left[key] = true
	}
	for _, key := range before {
		assert.True(t, left[key], "%s is gone", key)
	}
}

// watched is a store that counts writes of the lease, and can fail.
type watched struct {
	blob.Store
	writes atomic.Int64
	fail   atomic.Bool
}

func (w *watched) Put(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (blob.Info, error) {
	if strings.HasSuffix(key, "/lease.json") {
		w.writes.Add(1)
	}
	return w.Store.Put(ctx, key, body, size, cond)
}

func (w *watched) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if w.fail.Load() {
		return nil, blob.Info{}, fault.StoreDown.At("read", key).Because("it is away")
	}
	return w.Store.Get(ctx, key, part)
}

func TestTheLeaseIsRenewedOnceInHalfAHeartbeatByAllUnitsOfAProcess(t *testing.T) {
	s := newSite(t, sample(1))
	store := &watched{Store: s.Artifacts}
	s.Artifacts = store
	job, index := s.begin(t)
	synctest.Test(t, func(t *testing.T) {
		runs := make([]*upkeep.Run, 4)
		for i := range runs {
			runs[i] = s.Bare(job, "extract", "")
			defer runs[i].Close()
		}
		store.writes.Store(0)
		began := time.Now()
		for time.Since(began) < 10*beats {
			for _, work := range runs {
				require.NoError(t, work.Renew(t.Context()))
			}
			time.Sleep(beats / 8)
		}
		assert.Equal(t, int64(20), store.writes.Load())
		if got := lease(t, index); time.Since(got.Renewed) > beats || got.Fence != job.Fence || got.Run != job.Holder.Run {
			t.Errorf("%+v", got)
		}
		store.fail.Store(true)
		time.Sleep(beats)
		assert.NoError(t, runs[0].Renew(t.Context()), "a store that is away fails the unit")
		if err := runs[0].GuardLease(t.Context()); !fault.Is(err, fault.StoreDown) {
			t.Errorf("it is not known whether the lease is held: %v", err)
		}
		store.fail.Store(false)
		passOn(t, index)
		if err := runs[0].Renew(t.Context()); !fault.Is(err, fault.LeaseLost) {
			t.Errorf("another has it: %v", err)
		}
		assert.Equal(t, "build/docs/other", lease(t, index).Workflow, "the lease was taken back")
	})
}

// A look renews a lease that is about to be too old, so that what it permits is over before another run may have it.
func TestALookThatFindsTheLeaseOldRenewsIt(t *testing.T) {
	s := newSite(t, sample(1))
	job, index := s.begin(t)
	synctest.Test(t, func(t *testing.T) {
		work := s.Bare(job, "collect", "")
		defer work.Close()
		other := run.Holder{Workflow: "build/docs/two", Run: "2", Heartbeat: beats}
		known := engine{{Workflow: job.Holder.Workflow, Run: job.Holder.Run}: run.StandingClosed}
		taken := make(chan time.Time)
		go func() {
			_, err := run.TakeLease(t.Context(), index, other, known.standing)
			assert.NoError(t, err)
			taken <- time.Now()
		}()
		time.Sleep(beats - beats/16) // a process that wakes up just before its lease passes on
		require.NoError(t, work.GuardLease(t.Context()))
		looked := time.Now()
		if at := <-taken; at.Sub(looked) < beats {
			t.Errorf("taken %s after a look that permitted deletes", at.Sub(looked))
		}
		if err := work.GuardLease(t.Context()); !fault.Is(err, fault.LeaseLost) {
			t.Error(err)
		}
	})
}

func TestALeaseThatWasGivenBackOrDeclaredLostIsLost(t *testing.T) {
	s := newSite(t, sample(1))
	job, index := s.begin(t)
	work := s.Bare(job, "extract", "")
	defer work.Close()
	require.NoError(t, run.GiveLease(t.Context(), index, job.Holder))
	if err := work.GuardLease(t.Context()); !fault.Is(err, fault.LeaseLost) {
		t.Error(err)
	}
	require.NoError(t, s.Artifacts.Delete(t.Context(), index.LeaseKey()))
	if err := work.GuardLease(t.Context()); !fault.Is(err, fault.LeaseLost) {
		t.Error(err)
	}
}

// Promises: 48.
func TestANameThatAGenerationHasIsRefusedByTheRunItself(t *testing.T) {
	s := newSite(t, sample(6))
	s.night(t)
	report := s.report(t)
	s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	job, index := s.begin(t)
	job.Generation = "g001" // as a second starter that looked before the first had published
	_, err := s.stages(t.Context(), job, job.Holder)
	if fault.CodeOf(err) != fault.Cancelled { // the record of the run before stops it
		t.Fatal(err)
	}
	second := run.Holder{Workflow: "build/docs/g001", Run: "second"}
	var planned error
	for _, do := range []func(context.Context, *upkeep.Run) error{
		func(ctx context.Context, work *upkeep.Run) error { return work.Reopen(ctx, second) },
		func(ctx context.Context, work *upkeep.Run) error { _, planned = work.Plan(ctx); return nil },
		func(ctx context.Context, work *upkeep.Run) error {
			return work.End(ctx, second, run.Ending{Status: core.StatusFailed, Reason: string(fault.Usage)})
		},
	} {
		work, err := s.Open(t.Context(), job, "plan")
		require.NoError(t, err)
		require.NoError(t, do(t.Context(), work))
		work.Close()
	}
	assert.True(t, fault.Is(planned, fault.Usage) && strings.Contains(planned.Error(), "it was built already"),
		"plan: %v", planned)
	s.runs = 1
	if now := s.report(t); now.Status != report.Status || now.RunID != report.RunID {
		t.Errorf("the report of the published generation says %s of run %q", now.Status, now.RunID)
	}
	if current, _, err := index.ReadPointer(t.Context()); err != nil || current.Generation != "g001" {
		t.Errorf("current is %+v, %v", current, err)
	}
}

func TestARestoreKnowsWhatIsServedAndLeavesNoScratch(t *testing.T) {
	for name, spoil := range map[string]func(index artifact.Index, key string) error{
		"nothing is wrong":     func(artifact.Index, string) error { return nil },
		"no reference":         func(index artifact.Index, key string) error { return index.Store.Delete(t.Context(), key) },
		"another in its place": func(index artifact.Index, key string) error { return other(t, index, key) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(6))
			s.night(t)
			index := artifact.Index{Store: s.Artifacts, Name: "docs"}
			require.NoError(t, spoil(index, index.GenerationKey("g001", "manifest.json")))
			job := run.Job{Index: "docs", Generation: "restore-1"}
			holder := run.Holder{Workflow: "restore/docs", Run: "r"}
			work := s.Bare(job, "restore", upkeep.RestoreFolder)
			defer work.Close()
			parts, err := work.OpenRestore(t.Context())
			require.True(t, err == nil && parts != 0, "%v %v", parts, err)
			for part := range parts {
				_, err := work.RestorePart(t.Context(), part)
				require.NoError(t, err)
			}
			for range 2 { // its answer may be lost
				require.NoError(t, work.FinishRestore(t.Context()))
				require.NoError(t, work.EndRestore(t.Context(), holder, run.Ending{Status: core.StatusCompleted}))
			}
			if left := keysBelow(t, s.Artifacts, "docs/runs/restore-1/"); len(left) > 0 {
				t.Errorf("left is %q", left)
			}
		})
	}
}

// other writes a reference to a manifest that is not there.
func other(t *testing.T, index artifact.Index, key string) error {
	ref := core.GenerationRef{Manifest: strings.Repeat("0", 64), Seq: 9, State: "held"}
	_, err := blob.WriteJSON(t.Context(), index.Store, key, ref, blob.Cond{})
	return err
}
