package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/workflows"
)

// settingsOf names everything that a schedule is made of but its state. It is the summary of the schedule's workflows,
// as the engine gives a cron line back as a calendar.
func settingsOf(request control.ScheduleRequest, spec core.Digest, catchup time.Duration) string {
	s := request.Schedule
	pause := ""
	if s.PauseOnFailure {
		pause = "pause"
	}
	return core.Sum("schedule/1", s.Cron, s.Timezone, s.Overlap, catchup.String(),
		time.Duration(s.Jitter).String(), pause, spec.String(), fmt.Sprint(request.Priority)).String()
}

// overlaps are the engine's policies. To skip is the night's own work: it begins, and reports who builds the index.
var overlaps = map[string]enums.ScheduleOverlapPolicy{
	"skip":         enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	"buffer_one":   enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	"buffer_all":   enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
	"cancel_other": enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
	"allow_all":    enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
}

// longestRun returns how long the longest of the last builds took.
func (s *Service) longestRun(ctx context.Context, index string) (time.Duration, error) {
	kept, err := s.runLog().ReadTrends(ctx, index, 10)
	if fault.Is(err, fault.RunNotFound) { // none has ended yet
		err = nil
	}
	longest := 0.0
	for _, night := range kept.Nights {
		longest = max(longest, night.Seconds)
	}
	return time.Duration(longest * float64(time.Second)).Round(time.Second), err
}

// checkSchedulable says why nights of an index would not begin.
func (s *Service) checkSchedulable(ctx context.Context, request control.ScheduleRequest) error {
	index := request.Spec.Index
	if err := checkSpec("schedule", request.Spec); err != nil {
		return err
	}
	_, known := overlaps[request.Schedule.Overlap]
	if request.Schedule.Cron == "" || !known {
		return fault.Usage.At("schedule", index).
			Because("it has no schedule.cron, or an unknown schedule.overlap").
			Advise("set indexes." + index + ".schedule")
	}
	if err := errors.Join(
		s.Models.Check(request.Spec), s.refuseUnowned(ctx, index), s.checkOverlay(ctx, request.Spec),
	); err != nil {
		return err
	}
	if err := s.grantCorpus(ctx, request.Spec, true); err != nil {
		return err
	}
	_, err := s.Stores.OpenCorpus(ctx, request.Spec.Corpus)
	return err
}

// ApplySchedule implements Control.
func (s *Service) ApplySchedule(ctx context.Context, request control.ScheduleRequest) (control.Applied, error) {
	index := request.Spec.Index
	out := control.Applied{Index: index}
	if err := s.checkSchedulable(ctx, request); err != nil {
		return out, err
	}
	overlap := overlaps[request.Schedule.Overlap]
	longest, err := s.longestRun(ctx, index)
	if err != nil {
		return out, err
	}
	catchup := max(time.Duration(request.Schedule.Catchup), longest)
	out.Catchup = core.Duration(catchup)
	if err := s.keepFiles(ctx, request.Spec, request.Files); err != nil {
		return out, err
	}
	digest, err := s.indexOf(index).PutSpec(ctx, request.Spec)
	if err != nil {
		return out, err
	}
	settings := settingsOf(request, digest, catchup)
	action := &client.ScheduleWorkflowAction{
		ID: workflows.ScheduleID(index), Workflow: workflows.NightlyName, TaskQueue: s.Engine.TaskQueue,
		StaticSummary: settings,
		Args: []any{workflows.Night{
			Build: s.newBuild(index, "", core.Digest{}),
			Skip:  request.Schedule.Overlap == "skip", Level: request.Priority.Level,
			Weight: float32(request.Priority.Weight),
		}},
	}
	spec := client.ScheduleSpec{
		CronExpressions: []string{request.Schedule.Cron}, TimeZoneName: request.Schedule.Timezone,
		Jitter: time.Duration(request.Schedule.Jitter),
	}
	kept, err := run.ReadSchedule(ctx, s.indexOf(index))
	if err != nil && !artifact.IsDamage(err) {
		return out, err
	}
	kept.Spec = request.Spec
	if request.Paused != nil {
		kept.Paused, kept.Note = *request.Paused, control.JoinLines(request.Note)
	}
	if kept.Schedule, err = json.Marshal(scheduleKept{request.Schedule, request.Priority}); err != nil {
		return out, err
	}
	if err := run.KeepSchedule(ctx, s.indexOf(index), kept); err != nil {
		return out, err
	}
	_, err = s.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: workflows.ScheduleID(index), Spec: spec, Action: action, Overlap: overlap, CatchupWindow: catchup,
		PauseOnFailure: request.Schedule.PauseOnFailure, Paused: kept.Paused, Note: kept.Note,
	})
	switch {
	case err == nil:
		out.Change = control.ScheduleCreated
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		handle := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index))
		out.Change = control.ScheduleUnchanged
		err = handle.Update(ctx, client.ScheduleUpdateOptions{
			DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
				next := in.Description.Schedule
				applied, ok := next.Action.(*client.ScheduleWorkflowAction)
				if ok && applied.StaticSummary == settings {
					return nil, temporal.ErrSkipScheduleUpdate
				}
				out.Change = control.ScheduleChanged
				next.Action, next.Spec = action, &spec
				next.Policy.Overlap, next.Policy.CatchupWindow = overlap, catchup
				next.Policy.PauseOnFailure = request.Schedule.PauseOnFailure
				return &client.ScheduleUpdate{Schedule: &next}, nil // a paused one stays so
			},
		})
	}
	if err != nil && !errors.Is(err, temporal.ErrSkipScheduleUpdate) {
		return out, s.newScheduleFault(index, err)
	}
	found, err := s.describeSchedule(ctx, index)
	out.Next, out.Paused = found.Next, found.Paused
	return out, err
}

// scheduleKept is what schedule.json keeps of a request beside its specification.
type scheduleKept struct {
	config.Schedule
	Priority control.Priority `json:"priority,omitzero"`
}

// restoreSchedule makes the schedule of an index again that the engine lost, paused where it was, and says what came of
// it; empty: there is nothing to do.
func (s *Service) restoreSchedule(ctx context.Context, index string) string {
	kept, err := run.ReadSchedule(ctx, s.indexOf(index))
	if fault.Is(err, fault.NotFound) {
		return ""
	}
	var was scheduleKept
	if err == nil && kept.Schedule != nil {
		err = json.Unmarshal(kept.Schedule, &was)
	}
	if err == nil {
		if _, err = s.describeSchedule(ctx, index); err == nil {
			return ""
		}
	}
	if fault.Is(err, fault.NotFound) {
		_, err = s.ApplySchedule(ctx, control.ScheduleRequest{
			Spec: kept.Spec, Schedule: was.Schedule, Priority: was.Priority,
		})
	}
	switch {
	case err != nil:
		return "not made again (unweaver schedule apply): " + err.Error()
	case kept.Paused:
		return "restored, and paused as before"
	}
	return "made again"
}

// keepPaused keeps whether a schedule is paused, for a restore.
func (s *Service) keepPaused(ctx context.Context, index string, paused bool, note string) error {
	kept, err := run.ReadSchedule(ctx, s.indexOf(index))
	if artifact.IsDamage(err) { // the next night says what to do
		return nil
	}
	if err != nil {
		return err
	}
	kept.Paused, kept.Note = paused, control.JoinLines(note)
	return run.KeepSchedule(ctx, s.indexOf(index), kept)
}

// ListSchedules implements Control. The store has a folder of an index from when its schedule is applied; the engine
// also knows schedules that an older copy of the store does not.
func (s *Service) ListSchedules(ctx context.Context) ([]control.Scheduled, error) {
	names, err := artifact.ListIndexes(ctx, s.Stores.Artifacts)
	if err != nil {
		return nil, err
	}
	listed, err := s.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 100})
	for err == nil && listed.HasNext() {
		var entry *client.ScheduleListEntry
		if entry, err = listed.Next(); err == nil && strings.HasPrefix(entry.ID, workflows.ScheduleID("")) {
			names = append(names, strings.TrimPrefix(entry.ID, workflows.ScheduleID("")))
		}
	}
	if err != nil {
		return nil, s.toFault(err)
	}
	slices.Sort(names)
	names = slices.Compact(slices.DeleteFunc(names, func(name string) bool { return !core.ValidIndex(name) }))
	out := make([]control.Scheduled, len(names))
	err = parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) (err error) {
		if out[i], err = s.describeSchedule(ctx, names[i]); fault.Is(err, fault.NotFound) {
			out[i].Index, err = "", nil
		}
		return err
	})
	return slices.DeleteFunc(out, func(one control.Scheduled) bool { return one.Index == "" }), err
}

// ReadSchedule implements Control.
func (s *Service) ReadSchedule(ctx context.Context, index string) (control.Scheduled, error) {
	if err := checkIndex(index); err != nil {
		return control.Scheduled{}, err
	}
	return s.describeSchedule(ctx, index)
}

// describeSchedule says how the schedule of an index stands.
func (s *Service) describeSchedule(ctx context.Context, index string) (control.Scheduled, error) {
	out := control.Scheduled{Index: index}
	description, err := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index)).Describe(ctx)
	if err != nil {
		return out, s.newScheduleFault(index, err)
	}
	if state := description.Schedule.State; state != nil {
		if out.Paused = state.Paused; out.Paused {
			out.Note = control.JoinLines(state.Note)
		}
	}
	if spec := description.Schedule.Spec; spec != nil {
		out.Timezone = spec.TimeZoneName
	}
	if policy := description.Schedule.Policy; policy != nil {
		out.Catchup = core.Duration(policy.CatchupWindow)
	}
	out.Missed, out.Overlapped = description.Info.NumActionsMissedCatchupWindow, description.Info.NumActionsSkippedOverlap
	if !out.Paused { // of a paused one the engine gives times that do not come
		out.Next = description.Info.NextActionTimes[:min(3, len(description.Info.NextActionTimes))]
	}
	recent := description.Info.RecentActions
	out.Nights = make([]control.NightRun, len(recent))
	err = parallel.Each(ctx, len(recent), max(1, len(recent)), func(ctx context.Context, i int) error {
		action := recent[len(recent)-1-i]
		out.Nights[i] = control.NightRun{Due: action.ScheduleTime, Begun: action.ActualTime}
		if action.StartWorkflowResult == nil {
			return nil
		}
		return s.nightOf(ctx, *action.StartWorkflowResult, &out.Nights[i])
	})
	return out, err
}

// nightOf notes what a night came to.
func (s *Service) nightOf(
	ctx context.Context, started client.ScheduleWorkflowExecution, night *control.NightRun,
) error {
	response, err := s.Client.DescribeWorkflowExecution(ctx, started.WorkflowID, started.FirstExecutionRunID)
	if engine.Is[*serviceerror.NotFound](err) {
		night.Status = "forgotten" // the engine keeps what is over for a while
		return nil
	}
	if err != nil {
		return s.toFault(err)
	}
	if response.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		night.Status = core.StatusRunning
		return nil
	}
	var outcome workflows.NightOutcome
	err = s.Client.GetWorkflow(ctx, started.WorkflowID, started.FirstExecutionRunID).Get(ctx, &outcome)
	failed, known := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case err == nil:
		night.Run, night.Status, night.Reason, night.By = outcome.Run, outcome.Status, outcome.Reason, outcome.By
	case temporal.IsCanceledError(err):
		night.Status = core.StatusCancelled
	case known:
		night.Status, night.Reason = core.StatusFailed, failed.Type()
		_ = failed.Details(&night.Run) // the run, or where its error lies; else it is reported without
	default:
		night.Status = core.StatusFailed
	}
	return nil
}

// PauseSchedule implements Control.
func (s *Service) PauseSchedule(ctx context.Context, index, note string) error {
	handle := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index))
	return s.steerNights(ctx, core.ActionPauseNights, index, note, func(string) error {
		if err := handle.Pause(ctx, client.SchedulePauseOptions{
			Note: cmp.Or(note, control.OperatorOf(ctx).By, "no reason was given"), // the engine's library has one of its own
		}); err != nil {
			return s.newScheduleFault(index, err)
		}
		return s.keepPaused(ctx, index, true, note)
	})
}

// ResumeSchedule implements Control.
func (s *Service) ResumeSchedule(ctx context.Context, index, note string) error {
	handle := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index))
	return s.steerNights(ctx, core.ActionResumeNights, index, note, func(string) error {
		if err := handle.Unpause(ctx, client.ScheduleUnpauseOptions{Note: note}); err != nil {
			return s.newScheduleFault(index, err)
		}
		return s.keepPaused(ctx, index, false, "")
	})
}

// steerNights records what is done to the schedule of an index, where there is one, or what is left of one.
func (s *Service) steerNights(ctx context.Context, action, index, note string, do func(string) error) error {
	if err := checkIndex(index); err != nil {
		return err
	}
	_, err := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index)).Describe(ctx)
	if err != nil {
		err = s.newScheduleFault(index, err)
		_, left := s.Stores.Artifacts.Stat(ctx, s.indexOf(index).ScheduleKey())
		if !fault.Is(err, fault.NotFound) || left != nil {
			return err
		}
	}
	return s.recordOperation(ctx, core.Operation{Action: action, Change: note}, index, do)
}

// TriggerSchedule implements Control.
func (s *Service) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	out := control.Triggered{Index: index}
	if _, err := s.ReadSchedule(ctx, index); err != nil {
		return out, err
	}
	open, damaged, err := s.openBuilds(ctx, index)
	if err = errors.Join(err, damaged); err != nil {
		return out, err
	}
	open = slices.DeleteFunc(open, workflows.Yields) // they let nights go first
	if len(open) > 0 {
		out.Running = open[len(open)-1]
		return out, nil
	}
	handle := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index))
	return out, s.newScheduleFault(index, handle.Trigger(ctx, client.ScheduleTriggerOptions{
		Overlap: enums.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
	}))
}

// DeleteSchedule implements Control. What a delete or an apply left that died between the engine and the store goes,
// too: else a branch of that name could not be deleted.
func (s *Service) DeleteSchedule(ctx context.Context, index string) error {
	return s.steerNights(ctx, core.ActionDeleteNights, index, "", func(string) error {
		if err := s.deleteSchedule(ctx, index); err != nil {
			return err
		}
		return run.DropSchedule(ctx, s.indexOf(index))
	})
}

// deleteSchedule deletes the schedule of an index at the engine; an absent one is no error.
func (s *Service) deleteSchedule(ctx context.Context, index string) error {
	err := s.Client.ScheduleClient().GetHandle(ctx, workflows.ScheduleID(index)).Delete(ctx)
	if err == nil || engine.Is[*serviceerror.NotFound](err) {
		return nil
	}
	return s.newScheduleFault(index, err)
}

// newScheduleFault returns the fault of an error of the engine about a schedule.
func (s *Service) newScheduleFault(index string, err error) error {
	switch {
	case engine.Is[*serviceerror.NotFound](err):
		return fault.NotFound.At("find the schedule of", fault.QuoteName(index)).
			Because("the index has no schedule").
			Advise("to list schedules: unweaver schedule list; to create it: unweaver schedule apply")
	case engine.Is[*serviceerror.InvalidArgument](err):
		return fault.BadConfig.At("schedule", index).
			Because(err).
			Advise("mend indexes." + index + ".schedule")
	}
	return s.toFault(err)
}
