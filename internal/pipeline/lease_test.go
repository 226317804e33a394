package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
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
	return must(run.TakeLease(t.Context(), index, holder, known.standing))(t)
}

func lease(t *testing.T, index artifact.Index) core.Lease {
	out, _ := must2(run.ReadLease(t.Context(), index))(t)
	return out
}

func write(t *testing.T, index artifact.Index, lease core.Lease) {
	must(blob.WriteJSON(t.Context(), index.Store, index.LeaseKey(), lease, blob.Cond{}))(t)
}

// Promises: 29.
func TestTheLeasePassesOnOnlyWhenItsHolderIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		index, known := emptyIndex(), engine{}
		began := time.Now()
		first := take(t, index, one, known)
		again := take(t, index, one, known)
		assert.True(t, again == first && first == 1, "fences %d and %d", first, again)
		known[asked(one)] = run.StandingOpen
		_, err := run.TakeLease(t.Context(), index, two, known.standing)
		assert.True(t, fault.Is(err, fault.LeaseHeld) && strings.Contains(err.Error(), "unweaver cancel docs/one"),
			"held by one: %v", err)
		took := time.Since(began)
		assert.True(t, took == 0, "a free lease, and one that is held, took %s", took)
		known[asked(one)] = run.StandingClosed
		second := take(t, index, two, known)
		if took := time.Since(began); second != first+1 || took < beats || took > beats+beats/4 {
			t.Errorf("fence %d after %d, in %s", second, first, took)
		}
		if err := run.GiveLease(t.Context(), index, one); err != nil { // it is not its any more
			t.Fatal(err)
		}
		known[asked(two)] = run.StandingOpen
		_, err = run.TakeLease(t.Context(), index, one, known.standing)
		assert.True(t, fault.Is(err, fault.LeaseHeld), "a lease was given back by a run that did not hold it: %v", err)
		require.NoError(t, run.GiveLease(t.Context(), index, two))
		began = time.Now()
		if third := take(t, index, one, known); third != second+1 || time.Since(began) != 0 {
			t.Errorf("fence %d after %d, in %s", third, second, time.Since(began))
		}
	})
}

// A process that is cut off from its engine works for two heartbeats more, or for ever.
// Promises: 29.
func TestALeaseThatAProcessRenewsIsNotTakenAlsoWhenItsRunIsOver(t *testing.T) {
	for _, times := range []int{5, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			index, known := emptyIndex(), engine{asked(one): run.StandingClosed}
			take(t, index, one, known)
			began := time.Now()
			for beat := range times {
				time.AfterFunc(time.Duration(beat)*beats/2, func() {
					renewed := lease(t, index)
					renewed.Renewed = time.Now()
					write(t, index, renewed)
				})
			}
			_, err := run.TakeLease(t.Context(), index, two, known.standing)
			if times > 5 {
				refuses(t, err, fault.LeaseHeld, "a process still works on it", "")
				return
			}
			require.NoError(t, err)
			assert.GreaterOrEqual(t, time.Since(began), 3*beats)
		})
	}
}

// Promises: 29.
func TestARunThatNobodyCanAskAboutHoldsItsLease(t *testing.T) {
	engineAt := func(address, namespace string) core.Engine {
		return core.Engine{Cluster: "ours", Address: address, Namespace: namespace}
	}
	for name, test := range map[string]struct {
		engine   core.Engine
		standing run.Standing
		passes   bool
		says     []string
	}{
		"the engine does not know it": {ours, run.StandingUnknown, false,
			[]string{"docs/one (1)", "here:7233, namespace default", "unweaver cancel docs/one --lost"}},
		"it is another engine's": {theirs, run.StandingClosed, false,
			[]string{"docs/one (1)", "there:7233, namespace default", "unweaver cancel docs/one --lost"}},
		"it is another namespace's": {engineAt("here:7233", "test"), run.StandingClosed, false,
			[]string{"namespace test", "--lost"}},
		"the same engine by another address": {engineAt("10.0.0.1:7233", "default"), run.StandingClosed, true, nil},
		"it names no engine, and is over":    {core.Engine{}, run.StandingClosed, true, nil},
		"it names no engine, and is unknown": {core.Engine{}, run.StandingUnknown, false, []string{"--lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				index := emptyIndex()
				write(t, index, core.Lease{Engine: test.engine, Workflow: "build/docs/one", Run: "1", Fence: 3})
				fence, err := run.TakeLease(t.Context(), index, two, engine{asked(one): test.standing}.standing)
				if test.passes {
					assert.True(t, err == nil && fence == 4, "fence %d, %v", fence, err)
					return
				}
				require.True(t, fault.Is(err, fault.LeaseHeld), "fence %d, %v", fence, err)
				for _, part := range test.says {
					assert.True(t, strings.Contains(err.Error(), part), "%q does not say %q", err, part)
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
			must(blob.Write(t.Context(), index.Store, index.LeaseKey(), []byte(raw), blob.Cond{}))(t)
			_, _, err := run.ReadLease(t.Context(), index)
			require.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), "lease.json") &&
				strings.Contains(err.Error(), "unweaver cancel docs --lost"), "%v", err)
			require.NoError(t, run.MendLease(t.Context(), index))
			assert.GreaterOrEqual(t, take(t, index, two, engine{}), int64(2), "fence")
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
					must(blob.Write(t.Context(), index.Store, key, []byte(content), blob.Cond{}))(t)
				}
				open := engine{{Workflow: one.Workflow}: run.StandingOpen}
				_, err := run.TakeLease(t.Context(), index, two, open.standing)
				assert.True(t, fault.Is(err, fault.LeaseHeld) && strings.Contains(err.Error(), "unweaver cancel docs/one"),
					"while a build is open: %v", err)
				began := time.Now()
				over := engine{{Workflow: one.Workflow}: run.StandingClosed}
				assert.GreaterOrEqual(t, take(t, index, two, over), int64(8), "fence")
				took := time.Since(began)
				assert.True(t, took >= beats, "taken after %s: a process may still delete by a look at it", took)
				held := lease(t, index)
				assert.True(t, held.Workflow == two.Workflow, "%+v", held)
			})
		})
	}
}

func TestALeaseWhoseEngineDoesNotAnswerIsNotTaken(t *testing.T) {
	index := emptyIndex()
	take(t, index, one, engine{})
	away := errors.New("the engine is away")
	ask := func(context.Context, run.Holder) (run.Standing, error) { return run.StandingUnknown, away }
	_, err := run.TakeLease(t.Context(), index, two, ask)
	assert.True(t, errors.Is(err, away), "an engine that does not answer: %v", err)
}

// begin takes the lease for the next run of a site.
func (s *site) begin(t *testing.T) (run.Job, artifact.Index) {
	job, holder := s.job(t)
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	holder.Heartbeat = beats
	job.Fence, job.Holder = take(t, index, holder, engine{}), holder
	return job, index
}

// passOn gives the lease to another run, as after a run that was declared lost.
func passOn(t *testing.T, index artifact.Index) {
	was := lease(t, index)
	write(t, index, core.Lease{Workflow: "build/docs/other", Run: "o", Fence: was.Fence + 1, Renewed: time.Now()})
}

func keysBelow(t *testing.T, store blob.Store, prefix string) []string {
	var keys []string
	for info := range musttest.All(t, store.List(t.Context(), prefix, "")) {
		keys = append(keys, info.Key)
	}
	return keys
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
	refused(s.stages(t.Context(), job, job.Holder))(t, fault.LeaseLost, "", "")
	left := map[string]bool{}
	for _, key := range keysBelow(t, s.Artifacts, "docs/") {
		left[key] = true
	}
	for _, key := range before {
		assert.True(t, left[key], "%s is gone", key)
	}
}

func TestTheLeaseIsRenewedOnceInHalfAHeartbeatByAllUnitsOfAProcess(t *testing.T) {
	s := newSite(t, sample(1))
	var writes atomic.Int64
	var away atomic.Bool
	s.Artifacts = artifacttest.Around{Store: s.Artifacts, Do: func(
		_ context.Context, op artifacttest.Op, key string, call func() error,
	) error {
		switch {
		case op == artifacttest.Put && strings.HasSuffix(key, "/lease.json"):
			writes.Add(1)
		case op == artifacttest.Get && away.Load():
			return fault.StoreDown.At("read", key).Because("it is away")
		}
		return call()
	}}
	job, index := s.begin(t)
	synctest.Test(t, func(t *testing.T) {
		runs := make([]*upkeep.Run, 4)
		for i := range runs {
			runs[i] = s.Bare(job, "extract", "")
			defer runs[i].Close()
		}
		writes.Store(0)
		began := time.Now()
		for time.Since(began) < 10*beats {
			for _, work := range runs {
				require.NoError(t, work.Renew(t.Context()))
			}
			time.Sleep(beats / 8)
		}
		assert.Equal(t, int64(20), writes.Load())
		got := lease(t, index)
		assert.True(t, time.Since(got.Renewed) <= beats && got.Fence == job.Fence && got.Run == job.Holder.Run, "%+v", got)
		away.Store(true)
		time.Sleep(beats)
		assert.NoError(t, runs[0].Renew(t.Context()), "a store that is away fails the unit")
		refuses(t, runs[0].GuardLease(t.Context()), fault.StoreDown, "", "it is not known whether the lease is held")
		away.Store(false)
		passOn(t, index)
		refuses(t, runs[0].Renew(t.Context()), fault.LeaseLost, "", "another has it")
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
			assert.NoError(t, musttest.Err(run.TakeLease(t.Context(), index, other, known.standing)))
			taken <- time.Now()
		}()
		time.Sleep(beats - beats/16) // a process that wakes up just before its lease passes on
		require.NoError(t, work.GuardLease(t.Context()))
		looked := time.Now()
		at := <-taken
		assert.True(t, at.Sub(looked) >= beats, "taken %s after a look that permitted deletes", at.Sub(looked))
		refuses(t, work.GuardLease(t.Context()), fault.LeaseLost, "", "")
	})
}

func TestALeaseThatWasGivenBackOrDeclaredLostIsLost(t *testing.T) {
	s := newSite(t, sample(1))
	job, index := s.begin(t)
	work := s.Bare(job, "extract", "")
	defer work.Close()
	require.NoError(t, run.GiveLease(t.Context(), index, job.Holder))
	refuses(t, work.GuardLease(t.Context()), fault.LeaseLost, "", "")
	require.NoError(t, s.Artifacts.Delete(t.Context(), index.LeaseKey()))
	refuses(t, work.GuardLease(t.Context()), fault.LeaseLost, "", "")
}

// Promises: 48.
func TestANameThatAGenerationHasIsRefusedByTheRunItself(t *testing.T) {
	s := builtSite(t, sample(6))
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
		work := must(s.Open(t.Context(), job, "plan"))(t)
		require.NoError(t, do(t.Context(), work))
		work.Close()
	}
	assert.True(t, fault.Is(planned, fault.Usage) && strings.Contains(planned.Error(), "it was built already"),
		"plan: %v", planned)
	s.runs = 1
	if now := s.report(t); now.Status != report.Status || now.RunID != report.RunID {
		t.Errorf("the report of the published generation says %s of run %q", now.Status, now.RunID)
	}
	current, _, err := index.ReadPointer(t.Context())
	assert.True(t, err == nil && current.Generation == "g001", "current is %+v, %v", current, err)
}

func TestARestoreThatIsEndedTwiceLeavesNoScratch(t *testing.T) {
	s := builtSite(t, sample(6))
	require.NoError(t, s.Artifacts.Delete(t.Context(), s.index().GenerationKey("g001", "manifest.json")))
	work := s.Bare(run.Job{Index: "docs", Generation: "restore-1"}, "restore", upkeep.RestoreFolder)
	defer work.Close()
	for part := range must(work.OpenRestore(t.Context()))(t) {
		must(work.RestorePart(t.Context(), part))(t)
	}
	holder := run.Holder{Workflow: "restore/docs", Run: "r"}
	for range 2 { // its answer may be lost
		require.NoError(t, work.FinishRestore(t.Context()))
		require.NoError(t, work.EndRestore(t.Context(), holder, run.Ending{Status: core.StatusCompleted}))
	}
	assert.Empty(t, keysBelow(t, s.Artifacts, "docs/runs/restore-1/"))
}

// A run may lose its lease before a stage, or amid a publication: it looks at its lease right before the reference of
// its generation, and once more before the flip.
// Promises: 30.
func TestARunThatLostItsLeasePublishesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		stage         string
		read, written string // once something with this ending was read or written
		named         bool
	}{
		"before load": {stage: "load"}, "before segment": {stage: "segment"}, "before publish": {stage: "publish"},
		"before the reference": {stage: "publish", read: "/condemned.json"},
		"before the flip":      {stage: "publish", written: "/manifest.json", named: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(6))
			first := s.night(t)
			s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			job, index := s.begin(t)
			lost, plain := false, s.Artifacts
			lose := func() {
				lost = true
				passOn(t, artifact.Index{Store: plain, Name: index.Name})
			}
			losing := func(_ context.Context, op artifacttest.Op, key string, call func() error) error {
				err := call()
				ending := map[artifacttest.Op]string{artifacttest.Get: c.read, artifacttest.Put: c.written}[op]
				if ending != "" && strings.HasSuffix(key, ending) && !lost {
					lose()
				}
				return err
			}
			s.before = func(now string) {
				if now != c.stage || lost {
					return
				}
				if s.Artifacts = (artifacttest.Around{Store: plain, Do: losing}); c.read+c.written == "" {
					lose()
				}
			}
			_, err := s.stages(t.Context(), job, job.Holder)
			assert.True(t, lost && fault.Is(err, fault.LeaseLost) && strings.Contains(err.Error(), "docs/other"), "%v", err)
			current, _, err := index.ReadPointer(t.Context())
			assert.True(t, err == nil && current.Generation == first.manifest.Generation, "current is %+v, %v", current, err)
			_, err = index.GenerationRef(t.Context(), job.Generation)
			assert.True(t, fault.Is(err, fault.UnknownGen) != c.named, "its reference: %v", err)
		})
	}
}

// contents returns the files of a run.
func (s *site) contents(t *testing.T, job run.Job) map[string]string {
	out := map[string]string{}
	for _, key := range keysBelow(t, s.Artifacts, job.Index+"/runs/"+job.Generation+"/") {
		raw, _ := must2(blob.Read(t.Context(), s.Artifacts, key))(t)
		out[key] = string(raw)
	}
	return out
}

// unitOf is a unit of a stage, and how its result's file ends.
type unitOf struct {
	stage, result string
	do            func(ctx context.Context, work *upkeep.Run) (any, error)
}

// late does a unit; then, once what it reads is another, as an attempt that began before that one ended. Nothing that
// was recorded may change, and the late attempt must take what was.
func (s *site) late(t *testing.T, job run.Job, unit unitOf, change func()) {
	try := func() string {
		var out any
		err := s.unit(t.Context(), job, unit.stage, func(ctx context.Context, work *upkeep.Run) (err error) {
			out, err = unit.do(ctx, work)
			return err
		})
		raw, encoding := json.Marshal(out)
		require.True(t, err == nil && encoding == nil, "%s: %v %v", unit.result, err, encoding)
		return string(raw)
	}
	first := try()
	recorded := s.contents(t, job)
	change()
	store := s.Artifacts
	var looked atomic.Bool // an attempt that looked for its unit's result before another one recorded it
	s.Artifacts = artifacttest.Around{Store: store, Do: func(
		_ context.Context, op artifacttest.Op, key string, call func() error,
	) error {
		if op == artifacttest.Get && strings.HasSuffix(key, unit.result) && looked.CompareAndSwap(false, true) {
			return fault.NotFound.At("read", key)
		}
		return call()
	}}
	s.Forget() // it is in another process
	second := try()
	s.Artifacts = store
	assert.True(t, looked.Load(), "%s was not looked for", unit.result)
	assert.True(t, first == second, "%s: the late attempt came to\n%s, recorded is\n%s", unit.result, second, first)
	now := s.contents(t, job)
	for key, content := range recorded {
		assert.Equal(t, content, now[key], "%s: the late attempt changed %s", unit.result, key)
	}
	assert.True(t, len(now) != len(recorded), "%s: the late attempt wrote what the first one did", unit.result)
}

// An attempt that the engine gave up may live on, see another corpus and get other answers, and end after the attempt
// that took its place: what was recorded stands, and what it wrote goes with the scratch of the run.
// Promises: 31.
func TestAnAttemptThatEndsLateChangesNothingThatWasRecorded(t *testing.T) {
	undisturbed := newSite(t, sample(20)).night(t).manifest
	s := newSite(t, sample(20))
	s.write(t, map[string]string{"unread.bin": "no document"}) // so that there is a list of problems
	job, holder := s.leased(t)
	s.late(t, job, unitOf{"plan", "/build.json", func(ctx context.Context, work *upkeep.Run) (any, error) {
		return work.Plan(ctx)
	}}, func() {
		s.write(t, map[string]string{"later.md": "# Later\n\nCame later.", "later.bin": "no document"})
	})
	s.late(t, job, unitOf{"chunk", "/chunk-00000.json", func(ctx context.Context, work *upkeep.Run) (any, error) {
		return work.Chunk(ctx, 0)
	}}, func() {
		s.write(t, map[string]string{"place-003.md": "\x7fELF\x00\x01", "place-004.md": "# Other\n\nAnother text."})
	})
	require.NoError(t, s.unit(t.Context(), job, "chunk", func(ctx context.Context, work *upkeep.Run) error {
		_, _, err := work.SealChunks(ctx)
		return err
	}))
	models := s.Models
	s.late(t, job, unitOf{"extract", "/extract-00000-00000.json", func(ctx context.Context, work *upkeep.Run) (any, error) {
		return work.Extract(ctx, 0, 0)
	}}, func() {
		s.Models = func(core.Spec, model.Meter) (model.Set, error) {
			other := &stagetest.Chat{Free: true, Answer: stagetest.Says(`{"entities":[{"name":"Other","description":"Else."}]}`)}
			return model.Set{Chat: other, Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
		}
	})
	s.Models = models
	out, err := s.stages(t.Context(), job, holder)
	require.True(t, err == nil && out.published.Status != core.StatusHeld, "%+v, %v", out.published, err)
	s.checkHashes(t, undisturbed)
	assert.Empty(t, keysBelow(t, s.Artifacts, "docs/runs/"), "scratch is left")
}

// checkHashes compares what is published with a generation of the same documents.
func (s *site) checkHashes(t *testing.T, want *core.Manifest) {
	current, _ := must2(s.index().ReadPointer(t.Context()))(t)
	manifest := must(s.index().Manifest(t.Context(), current.Manifest))(t)
	assert.True(t, manifest.Hashes == want.Hashes, "hashes %+v, want %+v", manifest.Hashes, want.Hashes)
}
