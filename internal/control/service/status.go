package service

import (
	"context"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/workflows"
)

// ReadStatus implements Control. It says what it can: a source that cannot be read is a problem of the status, and an
// error only where nothing is left to tell. Of a run that is named with the id of its workflow's run nothing is given
// that another run of the same name left.
func (s *Service) ReadStatus(ctx context.Context, name string) (control.Status, error) {
	name, id, _ := strings.Cut(name, control.RunMark)
	run, damaged, err := s.resolveRun(ctx, name)
	if err != nil {
		return control.Status{}, err
	}
	state, stateErr := s.runLog().ReadState(ctx, run)
	if id != "" && state.RunID != "" && state.RunID != id {
		state = core.RunState{}
	}
	ended, over := state.Report, core.IsTerminal(state.Report.Status)
	if over || state.Report.Run == "" {
		if report, ok := s.runLog().FindReport(ctx, run); ok && runlog.Belongs(report, state, id) {
			ended, over = report, true
		}
	}
	if over {
		out := s.runLog().EndedRun(ctx, ended)
		out.NoteError(damaged)
		return out, nil
	}
	if stateErr != nil && !fault.Is(stateErr, fault.SegmentDamage) {
		return control.Status{}, stateErr
	}
	out, err := s.mergeLive(ctx, run, id, state)
	out.NoteError(damaged)
	out.NoteError(stateErr)
	return out, err
}

// mergeLive merges the state with the progress of batches and with what Temporal says.
func (s *Service) mergeLive(ctx context.Context, run, id string, state core.RunState) (control.Status, error) {
	out := control.Status{Report: state.Report, Stage: state.Stage, Waiting: state.Waiting}
	unbegun := state.Report.Run == ""
	workflow := state.Workflow
	if workflow == "" {
		workflow = workflows.WorkflowID(run)
	}
	response, err := s.Client.DescribeWorkflowExecution(ctx, workflow, id)
	switch {
	case err != nil && unbegun:
		return out, s.toFault(err)
	case engine.Is[*serviceerror.NotFound](err):
		out.Status, out.Reason, out.Waiting = core.StatusFailed, "gone", nil
		out.NoteError(fault.RunNotFound.At("find workflow", workflow).
			Because("Temporal no longer knows the run, and it left no report").
			Advise("paid results are kept; if this run still holds the lease of the index: " +
				"unweaver cancel " + run + " --lost"))
		return out, nil
	case err != nil:
		out.NoteError(s.toFault(err))
	case response.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		// It was ended from outside, or between its last step and our look.
		again, err := s.runLog().ReadState(ctx, run)
		if err == nil && core.IsTerminal(again.Report.Status) && (id == "" || again.RunID == id) {
			return s.runLog().EndedRun(ctx, again.Report), nil
		}
		out.SetName(run)
		out.Status, out.Waiting = core.StatusFailed, nil
		out.Reason = strings.ToLower(response.GetWorkflowExecutionInfo().GetStatus().String())
		return out, nil
	}
	if unbegun {
		out.SetName(run)
		out.Status, out.Started = core.StatusRunning, time.Now().UTC()
		if err := s.checkWorkers(ctx); err != nil {
			problem := core.Problem{Code: "no_worker", Object: s.Engine.TaskQueue, Detail: err.Error()}
			out.Problems = append(out.Problems, problem)
		}
	}
	if out.Status == core.StatusRunning {
		s.noteUnpolled(ctx, response.GetWorkflowExecutionInfo(), &out)
	}
	s.runLog().CheckControl(ctx, run, &out)
	s.runLog().AddProgress(ctx, run, state, &out)
	if s.Problems != nil {
		out.AddProblems(s.Problems(run))
	}
	return out, nil
}

// noteUnpolled names the queue of a build's computing activities where no worker takes from it: the build waits
// silently there.
func (s *Service) noteUnpolled(ctx context.Context, build *workflow.WorkflowExecutionInfo, out *control.Status) {
	if build.GetType().GetName() != workflows.BuildIndexName {
		return
	}
	queue := workflows.ComputingQueue(build.GetTaskQueue())
	polled, err := s.isPolled(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	out.NoteError(err)
	if err == nil && !polled {
		problem := core.Problem{Code: "no_worker", Object: queue, Detail: newComputersFault(queue).Error()}
		out.Problems = append(out.Problems, problem)
	}
}
