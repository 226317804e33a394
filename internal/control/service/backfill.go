package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// longestBackfillName leaves room for a time and a number in the names of its builds.
const longestBackfillName = 32

func checkBackfill(index, name string) error {
	if !core.ValidSlug(name) || len(name) > longestBackfillName {
		return fault.InvalidParam.At("name backfill", fault.QuoteName(name)).
			Because("letters a-z, digits and hyphens, at most 32, no hyphen first")
	}
	return checkIndex(index)
}

// StartBackfill implements Control. It takes the configuration of the generation that is served, as retry-failed does:
// with another one everything would be made again.
func (s *Service) StartBackfill(ctx context.Context, r control.BackfillRequest) (control.BackfillStarted, error) {
	out := control.BackfillStarted{Index: r.Index, Name: r.Name}
	if err := checkBackfill(r.Index, r.Name); err != nil {
		return out, err
	}
	manifest, err := s.readPublished(ctx, r.Index, "backfill")
	if err != nil {
		return out, err
	}
	before, err := run.ReadBackfill(ctx, s.indexOf(r.Index), r.Name)
	switch {
	case err == nil:
		out.Again = true
	case !fault.Is(err, fault.NotFound):
		return out, err
	case r.Choice.IsZero():
		return out, err
	}
	if r.Choice.IsZero() {
		r.Choice = before.Choice
		if r.Throttle == (core.BackfillThrottle{}) {
			r.Throttle = before.Throttle
		}
	}
	r.Choice.Documents = slices.Compact(slices.Sorted(slices.Values(r.Choice.Documents)))
	for _, mistake := range []string{r.Choice.FindMistake(), r.Throttle.FindMistake()} {
		if mistake != "" {
			return out, fault.Usage.At("begin backfill", r.Name).
				Because(mistake).
				Advise("give --prefix, --from, --to or --documents; for help: unweaver backfill start --help")
		}
	}
	running, err := s.isRunning(ctx, workflows.BackfillID(r.Index, r.Name), "")
	if err != nil {
		return out, err
	}
	if running {
		return s.joinBackfill(out, before, r)
	}
	spec, err := s.indexOf(r.Index).Spec(ctx, manifest.Spec)
	if err != nil {
		return out, err
	}
	if err := cmp.Or(run.RefuseImageSpec(spec), s.Models.Check(spec)); err != nil {
		return out, err
	}
	err = s.recordCommand(ctx, core.ActionBackfill, workflows.BackfillRun(r.Index, r.Name), "", func() error {
		return s.beginBackfill(ctx, r, manifest.Spec)
	})
	if engine.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err) { // another operator was faster
		out.Attached = true
		return out, nil
	}
	return out, err
}

// joinBackfill returns the answer to a second start of a backfill that runs; a fault, where it asks for something else.
func (s *Service) joinBackfill(
	out control.BackfillStarted, before core.Backfill, r control.BackfillRequest,
) (control.BackfillStarted, error) {
	out.Attached, out.Again = true, false
	if before.Choice.Equal(r.Choice) && before.Throttle == r.Throttle {
		return out, nil
	}
	return out, fault.LeaseHeld.At("begin backfill", r.Name).
		Because("a backfill of this name is running with other conditions or throttle").
		Advise("choose another name; or cancel it: unweaver backfill cancel " + r.Index + " " + r.Name +
			", then start it again: paid results are kept")
}

func (s *Service) beginBackfill(ctx context.Context, r control.BackfillRequest, spec core.Digest) error {
	generation := workflows.BackfillGeneration + r.Name + "-" + newStamp()
	kept := core.Backfill{
		Index: r.Index, Name: r.Name, Run: r.Index + "/" + generation, Choice: r.Choice, Throttle: r.Throttle,
		Started: time.Now().UTC(), Operator: control.OperatorOf(ctx),
	}
	if err := upkeep.KeepBackfill(ctx, s.indexOf(r.Index), kept); err != nil {
		return err
	}
	build := s.newBuild(r.Index, generation, spec)
	build.Backfill, build.Shape.BatchChunks = r.Name, r.Throttle.Batch()
	build.Shape.ShardChunks = build.Shape.BatchChunks // units are not cut into shards
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       workflows.BackfillID(r.Index, r.Name),
		TaskQueue:                                s.Engine.TaskQueue,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Priority:                                 priorityOf(r.Index, control.Priority{Level: workflows.BackfillLevel}),
	}, workflows.BackfillName, build)
	if err == nil || engine.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return err
	}
	// Else nights would leave to it what it chose. Where the engine took it all the same, it writes how it stands.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordPatience)
	defer cancel()
	ended := upkeep.EndAbsentBackfill(
		bounded, s.indexOf(r.Index), r.Name, core.StatusFailed, "the engine did not take it",
	)
	return errors.Join(s.toFault(err), ended)
}

// ListBackfills implements Control.
func (s *Service) ListBackfills(ctx context.Context, r control.BackfillNamed) ([]core.Backfill, error) {
	if err := checkBackfill(r.Index, cmp.Or(r.Name, "any")); err != nil {
		return nil, err
	}
	var err error
	all := make([]core.Backfill, 1)
	if r.Name != "" {
		all[0], err = run.ReadBackfill(ctx, s.indexOf(r.Index), r.Name)
	} else if all, err = run.ReadBackfills(ctx, s.indexOf(r.Index)); err == nil && len(all) == 0 {
		err = s.checkKnown(ctx, r.Index, "list the backfills")
	}
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := s.completeBackfill(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// completeBackfill completes what the stores tell of a backfill.
func (s *Service) completeBackfill(ctx context.Context, one *core.Backfill) error {
	one.FillEstimates()
	if n := len(one.Builds); n > 0 {
		work := one.Builds[n-1].Run
		if report, ok := s.runLog().FindReport(ctx, work); ok {
			one.PublishedCalls = report.Calls
		} else if state, err := s.runLog().ReadState(ctx, work); err == nil {
			one.PublishedCalls = state.Report.Calls
		}
	}
	if core.IsTerminal(one.Status) {
		return nil
	}
	runs, err := s.isRunning(ctx, workflows.BackfillID(one.Index, one.Name), "")
	if err != nil || runs {
		return err
	}
	again, err := run.ReadBackfill(ctx, s.indexOf(one.Index), one.Name)
	if err != nil {
		return err
	}
	if one.BackfillState = again.BackfillState; !core.IsTerminal(one.Status) { // it was ended from outside
		one.Status, one.Code = core.StatusFailed, "gone"
		one.Detail = "Temporal does not run it, and it has recorded no end; resume it: paid results are kept"
	}
	return nil
}

// PauseBackfill implements Control.
func (s *Service) PauseBackfill(ctx context.Context, r control.BackfillNamed) error {
	return s.steerBackfill(ctx, r, core.ActionPause, workflows.UpdatePause)
}

// ResumeBackfill implements Control.
func (s *Service) ResumeBackfill(ctx context.Context, r control.BackfillNamed) error {
	if err := checkBackfill(r.Index, r.Name); err != nil {
		return err
	}
	running, err := s.isRunning(ctx, workflows.BackfillID(r.Index, r.Name), "")
	if err != nil {
		return err
	}
	if running {
		return s.steerBackfill(ctx, r, core.ActionResume, workflows.UpdateResume,
			workflows.Resume{Budget: (*workflows.Budget)(r.Budget)})
	}
	before, err := run.ReadBackfill(ctx, s.indexOf(r.Index), r.Name)
	if err != nil {
		return err
	}
	if before.Status == core.StatusCompleted || before.Status == core.StatusErrors {
		return fault.RunEnded.At("resume backfill", r.Name).
			Because("it is " + strings.ReplaceAll(before.Status, "_", " ")).
			Advise("what its choice has had since: unweaver backfill start " + r.Index + " " + r.Name)
	}
	_, err = s.StartBackfill(ctx, control.BackfillRequest{Index: r.Index, Name: r.Name})
	return err
}

// CancelBackfill implements Control.
func (s *Service) CancelBackfill(ctx context.Context, r control.BackfillNamed) error {
	return s.steerBackfill(ctx, r, core.ActionCancel, workflows.UpdateCancel)
}

func (s *Service) steerBackfill(
	ctx context.Context, r control.BackfillNamed, action, update string, args ...any,
) error {
	if err := checkBackfill(r.Index, r.Name); err != nil {
		return err
	}
	before, err := run.ReadBackfill(ctx, s.indexOf(r.Index), r.Name)
	if err != nil {
		return err
	}
	running, err := s.isRunning(ctx, workflows.BackfillID(r.Index, r.Name), "")
	if err != nil {
		return err
	}
	work := workflows.BackfillRun(r.Index, r.Name)
	switch absent := !running && !core.IsTerminal(before.Status); {
	case absent && action == core.ActionCancel:
		return s.recordCommand(ctx, action, work, "", func() error {
			return upkeep.EndAbsentBackfill(ctx, s.indexOf(r.Index), r.Name, core.StatusCancelled,
				"the engine did not run it")
		})
	case absent:
		return fault.RunEnded.At(update+" backfill", r.Name).
			Because("Temporal does not run it, and it has recorded no end").
			Advise("to continue or to end it: unweaver backfill resume, or cancel, " + r.Index + " " + r.Name)
	case !running:
		return fault.RunEnded.At(update+" backfill", r.Name).
			Because("it has ended: " + before.Status).
			Advise("to see its result: unweaver backfill status " + r.Index + " " + r.Name)
	}
	return s.recordCommand(ctx, action, work, "", func() error { return s.sendCommand(ctx, work, update, nil, args...) })
}
