package service

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/workflows"
)

// startPatience is how long a start may hold others of its index up: it waits for builds that end.
const startPatience = 3 * endPatience

// claimStart waits until no other process starts a build of the index: each would find that none runs.
func (s *Service) claimStart(ctx context.Context, index string) (release func(), err error) {
	key, owner := "start/"+index, rand.Text()
	for {
		claimed, err := s.Stores.Coordination.Claim(ctx, key, owner, startPatience)
		if err != nil {
			return nil, err
		}
		if claimed {
			break
		}
		if err := retry.Wait(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return func() { // else it ends by itself
		_ = s.Stores.Coordination.Release(context.WithoutCancel(ctx), key, owner)
	}, nil
}

// nameOnce names the generation of a request that has a name, after its options too; empty: it has none.
func nameOnce(request control.IndexRequest) string {
	if request.Once == "" || request.Generation != "" {
		return ""
	}
	name := "once-" + core.Sum("once/1", request.Spec.Index, request.Once).Short(24)
	if request.Rebuild {
		name += "-r"
	}
	if request.ReplaceCorpus {
		name += "-c"
	}
	return name
}

// findOnce finds the run that an earlier request of the same name began, as long as anything is kept of it. One that
// had other options is an error.
func (s *Service) findOnce(ctx context.Context, request control.IndexRequest) (control.Run, error) {
	wanted := nameOnce(request)
	if wanted == "" {
		return control.Run{}, nil
	}
	for variant := range 4 {
		earlier := request
		earlier.Rebuild, earlier.ReplaceCorpus = variant&1 != 0, variant&2 != 0
		found, err := s.findBegun(ctx, request.Spec.Index, nameOnce(earlier))
		if err != nil || found.Run == request.Spec.Index+"/"+wanted {
			return found, err
		}
		if found.Run != "" {
			return control.Run{}, fault.InvalidParam.At("start a build of "+request.Spec.Index, "Idempotency-Key").
				Because("a request with other options had it, and began run " + found.Run).
				Advise("send the options of that request, or a new Idempotency-Key")
		}
	}
	return control.Run{}, nil
}

// findBegun finds the run of a request by its generation. One that ended because another run held the lease did
// nothing: it does not count.
func (s *Service) findBegun(ctx context.Context, index, generation string) (control.Run, error) {
	found := control.Run{Run: index + "/" + generation, Attached: true}
	report, err := s.runLog().ReadReport(ctx, found.Run)
	if fault.Is(err, fault.NotFound) {
		var state core.RunState
		state, err = s.runLog().ReadState(ctx, found.Run)
		report = state.Report
	}
	if err != nil {
		return control.Run{}, err
	}
	if report.Run != "" {
		if core.IsTerminal(report.Status) && report.Reason == string(fault.LeaseHeld) {
			return control.Run{}, nil
		}
		return found, nil
	}
	latest, err := s.recallRun(ctx, runlog.LatestBuild(index))
	if err != nil || latest != found.Run {
		return control.Run{}, err
	}
	running, err := s.isRunning(ctx, workflows.WorkflowID(found.Run), "") // the latest is noted before its start
	if err != nil || !running {
		return control.Run{}, err
	}
	return found, nil
}
