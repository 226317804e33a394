package service

import (
	"context"
	"crypto/rand"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/workflows"
)

// RestoreIndex implements Control. An index is restored once at a time; a damaged pointer does not keep it from being.
func (s *Service) RestoreIndex(ctx context.Context, index string) (control.Run, error) {
	if _, err := s.ListGenerations(ctx, index); err != nil {
		_, _, pointer := s.indexOf(index).ReadPointer(ctx) // a restore writes it again
		if !fault.Is(err, fault.SegmentDamage) || !fault.Is(pointer, fault.SegmentDamage) {
			return control.Run{}, err
		}
	}
	if err := run.RefuseDeleted(ctx, s.indexOf(index)); err != nil {
		return control.Run{}, err
	}
	build := s.newSingleBuild(index, workflows.RestoreGeneration)
	var work control.Run
	err := s.recordCommand(ctx, core.ActionRestore, build.Index+"/"+build.Generation, "", func() (err error) {
		work, err = s.startAlone(ctx, "restore", workflows.RestoreName, runlog.LatestRestore(index), build, build)
		return err
	})
	if err == nil {
		work.Schedule, work.NoCorpus = s.restoreSchedule(ctx, index), s.whyNoCorpus(ctx, index)
	}
	return work, err
}

// whyNoCorpus says why the corpus of what is published cannot be read; empty: it can, or is not known, as that of
// builds on an image is not. A restore needs none, the next build does.
func (s *Service) whyNoCorpus(ctx context.Context, index string) string {
	manifest, err := s.readPublished(ctx, index, "find the corpus")
	if err != nil {
		return ""
	}
	spec, err := s.indexOf(index).Spec(ctx, manifest.Spec)
	if err != nil || spec.Corpus == "" || spec.Pulled {
		return ""
	}
	if _, err = s.Stores.OpenCorpus(ctx, spec.Corpus); err != nil {
		return err.Error()
	}
	return ""
}

// AuditIndex implements Control. An index is audited once at a time.
func (s *Service) AuditIndex(ctx context.Context, request control.AuditRequest) (control.Run, error) {
	if request.Sample == (core.Sample{}) {
		request.Sample = core.Everything
	}
	if !request.Sample.IsValid() {
		return control.Run{}, fault.InvalidParam.At("audit", fault.QuoteName(request.Index)).
			Because("sample " + request.Sample.String() + " is not a part n/t").
			Advise("give n/t, with n from 1 to t")
	}
	if _, err := s.ListGenerations(ctx, request.Index); err != nil {
		return control.Run{}, err
	}
	build := s.newSingleBuild(request.Index, workflows.AuditGeneration)
	input := workflows.Audited{
		Build: build, Part: request.Sample.Part, Of: request.Sample.Of, Repair: request.Repair,
	}
	return s.startAlone(ctx, "audit", workflows.AuditName, runlog.LatestAudit(request.Index), build, input)
}

// newSingleBuild names a run that an index has one of at a time, after the present.
func (s *Service) newSingleBuild(index, prefix string) workflows.Build {
	return s.newBuild(index, prefix+newStamp()+"-"+strings.ToLower(rand.Text()[:6]), core.Digest{})
}

// startAlone starts such a run, unless one of its kind goes on, and remembers it under latest.
func (s *Service) startAlone(
	ctx context.Context, kind, workflow, latest string, build workflows.Build, input any,
) (control.Run, error) {
	work := build.Index + "/" + build.Generation
	options := client.StartWorkflowOptions{
		ID:                                       workflows.WorkflowID(work),
		TaskQueue:                                s.Engine.TaskQueue,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Priority:                                 priorityOf(build.Index, control.Priority{}),
	}
	start := func() error {
		_, err := s.Client.ExecuteWorkflow(ctx, options, workflow, input)
		return err
	}
	err := start()
	if engine.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		other, _ := s.recallRun(ctx, latest) // for the hint alone
		if other == "" {
			other = work
		}
		if s.hasEnded(ctx, other) { // only its end is left
			err = start()
		}
		if engine.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
			return control.Run{}, fault.LeaseHeld.At(kind, build.Index).
				Because("another " + kind + " of it is already running").
				Advise("to see it: unweaver status " + other + "; to end it: unweaver cancel " + other)
		}
	}
	if err != nil {
		return control.Run{}, s.toFault(err)
	}
	return control.Run{Run: work}, s.Stores.Coordination.SetState(ctx, latest, []byte(work))
}

// hasEnded returns whether a run that wrote its report has ended by now. It waits for the end, which is a moment away.
func (s *Service) hasEnded(ctx context.Context, work string) bool {
	status, err := s.ReadStatus(ctx, work)
	if err != nil || !core.IsTerminal(status.Status) {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	over, err := s.awaitEnd(bounded, work)
	return over && err == nil
}
