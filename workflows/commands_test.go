package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// slowly makes every unit of an activity take some of the run's time, so that commands can arrive meanwhile.
func slowly(f *fake, env *testsuite.TestWorkflowEnvironment, activity string, each time.Duration) {
	env.OnActivity(activity, mock.Anything, mock.Anything).Return(
		func(_ context.Context, u workflows.Unit) (workflows.UnitResult, error) {
			return workflows.UnitResult{Done: 1}, f.call(activity, u)
		},
	).After(each)
}

func says(t *testing.T, what string, err error, sentence string) {
	if sentence == "" {
		assert.NoError(t, err, "%s", what)
		return
	}
	assert.True(t, err != nil && strings.Contains(err.Error(), sentence), "%s: %v, want %q", what, err, sentence)
}

func TestCommandsAreRefusedWhereTheyMakeNoSense(t *testing.T) {
	f := newFake(64)
	completes(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ReducePartition, time.Hour)
		var early, pause, again, late, resume, twice *answer
		env.RegisterDelayedCallback(func() {
			early = send(env, workflows.UpdateResume, workflows.Resume{})
			pause = send(env, workflows.UpdatePause)
			again = send(env, workflows.UpdatePause)
		}, time.Minute)
		env.RegisterDelayedCallback(func() {
			says(t, "resume of a running run", early.rejected, "not paused")
			says(t, "pause", pause.rejected, "")
			says(t, "pause twice at once", again.rejected, "pausing already")
			assert.True(t, pause.completed, "pause was not acknowledged before the units ended")
			s := state(t, env)
			assert.True(t, s.Phase == workflows.PhaseRunning && s.Child != "", "state %+v", s)
		}, 30*time.Minute)
		env.RegisterDelayedCallback(func() {
			s := state(t, env)
			assert.True(t, s.Phase == workflows.PhasePaused && s.Paused == "paused", "state %+v", s)
			late = send(env, workflows.UpdatePause)
			resume = send(env, workflows.UpdateResume, workflows.Resume{})
			twice = send(env, workflows.UpdateResume, workflows.Resume{})
		}, 3*time.Hour)
		env.RegisterDelayedCallback(func() {
			says(t, "pause of a paused run", late.rejected, "paused already")
			says(t, "resume", resume.rejected, "")
			says(t, "resume twice at once", twice.rejected, "being resumed already")
			var app *temporal.ApplicationError
			assert.True(t, errors.As(twice.rejected, &app) && app.Type() == string(fault.Usage),
				"refusal %#v has no code of a fault", twice.rejected)
		}, 3*time.Hour+time.Minute)
	})
	assert.Equal(t, 2, f.count(workflows.ReducePartition))
	assert.True(t, len(f.steered) == 2 && f.steered[0].Command == "pause" && f.steered[1].Command == "resume",
		"written down: %+v", f.steered)
}

// The pause takes effect between stages too, where no activity looks at the control record.
func TestAPauseHoldsBeforeTheNextStageBegins(t *testing.T) {
	f := newFake(64)
	_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.VerifyPart, time.Hour)
		env.RegisterDelayedCallback(func() { send(env, workflows.UpdatePause) }, time.Minute)
		env.RegisterDelayedCallback(func() {
			assert.True(t, f.count(workflows.PublishBuild) == 0 && f.lastEnd().Status == "paused" &&
				f.lastEnd().Reason == "paused", "published %d times, end %+v", f.count(workflows.PublishBuild), f.lastEnd())
		}, 10*time.Hour)
		resumeAt(t, env, 11*time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && f.count(workflows.PublishBuild) == 1, "%v", err)
}

// The stores tell people of a pause before the workflow hears that it is written down: they may resume it by then.
func TestAResumeWaitsUntilThePauseIsWrittenDown(t *testing.T) {
	f := newFake(64)
	f.fail["ReducePartition 1"] = []error{fatal("model_quota")}
	var resume *answer
	out := musttest.Get(run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(workflows.EndBuild, mock.Anything, mock.Anything).
			Return(func(_ context.Context, end workflows.End) (workflows.Ended, error) {
				f.ended = append(f.ended, end)
				return workflows.Ended{}, f.call(workflows.EndBuild)
			}).After(time.Hour)
		env.RegisterDelayedCallback(func() {
			assert.Equal(t, workflows.PhasePausing, state(t, env).Phase, "state")
			resume = send(env, workflows.UpdateResume, workflows.Resume{})
		}, time.Minute)
	}))(t)
	require.True(t, out.Status == "completed" && resume.rejected == nil && resume.completed, "%v %v", out, resume)
	assert.True(t, len(f.ended) == 2 && f.first(workflows.EndBuild) <= f.first(workflows.SteerRun),
		"ends %+v, calls %v", f.ended, f.calls)
}

func TestABudgetThatIsSpentWantsABiggerOne(t *testing.T) {
	f := newFake(64 * 4)
	f.fail["ExtractChunks 0/1"] = []error{fatal("budget_spent"), fatal("budget_spent")}
	musttest.Get(run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		resume := func(after time.Duration, budget *workflows.Budget, sentence string) {
			var a *answer
			resume := func() { a = send(env, workflows.UpdateResume, workflows.Resume{Budget: budget}) }
			env.RegisterDelayedCallback(resume, after)
			env.RegisterDelayedCallback(func() {
				says(t, after.String(), a.rejected, sentence)
				says(t, after.String(), a.failed, "")
			}, after+time.Second)
		}
		resume(1*time.Hour, nil, "--budget-calls")
		resume(2*time.Hour, &workflows.Budget{}, "--budget-money")
		resume(3*time.Hour, &workflows.Budget{Calls: -1}, "must not be negative")
		resume(4*time.Hour, &workflows.Budget{Calls: 100}, "")
		resume(5*time.Hour, &workflows.Budget{Calls: 100}, "not larger")
		resume(6*time.Hour, &workflows.Budget{Money: 2}, "")
	}))(t)
	merged, last := workflows.Budget{Calls: 100, Money: 2}, f.units[len(f.units)-1]
	assert.True(t, last.Budget != nil && *last.Budget == merged, "the last activity got budget %+v", last.Budget)
	assert.True(t, len(f.steered) == 2 && *f.steered[0].NewBudget == (workflows.Budget{Calls: 100}) &&
		*f.steered[1].NewBudget == merged, "written down: %+v", f.steered)
}

func TestCancelIsWrittenDownBeforeTheRunStops(t *testing.T) {
	for _, generation := range []string{"g", "restore-1"} {
		f, activity := newFake(64*40), workflows.ExtractChunks
		if generation != "g" {
			activity = workflows.RestorePart
		}
		var first, second *answer
		_, err := run(t, f, workflows.Build{Generation: generation}, func(env *testsuite.TestWorkflowEnvironment) {
			slowly(f, env, activity, time.Hour)
			env.RegisterDelayedCallback(func() {
				first = send(env, workflows.UpdateCancel)
				second = send(env, workflows.UpdateCancel)
			}, time.Minute)
		})
		require.True(t, temporal.IsCanceledError(err), "%v", err)
		reported := (workflows.Stopped{InFlight: inFlight})
		assert.True(t, first.reported == reported, "the answer is %+v, want %+v", first.reported, reported)
		says(t, "cancel twice", second.rejected, "being cancelled already")
		assert.True(t, f.lastEnd().Status == "cancelled" && len(f.ended) == 1, "ends %+v", f.ended)
		assert.True(t, len(f.steered) == 1 && f.steered[0].Command == "cancel" &&
			f.first(workflows.SteerRun) <= f.last(workflows.EndBuild), "written down: %+v", f.steered)
	}
}

// A run that is paused is cancelled by a command, or by the engine's own cancel: its end is recorded.
func TestAPausedRunCanBeCancelled(t *testing.T) {
	for name, cancel := range map[string]func(*testsuite.TestWorkflowEnvironment){
		"by a command":   func(env *testsuite.TestWorkflowEnvironment) { send(env, workflows.UpdateCancel) },
		"without a word": (*testsuite.TestWorkflowEnvironment).CancelWorkflow,
	} {
		f := newFake(10)
		f.fail[workflows.ReducePartition] = []error{fatal("model_quota"), fatal("model_quota")}
		_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() { cancel(env) }, time.Hour)
		})
		assert.True(t, temporal.IsCanceledError(err) && f.lastEnd().Status == "cancelled" &&
			f.count(workflows.PublishBuild) == 0, "%s: %v %+v", name, err, f.lastEnd())
	}
}

// Activities that find the stop in the control record before their cancellation must not make the run look paused.
func TestARunThatIsBeingCancelledDoesNotPauseInBetween(t *testing.T) {
	for _, code := range []string{"paused", "cancelled"} {
		f := newFake(64)
		f.fail[workflows.ReducePartition] = []error{fatal(code), fatal(code)}
		_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
			slowly(f, env, workflows.ReducePartition, time.Hour)
			env.OnActivity(workflows.SteerRun, mock.Anything, mock.Anything).Return(workflows.Stopped{}, nil).
				After(10 * time.Second)
			env.RegisterDelayedCallback(func() { send(env, workflows.UpdateCancel) }, time.Hour-5*time.Second)
		})
		require.True(t, temporal.IsCanceledError(err) && len(f.ended) == 1, "%v %v", err, f.ended)
	}
}

// A pause that waits until limits are written down must not follow a cancel that came meanwhile.
func TestACommandThatWaitedWhenACancelCameIsRefused(t *testing.T) {
	f, two := newFake(64), 2
	var pause, cancel *answer
	_, err := run(t, f, workflows.Build{Spec: strings.Repeat("a", 64)}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ReducePartition, time.Hour)
		env.OnActivity(workflows.SteerRun, mock.Anything, mock.Anything).Return(
			func(_ context.Context, steer workflows.Steer) (workflows.Stopped, error) {
				f.steered = append(f.steered, steer)
				return workflows.Stopped{}, nil
			}).After(10 * time.Second)
		env.RegisterDelayedCallback(func() {
			send(env, workflows.UpdateConcurrency, workflows.Limits{Concurrency: &two})
		}, time.Minute)
		at(env, time.Minute+time.Second, workflows.UpdatePause, &pause)
		at(env, time.Minute+2*time.Second, workflows.UpdateCancel, &cancel)
	})
	require.True(t, temporal.IsCanceledError(err), "%v", err)
	says(t, "pause", pause.failed, "being cancelled")
	assert.True(t, len(f.steered) == 2 && f.steered[1].Command == workflows.UpdateCancel, "written down: %+v", f.steered)
}

func TestACommandThatCannotBeWrittenDownChangesNothing(t *testing.T) {
	f := newFake(64)
	f.fail[workflows.SteerRun] = []error{fatal("store_denied"), fatal("store_denied")}
	out, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ReducePartition, time.Hour)
		var pause, cancel *answer
		env.RegisterDelayedCallback(func() {
			pause = send(env, workflows.UpdatePause)
			cancel = send(env, workflows.UpdateCancel)
		}, time.Minute)
		env.RegisterDelayedCallback(func() {
			says(t, "pause", pause.failed, "store_denied")
			says(t, "cancel", cancel.failed, "store_denied")
		}, 2*time.Minute)
	})
	require.True(t, err == nil && out.Status == "completed" && len(f.ended) == 1, "%v %v %v", out, err, f.ended)
}

func TestARunThatIsEndingTakesNoCommand(t *testing.T) {
	f := newFake(10)
	_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(workflows.EndBuild, mock.Anything, mock.Anything).Return(workflows.Ended{}, nil).After(time.Hour)
		env.RegisterDelayedCallback(func() {
			for _, a := range []*answer{
				send(env, workflows.UpdatePause), send(env, workflows.UpdateResume, workflows.Resume{}),
				send(env, workflows.UpdateCancel),
			} {
				env.RegisterDelayedCallback(func() { says(t, "command", a.rejected, "(type: run_ended") }, time.Second)
			}
		}, 30*time.Minute)
	})
	require.True(t, err == nil && len(f.steered) == 0, "%v %v", err, f.steered)
}

// Activities see a cancel before it is acknowledged, and the run may end by it first.
func TestACancelThatEndsTheRunBeforeItIsAcknowledgedIsObeyed(t *testing.T) {
	f := newFake(640)
	f.fail["ExtractChunks 0/3"] = []error{fatal("cancelled")}
	var answer error
	f.before = func(call string) {
		if call == workflows.SteerRun {
			time.Sleep(100 * time.Millisecond) // it waits until no call can start
		}
	}
	_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(workflows.UpdateCancel, "cancel", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { answer = err },
				OnComplete: func(_ any, err error) { answer = err },
			})
		}, 0)
	})
	assert.True(t, err != nil && answer == nil && f.lastEnd().Status == "cancelled", "run %v, answer %v, end %+v", err,
		answer, f.lastEnd())
}

func TestLimitsOfARunningBuildAreWrittenDownAndBadOnesRefused(t *testing.T) {
	number := func(n int) *int { return &n }
	f := newFake(64 * 4)
	musttest.Get(run(t, f, workflows.Build{Spec: strings.Repeat("a", 64)}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ExtractChunks, time.Hour)
		after := time.Minute
		give := func(update string, input any, sentence string) {
			after += time.Second
			var a *answer
			env.RegisterDelayedCallback(func() { a = send(env, update, input) }, after)
			env.RegisterDelayedCallback(func() {
				says(t, update, a.rejected, sentence)
				says(t, update, a.failed, "")
			}, after+time.Second)
		}
		give(workflows.UpdateConcurrency, workflows.Limits{}, "want a concurrency")
		give(workflows.UpdateConcurrency, workflows.Limits{Concurrency: number(0)}, "pause the run")
		give(workflows.UpdateConcurrency, workflows.Limits{Concurrency: number(2)}, "")
		give(workflows.UpdateRates, workflows.Limits{}, "want requests or tokens")
		give(workflows.UpdateRates, workflows.Limits{TokensPerMinute: number(-1)}, "want 0")
		give(workflows.UpdateRates, workflows.Limits{RequestsPerMinute: number(60)}, "")
		give(workflows.UpdateBudget, workflows.Budget{}, "no budget is given")
		give(workflows.UpdateBudget, workflows.Budget{Calls: -1}, "must not be negative")
		give(workflows.UpdateBudget, workflows.Budget{Calls: 100}, "")
		give(workflows.UpdateBudget, workflows.Budget{Money: 2}, "")
	}))(t)
	assert.True(t, len(f.steered) == 4 && *f.steered[0].NewLimits.Concurrency == 2 &&
		*f.steered[1].NewLimits.RequestsPerMinute == 60 &&
		*f.steered[3].NewBudget == (workflows.Budget{Calls: 100, Money: 2}), "written down: %+v", f.steered)
}

func at(env *testsuite.TestWorkflowEnvironment, after time.Duration, update string, into **answer) {
	env.RegisterDelayedCallback(func() {
		if update == workflows.UpdateResume {
			*into = send(env, update, workflows.Resume{})
		} else {
			*into = send(env, update)
		}
	}, after)
}

func obeyed(t *testing.T, what string, a *answer) {
	assert.True(t, a != nil && a.rejected == nil && a.failed == nil && a.completed, "%s: %+v", what, a)
}

// A person resumes before what was in flight has ended, or before the pause is even written down: the pause is off.
// Promises: 111.
func TestAResumeRightAfterAPauseIsNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		noticed bool          // units end with the pause in the control record
		after   time.Duration // between the commands
	}{
		"at once":                               {false, 0},
		"while units drain":                     {false, 10 * time.Minute},
		"at once, units noticed":                {true, 0},
		"while units drain that noticed":        {true, 10 * time.Minute},
		"when some have noticed and some begin": {true, 59 * time.Minute},
	} {
		for _, generation := range []string{"g", "restore-1"} {
			f, activity := newFake(64*20), workflows.ExtractChunks
			if generation != "g" {
				activity = workflows.RestorePart
			}
			var pause, resume *answer
			completes(t, f, workflows.Build{Generation: generation}, func(env *testsuite.TestWorkflowEnvironment) {
				slowly(f, env, activity, time.Hour)
				if c.noticed {
					f.fails(activity, "paused", 2)
				}
				env.OnActivity(workflows.SteerRun, mock.Anything, mock.Anything).Return(workflows.Stopped{}, nil).
					After(2 * time.Second)
				at(env, time.Minute, workflows.UpdatePause, &pause)
				at(env, time.Minute+c.after, workflows.UpdateResume, &resume)
			})
			obeyed(t, name+": pause", pause)
			obeyed(t, name+": resume", resume)
			assert.Len(t, f.ended, 1, "%s, %s: it paused all the same: %+v", name, generation, f.ended)
			want := 20
			if generation != "g" {
				want = 3
			}
			if c.noticed {
				want += 2
			}
			assert.Equal(t, want, f.count(activity), "%s, %s", name, generation)
		}
	}
}

// What pauses the run besides is reported, whatever the person asked for; where it is waited for, the run goes on.
func TestAPauseThatIsTakenBackWhileAUnitFails(t *testing.T) {
	for code, build := range map[string]workflows.Build{"model_auth": {}, "store_unavailable": patient()} {
		f := newFake(64)
		f.fails("ReducePartition 1", code, 1)
		var pause, resume, again *answer
		out, err := run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
			slowly(f, env, workflows.ReducePartition, time.Hour)
			at(env, time.Minute, workflows.UpdatePause, &pause)
			at(env, 2*time.Minute, workflows.UpdateResume, &resume)
			env.RegisterDelayedCallback(func() {
				if code == "model_auth" {
					s := state(t, env)
					assert.True(t, s.Phase == workflows.PhasePaused && s.Paused == code, "state %+v", s)
					again = send(env, workflows.UpdateResume, workflows.Resume{})
				}
			}, 10*time.Hour)
		})
		obeyed(t, code+": pause", pause)
		obeyed(t, code+": resume", resume)
		if code == "model_auth" {
			obeyed(t, "resume after it was reported", again)
		}
		assert.True(t, err == nil && out.Status == "completed" && f.count("ReducePartition 0") == 1,
			"%v %v %v %v", code, out, err, f.calls)
	}
}

// Commands at any time, units that notice them or not, and outages: the last command that was acknowledged counts.
// Promises: 111.
func TestTheLastAcknowledgedCommandCounts(t *testing.T) {
	for seed := range uint64(50) {
		random, f := rand.New(rand.NewPCG(seed, 1)), newFake(64*6, 64*3)
		f.pauses = random.IntN(2) == 0
		if random.IntN(2) == 0 {
			f.fails(fmt.Sprintf("ExtractChunks 0/%d", random.IntN(6)), "store_unavailable", 1+random.IntN(5))
		}
		build := workflows.Build{}
		if random.IntN(3) > 0 {
			build = patient()
		}
		type sent struct {
			command string
			answer  *answer
		}
		var all []*sent
		last := "resume"
		observe := func() { // commands end in the order they were sent: they are written down one at a time
			for _, s := range all {
				if s.answer.completed {
					last = s.command
				}
			}
		}
		out, err := run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
			slowly(f, env, workflows.ExtractChunks, time.Minute)
			for range 2 + random.IntN(6) {
				command := []string{workflows.UpdatePause, workflows.UpdateResume}[random.IntN(2)]
				env.RegisterDelayedCallback(func() {
					s := &sent{command: command}
					if all = append(all, s); command == workflows.UpdateResume {
						s.answer = send(env, command, workflows.Resume{})
					} else {
						s.answer = send(env, command)
					}
				}, time.Duration(random.IntN(240))*time.Second)
			}
			for hour := 20; hour < 300; hour += 20 { // a run that is paused by now stays so until it is resumed
				env.RegisterDelayedCallback(func() {
					observe()
					if f.lastEnd().Status == "paused" {
						reason := f.lastEnd().Reason
						assert.True(t, last != workflows.UpdateResume || reason != "paused",
							"seed %d: paused after a resume that was acknowledged", seed)
						s := &sent{workflows.UpdateResume, send(env, workflows.UpdateResume, workflows.Resume{})}
						all = append(all, s)
						env.RegisterDelayedCallback(func() {
							assert.True(t, s.answer.completed, "seed %d: a run that is paused was not resumed: %+v", seed, s.answer)
						}, time.Hour)
					}
				}, time.Duration(hour)*time.Hour)
			}
		})
		require.True(t, err == nil && out.Status == "completed" && f.count(workflows.SealShard) == 2,
			"seed %d: %+v, %v, %+v", seed, out, err, f.ended)
		for _, s := range all {
			assert.NoError(t, s.answer.failed, "seed %d: %s was taken and failed: %v", seed, s.command, s.answer.failed)
		}
	}
}

// options are those that each activity and child workflow was started with.
type options struct {
	interceptor.WorkerInterceptorBase
	mu         sync.Mutex
	activities map[string]workflow.ActivityOptions
	children   map[string]workflow.ChildWorkflowOptions
}

func (o *options) InterceptWorkflow(
	_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, o}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	options *options
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.options})
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	options *options
}

func (out *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	out.options.mu.Lock()
	out.options.activities[name] = workflow.GetActivityOptions(ctx)
	out.options.mu.Unlock()
	return out.Next.ExecuteActivity(ctx, name, args...)
}

func (out *outbound) ExecuteChildWorkflow(ctx workflow.Context, name string, args ...any) workflow.ChildWorkflowFuture {
	out.options.mu.Lock()
	out.options.children[name] = workflow.GetChildWorkflowOptions(ctx)
	out.options.mu.Unlock()
	return out.Next.ExecuteChildWorkflow(ctx, name, args...)
}

// started gives the options of everything that builds and restores start.
func started(t *testing.T) *options {
	seen := &options{
		activities: map[string]workflow.ActivityOptions{}, children: map[string]workflow.ChildWorkflowOptions{},
	}
	for _, build := range []workflows.Build{
		{Heartbeat: 42 * time.Second}, {Generation: "restore-1"}, {Generation: "audit-1"},
	} {
		f := newFake(200)
		f.imports, f.planned.Repair, f.notify, f.pieces, f.batch, f.enrich = true, 2, true, 2, true, 2
		if build.Heartbeat == 0 {
			build.Heartbeat = 42 * time.Second
		}
		musttest.Get(run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{seen}})
			env.RegisterDelayedCallback(func() { send(env, workflows.UpdatePause) }, 0)
			resumeAt(t, env, time.Hour, workflows.Resume{})
		}))(t)
	}
	return seen
}

// Four kinds of activities, and all of them: a new one must be put under one.
var (
	quickOnes  = []string{workflows.BeginStage, workflows.OpenRestore, workflows.SteerRun}
	recordings = []string{workflows.EndBuild, workflows.EndRestore, workflows.EndAudit}
	notices    = []string{workflows.SendNotice}
	batches    = append([]string{
		workflows.TakeLease, workflows.PlanBuild, workflows.SealChunks, workflows.SealExtraction, workflows.ImportVectors,
		workflows.PublishBuild, workflows.SealRepair, workflows.SealRestore, workflows.OpenAudit,
		workflows.SealAudit, workflows.SealEnrichment,
	}, unitActivities...)
)

// Each activity is of one kind, whose retries and time-outs it has. What fills a core has a queue of its own, and
// children end with their run.
func TestEveryActivityHasAProfile(t *testing.T) {
	seen, all := started(t), slices.Concat(quickOnes, recordings, notices, batches)
	slices.Sort(all)
	assert.Equal(t, all, slices.Sorted(maps.Keys(seen.activities)))
	apart := []string{
		workflows.ChunkDocuments, workflows.ReducePartition, workflows.SealShard, workflows.WritePiece,
		workflows.WriteSegments,
	}
	for name, given := range seen.activities {
		assert.Equal(t, slices.Contains(apart, name), strings.HasSuffix(given.TaskQueue, "-cpu"), "%s: %q", name, given.TaskQueue)
		assert.True(t, given.WaitForCancellation, "%s may go on after its run has ended", name)
		assert.True(t, given.RetryPolicy != nil && given.RetryPolicy.InitialInterval == time.Second,
			"%s: retries %+v", name, given.RetryPolicy)
	}
	for _, name := range batches {
		given, longest := seen.activities[name], 12*time.Hour
		if name == workflows.PayBatches {
			longest = 7 * 24 * time.Hour // it waits for a server that takes a day
		}
		attempts := given.RetryPolicy.MaximumAttempts
		assert.True(t, attempts >= 20 && attempts <= 50, "%s is tried %d times", name, attempts)
		assert.True(t, given.StartToCloseTimeout >= 10*time.Minute && given.StartToCloseTimeout <= longest,
			"%s may take %s", name, given.StartToCloseTimeout)
	}
	for _, name := range recordings { // an end outlasts an outage of days
		given := seen.activities[name]
		assert.True(t, given.ScheduleToCloseTimeout >= 3*24*time.Hour && given.RetryPolicy.MaximumAttempts == 0 &&
			given.RetryPolicy.MaximumInterval <= time.Minute, "%s: %+v, %+v", name, given, given.RetryPolicy)
	}
	for _, name := range []string{workflows.StageName, workflows.ShardName} {
		given, ok := seen.children[name]
		assert.True(t, ok && given.WaitForCancellation && given.ParentClosePolicy == enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
			"%s: %v, %+v", name, ok, given)
	}
}

// After a kill, a unit waits for its heartbeat's timeout and for the wait between attempts, which grows with kills.
// Promises: 110.
func TestAKillAtAnyTimeCostsLessThanHalfAMinute(t *testing.T) {
	seen := started(t)
	for name, given := range seen.activities {
		if slices.Contains(notices, name) {
			continue // no run waits for it; an attempt has half a minute
		}
		assert.Equal(t, 42*time.Second, given.HeartbeatTimeout, "%s: heartbeat", name)
		longest := given.RetryPolicy.MaximumInterval
		if slices.Contains(recordings, name) {
			continue // its attempts go on for days, and end with those of an outage of a store
		}
		assert.True(t, longest+workflows.DefaultHeartbeat <= 27*time.Second,
			"%s goes on %s after a heartbeat that is missed", name, longest)
	}
	for _, name := range quickOnes {
		given := seen.activities[name]
		assert.True(t, given.StartToCloseTimeout <= time.Minute && given.RetryPolicy.MaximumAttempts != 0,
			"%s: %s, %+v", name, given.StartToCloseTimeout, given.RetryPolicy)
	}
	if steer := seen.activities[workflows.SteerRun]; steer.ScheduleToCloseTimeout > time.Minute {
		t.Errorf("a person waits %s to hear that a command failed", steer.ScheduleToCloseTimeout)
	}
}

func TestAnAttemptMayTakeAsLongAsItsUnitIsLarge(t *testing.T) {
	limitOf := func(batch int) time.Duration {
		f := newFake(1000)
		seen := &options{
			activities: map[string]workflow.ActivityOptions{}, children: map[string]workflow.ChildWorkflowOptions{},
		}
		build := workflows.Build{Shape: workflows.Shape{BatchChunks: batch}}
		musttest.Get(run(t, f, build, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{seen}})
		}))(t)
		return seen.activities[workflows.ExtractChunks].StartToCloseTimeout
	}
	small, large := limitOf(10), limitOf(100)
	assert.True(t, large >= 5*small, "10 chunks may take %s, 100 only %s", small, large)
}

func TestARunWithoutAHeartbeatGetsOne(t *testing.T) {
	f := newFake(64)
	completes(t, f, workflows.Build{Heartbeat: -1}, nil)
	for _, unit := range f.units {
		require.Equal(t, workflows.DefaultHeartbeat, unit.Heartbeat, "heartbeat")
	}
}
