package activities

import (
	"context"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

const stageBackfill = "backfill"

// ofPayments is the frame of the payments of a backfill, which have no lease.
func ofPayments(unit bool, bad error) frame {
	return frame{stageBackfill, upkeep.BackfillFolder, true, unit, bad}
}

// OpenBackfill finds what a backfill has to pay for.
func (a *Activities) OpenBackfill(ctx context.Context, b workflows.Build) (workflows.Backfilled, error) {
	opened, err := makeIn(ctx, a, b, ofPayments(true, nil),
		func(ctx context.Context, work *upkeep.Run) (upkeep.OpenedBackfill, error) {
			return work.OpenBackfill(ctx)
		})
	return workflows.Backfilled(opened), err
}

// PayBackfill pays for the chunks of one unit.
func (a *Activities) PayBackfill(ctx context.Context, u workflows.Unit) (workflows.UnitResult, error) {
	pay := func(ctx context.Context, work *upkeep.Run) error {
		return work.PayBackfill(ctx, u.N, a.newBuildFinder(work))
	}
	return workflows.UnitResult{Done: 1}, a.runFrame(ctx, u.Build, ofPayments(true, checkUnit(u)), pay)
}

// AimBackfill waits until no run builds the index, and returns what is served then.
func (a *Activities) AimBackfill(ctx context.Context, b workflows.Build) (workflows.Aimed, error) {
	aim, err := makeIn(ctx, a, b, ofPayments(true, nil), func(ctx context.Context, work *upkeep.Run) (upkeep.Aim, error) {
		return work.AimBackfill(ctx, func(ctx context.Context) (string, error) {
			name, err := run.FindBuilder(ctx, work.Index, a.Engine.DescribeRun)
			if err != nil || name != "" {
				return name, err
			}
			return a.findNewestBuild(ctx, work)
		})
	})
	return workflows.Aimed{Spec: aim.Spec.String(), Parent: aim.Parent}, err
}

// newBuildFinder names the build of the index that goes on, for who lets it go first. One that publishes a backfill
// does not go first, and one that is paused needs nothing.
func (a *Activities) newBuildFinder(work *upkeep.Run) upkeep.Going {
	return func(ctx context.Context) (string, error) {
		name, err := run.FindBuilder(ctx, work.Index, a.Engine.DescribeRun)
		if err == nil && (name == "" || workflows.ForBackfill(name)) {
			name, err = a.findNewestBuild(ctx, work)
		}
		if err != nil || name == "" {
			return "", err
		}
		state, err := run.ReadState(ctx, work.Coordination, name)
		if err == nil && state != nil && state.Report.Status == core.StatusPaused {
			return "", nil
		}
		return name, err
	}
}

// findNewestBuild names the build of the index that was begun last, where it goes on: it may not have the lease yet.
func (a *Activities) findNewestBuild(ctx context.Context, work *upkeep.Run) (string, error) {
	raw, err := work.Coordination.ReadState(ctx, runlog.LatestBuild(work.Index.Name))
	index, generation, _ := strings.Cut(string(raw), "/")
	if err != nil || index != work.Index.Name || !core.ValidSlug(generation) {
		return "", err
	}
	standing, err := a.Engine.DescribeRun(ctx, run.Holder{Workflow: workflows.BuildID(index, generation)})
	if err != nil || standing != run.StandingOpen {
		return "", err
	}
	return string(raw), nil
}

// NoteBackfill writes down how a backfill stands.
func (a *Activities) NoteBackfill(ctx context.Context, note workflows.BackfillNote) (workflows.Receipt, error) {
	err := a.runFrame(ctx, note.Build, ofPayments(false, nil), func(ctx context.Context, work *upkeep.Run) error {
		return work.NoteBackfill(ctx, func(state *core.BackfillState) {
			state.Status, state.Code, state.Detail = note.Status, "", ""
			last := len(state.Builds) - 1
			switch {
			case note.Why != "" && last >= 0:
				state.Builds[last].Why = note.Why
			case note.Run != "" && (last < 0 || state.Builds[last].Run != note.Run): // it may be repeated
				state.Builds = append(state.Builds, core.BackfillBuild{Run: note.Run, Parent: note.Parent})
			}
		})
	})
	return workflows.Receipt{}, err
}

// EndBackfill records how a backfill ends, or that it pauses or waits.
func (a *Activities) EndBackfill(ctx context.Context, end workflows.End) (workflows.Ended, error) {
	return workflows.Ended{}, a.runFrame(ctx, end.Build, ofPayments(false, checkEnd(end)),
		func(ctx context.Context, work *upkeep.Run) error { return work.EndBackfill(ctx, toEnding(end)) })
}

// Times of preempt.
const (
	preemptLooks    = 500 * time.Millisecond
	preemptPatience = 20 * time.Minute // less than an attempt at TakeLease has
)

// takeLease takes the lease. Where a build has it that yields, another build ends that, and takes it then.
func (a *Activities) takeLease(ctx context.Context, work *upkeep.Run, taker run.Holder) (int64, error) {
	for begun := time.Now(); ; {
		if err := a.preemptYielding(ctx, work); err != nil {
			return 0, err
		}
		fence, err := run.TakeLease(ctx, work.Index, taker, a.Engine.DescribeRun)
		// The next build that yields may have been faster, once: it looks who builds the index before it begins.
		if !fault.Is(err, fault.LeaseHeld) || a.findYielding(ctx, work) == nil || time.Since(begun) > preemptPatience {
			return fence, err
		}
	}
}

// findYielding returns the build that has the lease, goes on and yields it, where another run needs it; else nil.
// What is wrong with the lease, or with the engine, is reported by the run that takes the lease.
func (a *Activities) findYielding(ctx context.Context, work *upkeep.Run) *run.Holder {
	lease, _, err := run.ReadLease(ctx, work.Index)
	_, name, _ := strings.Cut(lease.Workflow, "/")
	if err != nil || !workflows.Yields(name) || workflows.Yields(work.Name()) {
		return nil
	}
	holder := run.Holder{Workflow: lease.Workflow, Run: lease.Run, Engine: lease.Engine}
	if standing, err := a.Engine.DescribeRun(ctx, holder); err != nil || standing != run.StandingOpen {
		return nil
	}
	return &holder
}

// preemptYielding ends the build that has the lease and yields it, and waits for its end: what it paid for is kept, and
// the backfill or the hints that it was for begin another build once the lease is free.
func (a *Activities) preemptYielding(ctx context.Context, work *upkeep.Run) error {
	before := a.findYielding(ctx, work)
	if before == nil {
		return nil
	}
	_, name, _ := strings.Cut(before.Workflow, "/")
	reported := false
	for begun := time.Now(); time.Since(begun) < preemptPatience; {
		standing, err := a.Engine.DescribeRun(ctx, *before)
		if err != nil || standing != run.StandingOpen {
			return err
		}
		if !reported {
			a.Log.Info("a build stops for another run", "run_id", name, "to", work.Name())
			if _, err := run.Steer(ctx, work.Coordination, name, run.CommandCancel, nil); err != nil &&
				!fault.Is(err, fault.ControlUnreadable) {
				return err
			}
			if err := a.Engine.Cancel(ctx, *before); err != nil {
				return err
			}
			reported = true
		}
		work.Progress.Touch()
		if retry.Wait(ctx, preemptLooks) != nil {
			return context.Cause(ctx)
		}
	}
	return fault.GenBusy.At("take the lease of", work.Index.Name).
		Because("run " + name + " yields to other builds and did not stop when asked").
		Advise("check that a worker runs: unweaver status " + name)
}
