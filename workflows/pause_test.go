package workflows_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/workflows"
)

func TestResumeRunsTheUnitsThatAreLeftAndNoOther(t *testing.T) {
	for _, test := range []struct {
		name   string
		fail   map[string][]error
		reason string
		again  map[string]int // calls of those that failed; any other has one
	}{
		{
			name:   "one batch of a shard",
			fail:   map[string][]error{"ExtractChunks 1/2": {fatal("model_auth")}},
			reason: "model_auth",
			again:  map[string]int{"ExtractChunks 1/2": 2},
		},
		{
			name:   "the seal of a shard",
			fail:   map[string][]error{"SealShard 0": {fatal("store_full")}},
			reason: "store_full",
			again:  map[string]int{"SealShard 0": 2},
		},
		{
			name: "several units of a stage, in two pauses",
			fail: map[string][]error{
				"EmbedPart 1": {fatal("model_quota"), fatal("model_quota")}, "EmbedPart 3": {fatal("model_quota")},
			},
			reason: "model_quota",
			again:  map[string]int{"EmbedPart 1": 3, "EmbedPart 3": 2},
		},
		{
			name:   "what seals a stage",
			fail:   map[string][]error{"SealExtraction": {fatal("store_unavailable")}},
			reason: "store_unavailable",
			again:  map[string]int{"SealExtraction": 2},
		},
		{
			name:   "the import after load",
			fail:   map[string][]error{"ImportVectors": {fatal("store_denied")}},
			reason: "store_denied",
			again:  map[string]int{"ImportVectors": 2},
		},
		{
			name:   "batches",
			fail:   map[string][]error{"PayBatches 0": {fatal("model_quota")}},
			reason: "model_quota",
			again:  map[string]int{"PayBatches 0": 2},
		},
		{
			name:   "what joins splits and class runs",
			fail:   map[string][]error{"WriteSegments 0": {fatal("store_unavailable")}},
			reason: "store_unavailable",
			again:  map[string]int{"WriteSegments 0": 2},
		},
		{
			name:   "the lease",
			fail:   map[string][]error{"TakeLease": {fatal("store_unavailable")}},
			reason: "store_unavailable",
			again:  map[string]int{"TakeLease": 2},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(200, 200, 200)
			f.imports, f.pieces, f.batch = true, 3, true
			f.fail = test.fail
			out, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					end := f.lastEnd()
					assert.True(t, end.Status == "paused" && end.Reason == test.reason && end.Ref == "ref-"+test.reason+".json",
						"before resume: %+v", end)
				}, 30*time.Minute)
				resumeAt(t, env, time.Hour, workflows.Resume{})
				env.RegisterDelayedCallback(func() { // a second pause, if there is one
					if f.lastEnd().Status == "paused" {
						send(env, workflows.UpdateResume, workflows.Resume{})
					}
				}, 2*time.Hour)
			})
			require.True(t, err == nil && out.Status == "completed", "%v %v", out, err)
			counts := map[string]int{}
			for _, call := range f.calls {
				counts[call]++
			}
			for shard := range 3 {
				for batch := range 4 {
					once(t, counts, test.again, fmt.Sprintf("ExtractChunks %d/%d", shard, batch))
				}
				once(t, counts, test.again, fmt.Sprintf("SealShard %d", shard))
			}
			for unit := range 5 {
				once(t, counts, test.again, fmt.Sprintf("EmbedPart %d", unit))
				once(t, counts, test.again, fmt.Sprintf("LoadPart %d", unit))
			}
			for piece := range 3 {
				once(t, counts, test.again, fmt.Sprintf("WritePiece %d", piece))
			}
			once(t, counts, test.again, "WriteSegments 0")
			once(t, counts, test.again, "PayBatches 0")
			for _, name := range []string{"TakeLease", "SealChunks", "SealExtraction", "ImportVectors", "PublishBuild"} {
				once(t, counts, test.again, name)
			}
		})
	}
}

func once(t *testing.T, counts, again map[string]int, call string) {
	t.Helper()
	want := max(again[call], 1)
	assert.True(t, counts[call] == want, "%s was called %d times, want %d", call, counts[call], want)
}

func TestAPauseStartsNothingMoreAndLetsTheRestFinish(t *testing.T) {
	f := newFake(64 * 20)
	f.fail["ExtractChunks 0/1"] = []error{fatal("model_auth")}
	var env *testsuite.TestWorkflowEnvironment
	_, err := run(t, f, workflows.Build{}, func(e *testsuite.TestWorkflowEnvironment) {
		env = e
		slowly(f, env, workflows.ExtractChunks, time.Minute)
		env.RegisterDelayedCallback(func() {
			// Six end together, one of them with the failure: the five others may have been followed.
			n := f.count(workflows.ExtractChunks)
			assert.True(t, n >= 6 && n <= 11, "%d of 20 batches were begun before the pause", n)
			s := state(t, env)
			assert.True(t, s.Phase == workflows.PhasePaused && s.Paused == "model_auth" && s.Stage == "extract" && s.Total == 1,
				"state %+v", s)
		}, time.Hour)
		resumeAt(t, env, 2*time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && f.count(workflows.ExtractChunks) == 21, "%v %v", err, f.count(workflows.ExtractChunks))
}

func TestOtherShardsDrainWhenOnePauses(t *testing.T) {
	f := newFake(64*78, 64*78)
	f.fail["ExtractChunks 0/0"] = []error{fatal("model_auth")}
	shape := workflows.Shape{ShardWindow: 6}
	_, err := run(t, f, workflows.Build{Shape: shape}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ExtractChunks, time.Minute)
		env.RegisterDelayedCallback(func() {
			// The other shard hears of it when the first has drained: three rounds of six in each at most.
			n := f.count(workflows.ExtractChunks)
			assert.True(t, n <= 36, "%d of 156 batches were begun before the pause", n)
		}, time.Hour)
		resumeAt(t, env, 2*time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && f.count(workflows.ExtractChunks) == 157 && f.count(workflows.SealShard) == 2, "%v %v %v",
		err, f.count(workflows.ExtractChunks), f.count(workflows.SealShard))
}

func TestWhatEndsWithoutTellingWhyPausesAfterItsAttempts(t *testing.T) {
	for name, failure := range map[string]func(){"a panic": func() { panic("boom") }, "an error that is not known": nil} {
		t.Run(name, func(t *testing.T) {
			f := newFake(10)
			calls := 0
			f.before = func(call string) {
				if call == "ReducePartition 1" {
					if calls++; calls > 30 {
						return
					}
					if failure != nil && f.lastEnd().Status != "paused" {
						failure()
					}
				}
			}
			if failure == nil {
				for range 30 {
					f.fail["ReducePartition 1"] = append(f.fail["ReducePartition 1"], errors.New("unmapped"))
				}
			}
			out, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
				resumeAt(t, env, 24*time.Hour, workflows.Resume{})
			})
			require.True(t, err == nil && out.Status == "completed", "%v %v", out, err)
			if end := f.ended[0]; end.Status != "paused" || end.Reason != workflows.CodeActivityFailed {
				t.Errorf("end %+v", end)
			} else if !strings.HasPrefix(end.Detail, "ReducePartition ended without telling why: ") {
				t.Errorf("nothing shows what failed: %q", end.Detail)
			}
			assert.Equal(t, 1, f.count("ReducePartition 0"), "the other unit ran")
		})
	}
}

// A pause that the activities find in their control record is the same as any other.
func TestARestorePausesAndResumesLikeABuild(t *testing.T) {
	f := newFake()
	f.fail["RestorePart 1"] = []error{fatal("paused")}
	out, err := run(t, f, workflows.Build{Generation: "restore-1"}, func(env *testsuite.TestWorkflowEnvironment) {
		resumeAt(t, env, time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && out.Status == "completed" && f.ended[0].Status == "paused",
		"%v %v %v", out, err, f.ended)
	for unit, want := range []int{1, 2, 1} {
		assert.Equal(t, want, f.count(fmt.Sprintf("RestorePart %d", unit)), "part %d ran", unit)
	}
}

// The list of pausing codes is the workflow's own, since it reaches no other package: this test holds it to the faults.
func TestPausingCodesAreThoseThatWaitingOrAPersonMends(t *testing.T) {
	mended := map[fault.Code]bool{
		fault.Paused: true, fault.BudgetSpent: true, fault.ActivityFailed: true, fault.EndpointRefused: true,
		fault.CorpusRefused: true, fault.ModelAuth: true, fault.ModelQuota: true, fault.ModelUnknown: true,
		fault.ModelRefused: true, fault.ModelUnreadable: true, fault.BadConfig: true, fault.StoreFull: true,
		fault.StoreDenied: true, fault.ControlUnreadable: true, fault.NotRecorded: true, fault.DimensionChanged: true,
		fault.BadVector: true, fault.BadEmbeddings: true,
	}
	for _, code := range fault.Codes() {
		want := mended[code] || code.Kind() == fault.Transient && !ofQueries[code]
		assert.Equal(t, want, workflows.Pausing(string(code)), "%s: pausing", code)
		delete(mended, code)
	}
	assert.Empty(t, mended, "not among the codes of faults: %v", mended)
}
