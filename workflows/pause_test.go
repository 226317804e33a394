package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

func TestResumeRunsTheUnitsThatAreLeftAndNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		fails  map[string]int // how often calls fail; each other one is made once
	}{
		"one batch of a shard":                    {"model_auth", map[string]int{"ExtractChunks 1/2": 1}},
		"the seal of a shard":                     {"store_full", map[string]int{"SealShard 0": 1}},
		"several units of a stage, in two pauses": {"model_quota", map[string]int{"EmbedPart 1": 2, "EmbedPart 3": 1}},
		"what seals a stage":                      {"store_unavailable", map[string]int{"SealExtraction": 1}},
		"the import after load":                   {"store_denied", map[string]int{"ImportVectors": 1}},
		"batches":                                 {"model_quota", map[string]int{"PayBatches 0": 1}},
		"what joins splits and class runs":        {"store_unavailable", map[string]int{"WriteSegments 0": 1}},
		"the lease":                               {"store_unavailable", map[string]int{"TakeLease": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(200, 200, 200)
			f.imports, f.pieces, f.batch = true, 3, true
			for call, times := range c.fails {
				f.fails(call, c.reason, times)
			}
			completes(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					end := f.lastEnd()
					assert.True(t, end.Status == "paused" && end.Reason == c.reason && end.Ref == "ref-"+c.reason+".json", "%+v", end)
				}, 30*time.Minute)
				resumeAt(t, env, time.Hour, workflows.Resume{})
				env.RegisterDelayedCallback(func() { // a second pause, if there is one
					if f.lastEnd().Status == "paused" {
						send(env, workflows.UpdateResume, workflows.Resume{})
					}
				}, 2*time.Hour)
			})
			want := map[string]int{"WriteSegments 0": 1, "PayBatches 0": 1}
			for _, name := range []string{"TakeLease", "SealChunks", "SealExtraction", "ImportVectors", "PublishBuild"} {
				want[name] = 1
			}
			for name, units := range map[string]int{"SealShard": 3, "EmbedPart": 5, "LoadPart": 5, "WritePiece": 3} {
				for unit := range units {
					want[fmt.Sprintf("%s %d", name, unit)] = 1
				}
			}
			for batch := range 12 {
				want[fmt.Sprintf("ExtractChunks %d/%d", batch/4, batch%4)] = 1
			}
			counts := map[string]int{}
			for _, call := range f.calls {
				if counts[call]++; want[call] == 0 {
					delete(counts, call)
				}
			}
			for call, times := range c.fails {
				want[call] += times
			}
			assert.Equal(t, want, counts)
		})
	}
}

func TestAPauseStartsNothingMoreAndOtherShardsDrain(t *testing.T) {
	f := newFake(64*78, 64*78)
	f.fail["ExtractChunks 0/0"] = []error{fatal("model_auth")}
	_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ExtractChunks, time.Minute)
		env.RegisterDelayedCallback(func() {
			// The other shard hears of it when the first has drained: three rounds at most.
			n := f.count(workflows.ExtractChunks)
			assert.True(t, n >= 6 && n <= 3*24, "%d of 156 batches were begun before the pause", n)
			s := state(t, env)
			assert.True(t, s.Phase == workflows.PhasePaused && s.Paused == "model_auth" && s.Stage == "extract", "state %+v", s)
		}, time.Hour)
		resumeAt(t, env, 2*time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && f.count(workflows.ExtractChunks) == 157 && f.count(workflows.SealShard) == 2, "%v %v %v",
		err, f.count(workflows.ExtractChunks), f.count(workflows.SealShard))
}

func TestWhatEndsWithoutTellingWhyPausesAfterItsAttempts(t *testing.T) {
	for name, failure := range map[string]func(){"a panic": func() { panic("boom") }, "an error that is not known": nil} {
		t.Run(name, func(t *testing.T) {
			f, calls := newFake(10), 0
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
			completes(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
				resumeAt(t, env, 24*time.Hour, workflows.Resume{})
			})
			if end := f.ended[0]; end.Status != "paused" || end.Reason != workflows.CodeActivityFailed {
				t.Errorf("end %+v", end)
			} else if !strings.HasPrefix(end.Detail, "ReducePartition ended without telling why: ") {
				t.Errorf("nothing shows what failed: %q", end.Detail)
			}
			assert.Equal(t, 1, f.count("ReducePartition 0"), "the other unit ran")
		})
	}
}

// A pause that the activities find in their control record is the same as any other, in every kind of run.
func TestEveryRunPausesAndGoesOnWithTheUnitsThatAreLeft(t *testing.T) {
	for generation, c := range map[string]struct{ paused, other string }{
		"restore-1": {"RestorePart 1", "RestorePart 0"}, "audit-1": {"AuditPart 1", "AuditPart 0"},
		"g": {"CollectGarbage 0", "PublishBuild 0"},
	} {
		f := newFake()
		if generation == "g" {
			f = newFake(10)
		}
		f.fails(c.paused, "paused", 1)
		out, err := run(t, f, workflows.Build{Generation: generation}, func(env *testsuite.TestWorkflowEnvironment) {
			resumeAt(t, env, time.Hour, workflows.Resume{})
		})
		require.True(t, err == nil && out.Status == "completed" && f.ended[0].Status == "paused", "%v %v %v", out, err, f.ended)
		assert.True(t, f.count(c.paused) == 2 && f.count(c.other) <= 1 && f.lastEnd().Warning == nil, "%s: %v", generation, f.calls)
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

func patient() workflows.Build { return workflows.Build{Shape: workflows.DefaultShape()} }

// fails makes the next calls of an activity, or of one unit of it, fail with a code.
func (f *fake) fails(call, code string, times int) {
	for range times {
		f.fail[call] = append(f.fail[call], fatal(code))
	}
}

// noted returns the waits that were written down: how long each was to be, and the last one.
func (f *fake) noted() (delays []time.Duration, last workflows.End) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range f.ended {
		if end.Status == "waiting" {
			began := end.Waiting.Since
			if last.Waiting != nil && last.Waiting.Tries < end.Waiting.Tries {
				began = last.Waiting.Next
			}
			delays = append(delays, end.Waiting.Next.Sub(began).Round(time.Second))
			last = end
		}
	}
	return delays, last
}

func minutes(all ...float64) (out []time.Duration) {
	for _, n := range all {
		out = append(out, time.Duration(n*float64(time.Minute)))
	}
	return out
}

// Promises: 111.
func TestAnOutageIsWaitedForWithoutAPerson(t *testing.T) {
	for _, code := range []string{"store_unavailable", "store_full", "model_unavailable", "stalled"} {
		for _, at := range []string{
			"TakeLease", "PlanBuild", "EmbedPart 1", "SealShard 0", "SealExtraction", "PublishBuild",
		} {
			f := newFake(200, 200)
			f.fails(at, code, 7)
			completes(t, f, patient(), nil)
			delays, last := f.noted()
			assert.True(t, slices.Equal(delays, minutes(.5, 1, 2, 4, 8, 10, 10)), "%s in %s: waits of %v", code, at, delays)
			assert.True(t, last.Reason == code && last.Ref == "ref-"+code+".json" && last.Waiting.Tries == 7,
				"%s in %s: reported %+v, %+v", code, at, last, last.Waiting)
			for _, call := range []string{"EmbedPart 0", "ExtractChunks 0/1", "PublishBuild"} {
				n := f.count(call)
				assert.True(t, call == at || n == 1, "%s in %s: %s ran %d times", code, at, call, n)
			}
			if n := len(f.steered); n != 7 || f.steered[0].Command != "resume" {
				t.Errorf("%s in %s: %d times written down that it goes on: %+v", code, at, n, f.steered)
			}
		}
	}
}

func TestAnOutageThatLastsNeedsAPersonInTheEnd(t *testing.T) {
	f := newFake(10)
	f.fails("LoadPart 0", "store_unavailable", 100)
	var paused workflows.State
	completes(t, f, patient(), func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { paused = state(t, env) }, 13*time.Hour)
		env.RegisterDelayedCallback(func() { f.fail["LoadPart 0"] = nil }, 24*time.Hour)
		resumeAt(t, env, 25*time.Hour, workflows.Resume{})
	})
	assert.True(t, paused.Phase == workflows.PhasePaused && paused.Paused == "store_unavailable", "%+v", paused)
	delays, _ := f.noted()
	total := time.Duration(0)
	for _, delay := range delays {
		total += delay
	}
	assert.True(t, total >= 12*time.Hour && total <= 12*time.Hour+10*time.Minute && len(delays) <= 80,
		"%d waits of %s in all", len(delays), total)
}

func TestAShapeSaysHowLongARunWaits(t *testing.T) {
	f := newFake(10)
	f.fails("LoadPart 0", "store_unavailable", 10)
	build := patient()
	build.Shape.Outage = 3 * time.Minute
	_, err := run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { f.fail["LoadPart 0"] = nil }, time.Hour)
		resumeAt(t, env, 2*time.Hour, workflows.Resume{})
	})
	delays, _ := f.noted()
	assert.True(t, err == nil && slices.Equal(delays, minutes(.5, 1, 2)), "%v %v", err, delays)
}

func TestAStageThatGetsOnHasAnotherOutage(t *testing.T) {
	f := newFake(10)
	f.fails("EmbedPart 0", "model_unavailable", 3)
	f.fails("EmbedPart 1", "model_unavailable", 2)
	out, err := run(t, f, patient(), nil)
	if delays, _ := f.noted(); err != nil || out.Status != "completed" || !slices.Equal(delays, minutes(.5, 1, .5)) {
		t.Error(out, err, delays)
	}
}

// While a store is down, the status cannot show that the run waits, and nothing can be written down.
func TestAnOutageOfTheStoreThatWouldTellOfIt(t *testing.T) {
	f := newFake(10)
	f.fails("LoadPart 0", "store_unavailable", 1)
	down, noted := true, 0
	out, err := run(t, f, patient(), func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(workflows.SteerRun, mock.Anything, mock.Anything).Return(
			func(context.Context, workflows.Steer) (workflows.Stopped, error) {
				if down {
					return workflows.Stopped{}, fatal("store_unavailable")
				}
				return workflows.Stopped{}, nil
			})
		env.OnActivity(workflows.EndBuild, mock.Anything, mock.Anything).Return(
			func(_ context.Context, end workflows.End) (workflows.Ended, error) {
				f.ended = append(f.ended, end)
				if noted++; down {
					return workflows.Ended{}, fatal("store_unavailable")
				}
				return workflows.Ended{}, nil
			})
		env.RegisterDelayedCallback(func() {
			assert.Equal(t, 1, f.count("LoadPart 0"), "it was tried")
			down = false
		}, 3*time.Hour)
	})
	assert.True(t, err == nil && out.Status == "completed" && f.count("LoadPart 0") == 2 && noted >= 10, "%v %v %v %v",
		out, err, f.count("LoadPart 0"), noted)
}

func TestARunThatWaitsTakesCommands(t *testing.T) {
	for _, down := range []bool{false, true} { // the store where commands are written down
		for _, command := range []string{"pause", "resume", "cancel", "pause, then cancel"} {
			if down && command == "resume" {
				continue // what it would write is what the run waits for
			}
			t.Run(fmt.Sprintf("%s, down %v", command, down), func(t *testing.T) {
				f := newFake(10)
				f.fails("LoadPart 0", "store_unavailable", 6)
				out, err := run(t, f, patient(), func(env *testsuite.TestWorkflowEnvironment) {
					steers(f, env, &down)
					var first, second *answer
					env.RegisterDelayedCallback(func() { // within the fifth wait
						s := state(t, env)
						assert.True(t, s.Phase == workflows.PhaseWaiting && s.Paused == "store_unavailable" && s.Waiting != nil &&
							s.Waiting.Tries == 5, "state %+v", s)
						first = commanded(env, command)
					}, 10*time.Minute)
					env.RegisterDelayedCallback(func() {
						assert.True(t, first.completed, "%+v", first)
						n := f.count("LoadPart 0")
						assert.True(t, command != "resume" || n == 6, "tried %d times, want at once", n)
						down = false
						if command == "pause, then cancel" {
							send(env, workflows.UpdateCancel)
						}
					}, 10*time.Minute+10*time.Second)
					if command == "pause" {
						env.RegisterDelayedCallback(func() {
							s := state(t, env)
							assert.True(t, s.Phase == workflows.PhasePaused && s.Paused == "paused", "state %+v", s)
							second = send(env, workflows.UpdateResume, workflows.Resume{})
						}, 100*time.Hour)
						env.RegisterDelayedCallback(func() { assert.True(t, second.completed, "%+v", second) }, 101*time.Hour)
					}
				})
				cancelled := command != "pause" && command != "resume"
				assert.True(t, cancelled == temporal.IsCanceledError(err) && (cancelled || out.Status == "completed"), "%v %v", out,
					err)
			})
		}
	}
}

func commanded(env *testsuite.TestWorkflowEnvironment, command string) *answer {
	switch command {
	case "resume":
		return send(env, workflows.UpdateResume, workflows.Resume{})
	case "cancel":
		return send(env, workflows.UpdateCancel)
	}
	return send(env, workflows.UpdatePause)
}

// steers has commands fail to be written down while the store is down. Those of the run itself are answered at once.
func steers(f *fake, env *testsuite.TestWorkflowEnvironment, down *bool) {
	env.OnActivity(workflows.SteerRun, mock.Anything, mock.Anything).Return(
		func(_ context.Context, s workflows.Steer) (workflows.Stopped, error) {
			f.mu.Lock()
			f.steered = append(f.steered, s)
			f.mu.Unlock()
			if *down && s.Command != "resume" {
				return workflows.Stopped{}, fatal("store_unavailable")
			}
			return workflows.Stopped{}, nil
		})
}

func TestACollectThatFailsIsAWarningAndTheRunEnds(t *testing.T) {
	for _, err := range []error{fatal("store_unavailable"), fatal("store_denied"), fatal("internal")} {
		for _, at := range []string{"CollectGarbage 0", "BeginStage collect"} {
			f := newFake(10)
			f.fail[at] = []error{err}
			out, failed := run(t, f, patient(), nil)
			require.True(t, failed == nil && out.Status == "completed" && len(f.ended) == 1,
				"%v %v %v %v %v", at, err, out, failed, f.ended)
			var app *temporal.ApplicationError
			errors.As(err, &app)
			want := workflows.Warning{Code: app.Type(), Object: "collect", Ref: "ref-" + app.Type() + ".json"}
			got := f.ended[0].Warning
			assert.True(t, got != nil && *got == want, "%s: warning %+v, want %+v", at, got, want)
		}
	}
}

// An attempt that takes too long says that what it calls hangs; one whose worker dies may have killed it.
func TestATimeoutIsWaitedForAndADeadWorkerIsNot(t *testing.T) {
	for _, late := range []struct {
		kind   error
		status string
	}{
		{temporal.NewTimeoutError(1, nil), "waiting"}, // start to close
		{temporal.NewHeartbeatTimeoutError(), "paused"},
	} {
		f, tries := newFake(10), 0
		musttest.Get(run(t, f, patient(), func(env *testsuite.TestWorkflowEnvironment) {
			env.OnActivity(workflows.SealChunks, mock.Anything, mock.Anything).Return(
				func(context.Context, workflows.Build) (workflows.Chunked, error) {
					if tries++; len(f.ended) == 0 {
						return workflows.Chunked{}, late.kind
					}
					return workflows.Chunked{Shards: []int{10}, Chunks: 10}, nil
				})
			env.RegisterDelayedCallback(func() {
				if f.lastEnd().Status == "paused" {
					send(env, workflows.UpdateResume, workflows.Resume{})
				}
			}, 24*time.Hour)
		}))(t)
		assert.True(t, f.ended[0].Status == late.status, "%v after %d tries, %+v", late.kind, tries, f.ended)
	}
}

// ofQueries are the transient codes that no build meets: those of query-api, and that of notices, which runs do not
// wait for.
var ofQueries = map[fault.Code]bool{
	fault.RateLimited: true, fault.KeysUnknown: true, fault.WebhookDown: true, fault.Timeout: true,
	fault.QuotaUnknown: true,
}

// The list is the workflow's own, since it reaches no other package: this test holds it to the faults.
func TestWaitedCodesAreThoseThatTimeMends(t *testing.T) {
	for _, code := range fault.Codes() {
		if ofQueries[code] {
			continue
		}
		want := code.Kind() == fault.Transient || code == fault.StoreFull
		assert.Equal(t, want, workflows.Waited(string(code)), "%s: waited for", code)
		assert.True(t, !workflows.Waited(string(code)) || workflows.Pausing(string(code)),
			"%s is waited for and does not pause", code)
		if want || !workflows.Pausing(string(code)) {
			continue
		}
		f := newFake(10)
		f.fails("LoadPart 0", string(code), 1)
		musttest.Get(run(t, f, patient(), func(env *testsuite.TestWorkflowEnvironment) {
			resumeAt(t, env, 24*time.Hour, workflows.Resume{Budget: &workflows.Budget{Calls: 5}})
		}))(t)
		assert.True(t, f.ended[0].Status == "paused" && f.ended[0].Reason == string(code), "%s, %+v", code, f.ended)
	}
}
