package ops

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// Status implements Control. It tells what it can: a source that cannot be read is a problem of the status, and an
// error only where nothing is left to tell. Of a run that is named with the id of its workflow's run nothing is told
// that another run of the same name left.
func (s *Service) Status(ctx context.Context, name string) (Status, error) {
	name, id, _ := strings.Cut(name, runMark)
	run, damaged, err := s.resolve(ctx, name)
	if err != nil {
		return Status{}, err
	}
	state, stateErr := s.state(ctx, run)
	if id != "" && state.RunID != "" && state.RunID != id {
		state = corpus.RunState{}
	}
	over := corpus.Terminal(state.Report.Status)
	if over || state.Report.Run == "" {
		report, ok := s.report(ctx, run)
		if ok && belongs(report, state, id) {
			return ended(report, damaged), nil
		}
	}
	if over {
		return ended(state.Report, damaged), nil
	}
	if stateErr != nil && !fault.Is(stateErr, fault.SegmentDamage) {
		return Status{}, stateErr
	}
	out, err := s.live(ctx, run, id, state)
	out.note(damaged)
	out.note(stateErr)
	return out, err
}

// belongs tells whether a report is of the run that is asked about: that of the id, else that of the state. Reports of
// a release before this one do not tell.
func belongs(report corpus.Report, state corpus.RunState, id string) bool {
	if id == "" {
		id = state.RunID
	}
	if report.RunID == "" { // its run is the one that the state is of
		return state.RunID == id
	}
	return id == "" || report.RunID == id
}

// report of a run that ended.
func (s *Service) report(ctx context.Context, run string) (corpus.Report, bool) {
	index, generation, _ := strings.Cut(run, "/")
	var report corpus.Report
	key := s.artifacts(index).GenerationKey(generation, "report.json")
	_, err := blob.ReadJSON(ctx, s.Stores.Artifacts, key, &report)
	return report, err == nil && corpus.Terminal(report.Status)
}

func ended(report corpus.Report, damaged error) Status {
	out := Status{Report: report, Overall: 1}
	out.note(damaged)
	return out
}

// note shows an error as a problem: which object, why, and what to do.
func (s *Status) note(err error) {
	if err == nil {
		return
	}
	problem := corpus.Problem{Code: string(fault.CodeOf(err)), Detail: err.Error()}
	if e := fault.As(err); e != nil {
		problem.Object = e.Object
	}
	s.Problems = append(s.Problems, problem)
}

// live merges the state with the progress of batches and with what Temporal says.
func (s *Service) live(ctx context.Context, run, id string, state corpus.RunState) (Status, error) {
	out := Status{Report: state.Report, Stage: state.Stage, Waiting: state.Waiting}
	unbegun := state.Report.Run == ""
	workflow := state.Workflow
	if workflow == "" {
		workflow = workflows.WorkflowID(run)
	}
	response, err := s.Client.DescribeWorkflowExecution(ctx, workflow, id)
	var unknown *serviceerror.NotFound
	switch {
	case err != nil && unbegun:
		return out, s.fault(err)
	case errors.As(err, &unknown):
		out.Status, out.Reason, out.Waiting = corpus.StatusFailed, "gone", nil
		out.note(fault.RunNotFound.At("find workflow", workflow).
			Because("Temporal does not know it any more, and it left no report").
			Advise("what was paid for is kept; if the index cannot be built because this run holds its lease: " +
				"unweaver cancel " + run + " --lost"))
		return out, nil
	case err != nil:
		out.note(s.fault(err))
	case response.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		// It was ended from outside, or between its last step and our look.
		again, err := s.state(ctx, run)
		if err == nil && corpus.Terminal(again.Report.Status) && (id == "" || again.RunID == id) {
			return ended(again.Report, nil), nil
		}
		out.name(run)
		out.Status, out.Waiting = corpus.StatusFailed, nil
		out.Reason = strings.ToLower(response.GetWorkflowExecutionInfo().GetStatus().String())
		return out, nil
	}
	if unbegun {
		out.name(run)
		out.Status, out.Started = corpus.StatusRunning, time.Now().UTC()
		if err := s.workers(ctx); err != nil {
			problem := corpus.Problem{Code: "no_worker", Object: s.Engine.TaskQueue, Detail: err.Error()}
			out.Problems = append(out.Problems, problem)
		}
	}
	s.control(ctx, run, &out)
	s.progress(ctx, run, state, &out)
	return out, nil
}

// name fills in what the name of a run tells.
func (s *Status) name(run string) {
	s.Run = run
	s.Index, s.Generation, _ = strings.Cut(run, "/")
}

// control notes a control record that the activities of the run cannot read.
func (s *Service) control(ctx context.Context, run string, out *Status) {
	raw, err := s.Stores.Coordination.Control(ctx, run)
	if err == nil && raw != nil && !json.Valid(raw) {
		err = fault.SegmentDamage.At("read the control record of run", run).
			Because("it is no valid JSON").
			Advise("pause or resume the run: that writes it anew")
	}
	out.note(err)
}

// progress adds what the processes that work on the run wrote, and how far that is.
func (s *Service) progress(ctx context.Context, run string, state corpus.RunState, out *Status) {
	problems, err := s.Stores.Coordination.Problems(ctx, run)
	out.note(err)
	out.show(problems)
	if s.Problems != nil {
		out.add(s.Problems(run))
	}
	total, err := build.Totals(ctx, s.Stores.Coordination, run)
	if err != nil {
		out.note(err)
		return
	}
	done := out.take(total, state.Stage)
	now := time.Now().UTC()
	out.Seconds = now.Sub(out.Started).Seconds()
	if state.Stage == "" {
		return
	}
	seconds := now.Sub(state.StageAt).Seconds()
	out.Stages = append(
		out.Stages,
		corpus.StageProgress{Name: state.Stage, Done: min(done, state.Total), Total: state.Total, Seconds: seconds},
	)
	if seconds > 0 {
		out.Rate = float64(done) / seconds
	}
	out.Overall, out.ETASeconds = state.Overall(done, now)
}
