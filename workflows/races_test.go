package workflows_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/workflows"
)

// at sends a command at a time after the run's start.
func at(env *testsuite.TestWorkflowEnvironment, after time.Duration, update string, into **answer) {
	env.RegisterDelayedCallback(func() {
		if update == workflows.UpdateResume {
			*into = send(env, update, workflows.Resume{})
		} else {
			*into = send(env, update)
		}
	}, after)
}

// obeyed checks that a command was acknowledged.
func obeyed(t *testing.T, what string, a *answer) {
	t.Helper()
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
			f := newFake(64 * 20)
			activity := workflows.ExtractChunks
			if generation != "g" {
				activity = workflows.RestorePart
			}
			var pause, resume *answer
			out, err := run(t, f, workflows.Build{Generation: generation}, func(env *testsuite.TestWorkflowEnvironment) {
				slowly(f, env, activity, time.Hour)
				if c.noticed {
					f.fails(activity, "paused", 2)
				}
				env.OnActivity(workflows.SteerRun, mock.Anything, mock.Anything).Return(workflows.Stopped{}, nil).
					After(2 * time.Second)
				at(env, time.Minute, workflows.UpdatePause, &pause)
				at(env, time.Minute+c.after, workflows.UpdateResume, &resume)
			})
			require.True(t, err == nil && out.Status == "completed", "%s, %s: %+v, %v", name, generation, out, err)
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

func TestAPauseAfterAResumeThatTookOneBackCounts(t *testing.T) {
	f := newFake(64)
	var first, resume, second, last *answer
	_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f, env, workflows.ReducePartition, time.Hour)
		at(env, time.Minute, workflows.UpdatePause, &first)
		at(env, 2*time.Minute, workflows.UpdateResume, &resume)
		at(env, 3*time.Minute, workflows.UpdatePause, &second)
		env.RegisterDelayedCallback(func() {
			s := state(t, env)
			assert.True(t, s.Phase == workflows.PhasePaused && f.count(workflows.ShortenPartition) == 0, "state %+v", s)
		}, 5*time.Hour)
		at(env, 6*time.Hour, workflows.UpdateResume, &last)
	})
	require.True(t, err == nil && len(f.ended) == 2, "%v %v", err, f.ended)
	for i, a := range []*answer{first, resume, second, last} {
		obeyed(t, fmt.Sprint("command ", i), a)
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
		random := rand.New(rand.NewPCG(seed, 1))
		f := newFake(64*6, 64*3)
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
