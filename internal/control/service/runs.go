package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/workflows"
)

// clocksDiffer is how much the clocks of two machines may differ and still be right.
const clocksDiffer = 10 * time.Minute

// listPage is how many runs one answer of Temporal's visibility lists.
const listPage = 100

// isRunning reports whether the workflow runs now. One that Temporal does not know does not.
func (s *Service) isRunning(ctx context.Context, workflow, work string) (bool, error) {
	standing, err := s.standingOf(ctx, run.Holder{Workflow: workflow, Run: work})
	return standing == run.StandingOpen, err
}

// openBuilds lists the builds of an index that run now: the holder of the lease, the newest start, and what visibility
// shows, which lags behind a start. Where the lease cannot be read, or not now, damaged says so, and the rest counts.
func (s *Service) openBuilds(ctx context.Context, index string) (open []string, damaged, err error) {
	seen := map[string]bool{}
	lease, err := s.readLease(ctx, index)
	if fault.Is(err, fault.SegmentDamage) || fault.Is(err, fault.StoreDown) {
		damaged, err = err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if work, ok := buildOf(lease.Workflow, index); ok {
		if seen[work], err = s.isRunning(ctx, lease.Workflow, lease.Run); err != nil {
			return nil, nil, err
		}
	}
	latest, err := s.recallRun(ctx, runlog.LatestBuild(index))
	if err != nil {
		return nil, nil, err
	}
	if latest != "" && !seen[latest] {
		if seen[latest], err = s.isRunning(ctx, workflows.WorkflowID(latest), ""); err != nil {
			return nil, nil, err
		}
	}
	if err := s.listBuilds(ctx, index, func(work string) { seen[work] = true }); err != nil {
		return nil, nil, err
	}
	for work, runs := range seen {
		if runs {
			open = append(open, work)
		}
	}
	slices.Sort(open)
	return open, damaged, nil
}

// listBuilds asks visibility, page by page: a namespace may run any number of builds. Stores of visibility that know no
// prefixes list every index, and the names are looked at here.
func (s *Service) listBuilds(ctx context.Context, index string, found func(work string)) error {
	all := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.BuildIndexName)
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: s.Engine.Namespace, PageSize: listPage,
		Query: fmt.Sprintf("%s AND WorkflowId STARTS_WITH '%s'", all, workflows.BuildID(index, "")),
	}
	for {
		response, err := s.Client.ListWorkflow(ctx, request)
		if engine.Is[*serviceerror.InvalidArgument](err) && request.Query != all {
			request.Query, request.NextPageToken = all, nil
			continue
		}
		if err != nil {
			return s.toFault(err)
		}
		for _, execution := range response.GetExecutions() {
			if work, ok := buildOf(execution.GetExecution().GetWorkflowId(), index); ok {
				found(work)
			}
		}
		if request.NextPageToken = response.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

// readLease returns who builds the index; zero where none ever did.
func (s *Service) readLease(ctx context.Context, index string) (core.Lease, error) {
	lease, _, err := run.ReadLease(ctx, s.indexOf(index))
	if err != nil {
		lease = core.Lease{}
	}
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return lease, err
}

// recallRun returns the run that a key of the state of runs names, or none.
func (s *Service) recallRun(ctx context.Context, key string) (string, error) {
	raw, err := s.Stores.Coordination.ReadState(ctx, key)
	if err != nil {
		return "", err
	}
	if _, generation, err := parseRun(string(raw)); err != nil || generation == "" {
		return "", nil // it is absent or cannot be read: visibility still knows
	}
	return string(raw), nil
}

// resolveRun gives the run that a name means. Of an index it is the build that runs now, else the restore or the audit
// that runs now, else the build that ended last. damaged says what could not be read on the way.
func (s *Service) resolveRun(ctx context.Context, name string) (work string, damaged, err error) {
	index, generation, err := parseRun(name)
	if err != nil || generation != "" {
		return index + "/" + generation, nil, err
	}
	open, damaged, err := s.openBuilds(ctx, index)
	if err != nil {
		return "", nil, err
	}
	if len(open) > 0 {
		return open[len(open)-1], damaged, nil
	}
	for _, latest := range []string{runlog.LatestRestore(index), runlog.LatestAudit(index)} {
		alone, err := s.recallRun(ctx, latest)
		if err != nil {
			return "", nil, err
		}
		if alone == "" {
			continue
		}
		running, err := s.isRunning(ctx, workflows.WorkflowID(alone), "")
		if err != nil || running {
			return alone, damaged, err
		}
	}
	work, err = s.lastEnded(ctx, index)
	return work, damaged, err
}

// lastEnded returns the run of an index whose report was written last. A report from the future was written by a clock
// that was wrong: it would hide all others for as long, and counts only where there is no other.
func (s *Service) lastEnded(ctx context.Context, index string) (string, error) {
	newest, at := "", time.Time{}
	future, now := "", time.Now()
	prefix := s.indexOf(index).GenerationKey("", "") + "/"
	for info, err := range s.Stores.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return "", err
		}
		generation, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix), "/report.json")
		switch {
		case !ok || strings.Contains(generation, "/"):
		case info.Modified.After(now.Add(clocksDiffer)):
			future = index + "/" + generation
		case info.Modified.After(at):
			newest, at = index+"/"+generation, info.Modified
		}
	}
	if newest == "" {
		newest = future
	}
	if newest == "" {
		return "", s.neverEnded(ctx, index)
	}
	return newest, nil
}

// neverEnded returns the fault of an index of which no run has ended: it names who holds the lease, where somebody
// does.
func (s *Service) neverEnded(ctx context.Context, index string) error {
	lease, err := s.readLease(ctx, index)
	holder, held := buildOf(lease.Workflow, index)
	if err != nil || !held {
		return fault.RunNotFound.At("find run of", index).
			Because("the index was never built").
			Advise("to build it: unweaver index CORPUS --index " + index)
	}
	where := ""
	if lease.Engine.Address != "" {
		where = " of Temporal at " + lease.Engine.Address
	}
	return fault.RunNotFound.At("find run of", index).
		Because(fmt.Sprintf("no run has left a report; run %s%s holds the lease since %s, and is not running here",
			holder, where, lease.Taken.Local().Format(time.DateTime))).
		Advise("to see it: unweaver status " + holder + "; if it can never continue: unweaver cancel " + holder + " --lost")
}

// buildOf returns the run of a build's workflow id; false for other workflows and other indexes.
func buildOf(id, index string) (run string, ok bool) {
	generation, ok := strings.CutPrefix(id, workflows.BuildID(index, ""))
	if !ok || generation == "" || strings.Contains(generation, "/") { // stages and shards of a build lie below it
		return "", false
	}
	return index + "/" + generation, true
}

// checkIndex refuses the name of an index that is none.
func checkIndex(name string) error { return artifact.Index{Name: name}.Check() }

// parseRun reads index/generation, build/index/generation (the id of its workflow), or an index alone: then the
// generation is empty.
func parseRun(name string) (index, generation string, err error) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 && name == workflows.BuildID(parts[1], parts[2]) {
		parts = parts[1:]
	}
	if len(parts) > 2 || len(parts) == 2 && !core.ValidSlug(parts[1]) {
		return "", "", fault.InvalidParam.At("read run", fault.QuoteName(name)).
			Because("a run is index/generation").
			Advise("name the run as index and status print it, or name the index for its newest run")
	}
	if len(parts) == 2 {
		generation = parts[1]
	}
	return parts[0], generation, checkIndex(parts[0])
}
