package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/workflows"
)

type filling struct {
	*fake
	units int
	notes []workflows.BackfillNote
	aims  int
}

func newFilling() *filling { return &filling{fake: newFake(10), units: 3} }

func (f *filling) listNotes() (lines []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, note := range f.notes {
		lines = append(lines, strings.Join([]string{note.Status, note.Run, note.Parent, note.Why}, "|"))
	}
	return lines
}

func (f *filling) register(to registry) {
	f.fake.register(to)
	gives(f.fake, to, workflows.OpenBackfill, func(workflows.Build) workflows.Backfilled {
		return workflows.Backfilled{Units: f.units, Documents: 30}
	})
	to.RegisterActivityWithOptions(func(_ context.Context, u workflows.Unit) (workflows.UnitResult, error) {
		if u.Fence != 0 {
			return workflows.UnitResult{}, fmt.Errorf("payments have no lease, and got fence %d", u.Fence)
		}
		return workflows.UnitResult{Done: 1}, f.call(workflows.PayBackfill, u)
	}, activity.RegisterOptions{Name: workflows.PayBackfill})
	gives(f.fake, to, workflows.AimBackfill, func(workflows.Build) workflows.Aimed {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.aims++
		return workflows.Aimed{Spec: strings.Repeat("0", 64), Parent: fmt.Sprintf("g%d", f.aims)}
	})
	gives(f.fake, to, workflows.NoteBackfill, func(note workflows.BackfillNote) workflows.Receipt {
		keep(f.fake, &f.notes, note)
		return workflows.Receipt{}
	})
	gives(f.fake, to, workflows.EndBackfill, func(end workflows.End) workflows.Ended {
		keep(f.fake, &f.ended, end)
		return workflows.Ended{}
	})
}

func (f *filling) run(t *testing.T, with func(*testsuite.TestWorkflowEnvironment)) (workflows.Outcome, error) {
	env := environment(f, with)
	env.ExecuteWorkflow(workflows.BackfillName, workflows.Build{
		Index: "docs", Generation: "backfill-old-1", Spec: strings.Repeat("0", 64), Backfill: "old",
		Heartbeat: 1000 * time.Hour, Shape: workflows.DefaultShape(),
	})
	require.True(t, env.IsWorkflowCompleted(), "the backfill did not end")
	return result[workflows.Outcome](env)
}

func TestABackfillPaysUnitByUnitAndThenPublishes(t *testing.T) {
	f := newFilling()
	out, err := f.run(t, nil)
	assert.True(t, err == nil && out.Status == "completed" && f.count(workflows.PayBackfill) == 3 &&
		f.count(workflows.TakeLease) == 1, "%+v, %v: %v", out, err, f.calls)
	assert.True(t, f.last(workflows.PayBackfill) <= f.first(workflows.TakeLease),
		"it took the lease before everything was paid for: %v", f.calls)
	want := []string{"paying|||", "publishing|docs/backfill-old-1-1|g1|"}
	reported := f.listNotes()
	assert.True(t, slices.Equal(reported, want), "%q, want %q", reported, want)
}

func TestABackfillOfNothingPublishesNothing(t *testing.T) {
	f := newFilling()
	f.units = 0
	out, err := f.run(t, nil)
	assert.True(t, err == nil && out.Status == "completed" && f.count(workflows.TakeLease) == 0 && f.lastEnd().Unchanged,
		"%+v, %v: %v", out, err, f.calls)
}

// A build whose pointer moved, or that another build of the index was faster than, is followed by another one on what
// is served by then; payments are not repeated.
// Promises: 45.
func TestABackfillFollowsThePointer(t *testing.T) {
	f := newFilling()
	f.fail[workflows.TakeLease] = []error{fatal("lease_held")}
	f.outcome = workflows.Outcome{Status: "held", Reason: "pointer_moved"}
	f.before = func(call string) {
		if call == workflows.AimBackfill {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.aims == 3 {
				f.outcome = workflows.Outcome{Status: "completed"}
			}
		}
	}
	out, err := f.run(t, nil)
	assert.True(t, err == nil && out.Status == "completed" && f.count(workflows.PayBackfill) == 3, "%+v, %v", out, err)
	want := []string{
		"paying|||", "publishing|docs/backfill-old-1-1|g1|", "publishing|||lease_held",
		"publishing|docs/backfill-old-1-2|g2|", "publishing|||pointer_moved", "publishing|docs/backfill-old-1-3|g3|",
	}
	reported := f.listNotes()
	assert.True(t, slices.Equal(reported, want), "%q, want %q", reported, want)
}

// A gate that holds its build, and a failure of it, are the backfill's.
func TestABackfillEndsAsItsBuildDoes(t *testing.T) {
	held := newFilling()
	held.outcome = workflows.Outcome{Status: "held", Reason: "recall"}
	out, err := held.run(t, nil)
	assert.True(t, err == nil && out.Status == "held" && out.Reason == "recall" && held.count(workflows.TakeLease) == 1,
		"%+v, %v", out, err)
	failed := newFilling()
	failed.fail[workflows.PlanBuild] = []error{fatal("plan_moved")}
	out, err = failed.run(t, nil)
	assert.True(t, err == nil && out.Status == "failed" && out.Reason == "plan_moved", "%+v, %v", out, err)
}

// A pause while it is published ends its build, which holds the lease, and nothing of it is asked any more; resumed,
// another build follows, and payments are not repeated.
// Promises: 45.
func TestAPausedBackfillHoldsNoLease(t *testing.T) {
	f := newFilling()
	var pause *answer
	out, err := f.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f.fake, env, workflows.VerifyPart, time.Hour)
		env.RegisterDelayedCallback(func() { pause = send(env, workflows.UpdatePause) }, time.Minute)
		env.RegisterDelayedCallback(func() {
			end := f.lastEnd()
			assert.True(t, end.Status == "paused" && end.Generation == "backfill-old-1", "%+v", end)
			assert.True(t, f.count(workflows.AimBackfill) == 1 && f.count(workflows.EndBuild) == 1, "%v", f.calls)
		}, 10*time.Hour)
		resumeAt(t, env, 11*time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && out.Status == "completed" && pause.completed && f.count(workflows.PayBackfill) == 3,
		"%v %v %v %v", out, err, pause, f.calls)
	var steered []string
	for _, s := range f.steered {
		steered = append(steered, s.Generation+" "+s.Command)
	}
	want := []string{"backfill-old-1 pause", "backfill-old-1-1 cancel", "backfill-old-1 resume"}
	assert.True(t, slices.Equal(steered, want), "written down: %q, want %q", steered, want)
	notes := []string{
		"paying|||", "publishing|docs/backfill-old-1-1|g1|", "publishing|||paused", "publishing|docs/backfill-old-1-2|g2|",
	}
	reported := f.listNotes()
	assert.True(t, slices.Equal(reported, notes), "%q, want %q", reported, notes)
}

// A build that needs the lease ends the one that has it for a backfill; another one follows.
// Promises: 45.
func TestABuildOfABackfillYields(t *testing.T) {
	f := newFilling()
	out, err := f.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f.fake, env, workflows.VerifyPart, time.Hour)
		env.RegisterDelayedCallback(func() {
			env.CancelWorkflowByID(workflows.BuildID("docs", "backfill-old-1-1"), "")
		}, time.Minute)
	})
	require.True(t, err == nil && out.Status == "completed" && f.count(workflows.PayBackfill) == 3, "%v %v", out, err)
	want := []string{
		"paying|||", "publishing|docs/backfill-old-1-1|g1|", "publishing|||yielded", "publishing|docs/backfill-old-1-2|g2|",
	}
	reported := f.listNotes()
	assert.True(t, slices.Equal(reported, want), "%q, want %q", reported, want)
}

// Cancelled in the middle of its payments, and while it is published, a backfill ends cancelled, and its build with it.
func TestACancelledBackfillPublishesNothing(t *testing.T) {
	for _, slow := range []string{workflows.PayBackfill, workflows.VerifyPart} {
		f := newFilling()
		_, err := f.run(t, func(env *testsuite.TestWorkflowEnvironment) {
			slowly(f.fake, env, slow, time.Hour)
			env.RegisterDelayedCallback(func() { send(env, workflows.UpdateCancel) }, time.Minute)
		})
		assert.True(t, temporal.IsCanceledError(err) && f.count(workflows.PublishBuild) == 0 &&
			f.lastEnd().Status == "cancelled" && f.lastEnd().Generation == "backfill-old-1", "%s: %v, %+v", slow, err,
			f.lastEnd())
	}
}
