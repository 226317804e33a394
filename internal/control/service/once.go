package service

import (
	"context"
	"errors"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/workflows"
)

// nameOnce names the generation of a request that has a name; empty: it has none.
func nameOnce(request control.IndexRequest) string {
	if request.Once == "" || request.Generation != "" {
		return ""
	}
	return "once-" + core.Sum("once/1", request.Spec.Index, request.Once).Short(24)
}

// nameBuild names the generation of a build: after its request, where that has a name, else after the present.
func (s *Service) nameBuild(ctx context.Context, request control.IndexRequest) (string, error) {
	if name := nameOnce(request); name != "" {
		return name, nil
	}
	return s.nameGeneration(ctx, request.Spec.Index)
}

// findOnce finds the run that an earlier request of the same name began, as long as anything is kept of it.
func (s *Service) findOnce(ctx context.Context, request control.IndexRequest) (control.Run, error) {
	generation := nameOnce(request)
	if generation == "" {
		return control.Run{}, nil
	}
	found := control.Run{Run: request.Spec.Index + "/" + generation, Attached: true}
	if _, reported := s.runLog().FindReport(ctx, found.Run); reported {
		return found, nil
	}
	state, err := s.runLog().ReadState(ctx, found.Run)
	if err == nil && state.Report.Run != "" {
		return found, nil
	}
	latest, unread := s.recallRun(ctx, runlog.LatestBuild(request.Spec.Index))
	if err = errors.Join(err, unread); err != nil || latest != found.Run {
		return control.Run{}, err
	}
	running, err := s.isRunning(ctx, workflows.WorkflowID(found.Run), "") // the latest is noted before its start
	if err != nil || !running {
		return control.Run{}, err
	}
	return found, nil
}
