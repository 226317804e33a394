// Package ops is what the command line asks for: start, watch and steer runs, list and restore generations, probe the
// installation. Service does it over Temporal and the stores; admin carries it over HTTP where one process owns them.
package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops/engine"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/wiring"
	"github.com/unweaver/unweaver/workflows"
)

// IndexRequest starts a build.
type IndexRequest struct {
	Spec          corpus.Spec `json:"spec"`
	Generation    string      `json:"generation"` // empty: attach to a running build, else the start time
	DryRun        bool        `json:"dry_run"`
	ReplaceCorpus bool        `json:"replace_corpus"`
}

// Run names a run.
type Run struct {
	Run      string `json:"run"`
	Attached bool   `json:"attached"`
}

// Status is a report with what runs now.
type Status struct {
	corpus.Report
	Stage   string  `json:"stage"`
	Overall float64 `json:"overall"` // done share, 0 to 1
}

// Check is one probe of doctor.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Control is the port of the command line. Errors are faults.
type Control interface {
	Index(ctx context.Context, r IndexRequest) (Run, error)
	Status(ctx context.Context, run string) (Status, error)
	Pause(ctx context.Context, run string) error
	// Resume goes on with a paused run. A budget that is not nil replaces the run's.
	Resume(ctx context.Context, run string, budget *corpus.Budget) error
	Cancel(ctx context.Context, run string) error
	Generations(ctx context.Context, index string) ([]artifact.Generation, error)
	Restore(ctx context.Context, index string) (Run, error)
	Doctor(ctx context.Context, spec corpus.Spec) ([]Check, error)
}

// Service implements Control.
type Service struct {
	Client    client.Client
	Engine    config.Engine
	Stores    *wiring.Stores
	Models    *wiring.Models
	Heartbeat time.Duration
}

var _ Control = (*Service)(nil)

func (s *Service) art(index string) artifact.Index {
	return artifact.Index{Store: s.Stores.Artifacts, Name: index}
}

// Index implements Control.
func (s *Service) Index(ctx context.Context, request IndexRequest) (Run, error) {
	spec := request.Spec
	if !corpus.ValidSlug(spec.Index) {
		return Run{}, slug("index", spec.Index)
	}
	if spec.Corpus == "" {
		return Run{}, fault.CorpusMissing.At("index", spec.Index).
			Because("no corpus is given").
			Advise("give a folder or s3://bucket/prefix as argument, or set indexes." + spec.Index + ".corpus")
	}
	if _, err := s.Stores.Corpus(ctx, spec.Corpus); err != nil {
		return Run{}, err
	}
	digest, err := s.art(spec.Index).PutSpec(ctx, spec)
	if err != nil {
		return Run{}, err
	}
	gen := request.Generation
	if gen == "" {
		running, err := s.running(ctx, spec, digest, request.DryRun)
		if err != nil || running != "" {
			return Run{Run: running, Attached: true}, err
		}
		gen = strings.ToLower(time.Now().UTC().Format("20060102T150405Z"))
		if request.DryRun {
			gen += "-dry"
		}
	}
	if !corpus.ValidSlug(gen) {
		return Run{}, slug("generation", gen)
	}
	build := workflows.Build{
		Index:         spec.Index,
		Generation:    gen,
		Spec:          digest.String(),
		DryRun:        request.DryRun,
		ReplaceCorpus: request.ReplaceCorpus,
		Heartbeat:     s.Heartbeat,
	}
	if err := s.Stores.Coordination.SetState(ctx, "latest/"+spec.Index, []byte(spec.Index+"/"+gen)); err != nil {
		return Run{}, err
	}
	_, err = s.Client.ExecuteWorkflow(
		ctx,
		client.StartWorkflowOptions{
			ID: workflows.BuildID(spec.Index, gen), TaskQueue: s.Engine.TaskQueue,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		},
		workflows.BuildIndexName,
		build,
	)
	return Run{Run: spec.Index + "/" + gen}, s.fault(err)
}

func slug(what, name string) error {
	return fault.Usage.At("name "+what, name).Because("letters a-z, digits and hyphens, at most 63, no hyphen first")
}

func (s *Service) fault(err error) error { return engine.Fault(err, s.Engine) }

// running finds a build of the index that runs with the same corpus and configuration. One with another is an error.
func (s *Service) running(ctx context.Context, spec corpus.Spec, digest corpus.Digest, dry bool) (string, error) {
	open, err := s.openBuilds(ctx, spec.Index)
	if err != nil {
		return "", err
	}
	for _, run := range open {
		if strings.HasSuffix(run, "-dry") != dry {
			continue
		}
		st, err := s.state(ctx, run)
		if err != nil {
			return "", err
		}
		if st.Spec.IsZero() || st.Spec == digest { // not begun yet, or the very same
			return run, nil
		}
		old, err := s.art(spec.Index).Spec(ctx, st.Spec)
		if err == nil && old.ConfigDigest() == spec.ConfigDigest() {
			return run, nil
		}
		return "", fault.LeaseHeld.At("index", spec.Index).
			Because("run " + run + " builds it with another configuration").
			Advise("wait for it, or: unweaver cancel " + run)
	}
	return "", nil
}

// openBuilds lists the runs of an index that Temporal has open: the holder of the lease, and what visibility shows.
func (s *Service) openBuilds(ctx context.Context, index string) ([]string, error) {
	seen := map[string]bool{}
	var lease corpus.Lease
	_, err := blob.ReadJSON(ctx, s.Stores.Artifacts, s.art(index).LeaseKey(), &lease)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if lease.Workflow != "" {
		d, err := s.Client.DescribeWorkflowExecution(ctx, lease.Workflow, lease.Run)
		if err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			seen[strings.TrimPrefix(lease.Workflow, "build/")] = true
		}
	}
	// Visibility lags behind a start; the newest start of an index is remembered beside.
	if b, err := s.Stores.Coordination.State(ctx, "latest/"+index); err == nil && b != nil {
		d, err := s.Client.DescribeWorkflowExecution(ctx, "build/"+string(b), "")
		if err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			seen[string(b)] = true
		}
	}
	response, err := s.Client.ListWorkflow(
		ctx,
		&workflowservice.ListWorkflowExecutionsRequest{
			Namespace: s.Engine.Namespace, PageSize: 100,
			Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.BuildIndexName),
		},
	)
	if err != nil {
		return nil, s.fault(err)
	}
	for _, e := range response.Executions {
		if id := e.Execution.WorkflowId; strings.HasPrefix(id, "build/"+index+"/") {
			seen[strings.TrimPrefix(id, "build/")] = true
		}
	}
	out := make([]string, 0, len(seen))
	for r := range seen {
		out = append(out, r)
	}
	sort.Strings(out)
	return out, nil
}

func (s *Service) state(ctx context.Context, run string) (corpus.RunState, error) {
	var st corpus.RunState
	raw, err := s.Stores.Coordination.State(ctx, run)
	if err != nil || raw == nil {
		return st, err
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return st, fault.SegmentDamage.At("read state of", run).Because(err)
	}
	return st, nil
}

// resolve accepts index/generation, build/index/generation, or an index for its newest run.
func (s *Service) resolve(ctx context.Context, run string) (string, error) {
	run = strings.TrimPrefix(run, "build/")
	if strings.Contains(run, "/") {
		return run, nil
	}
	open, err := s.openBuilds(ctx, run)
	if err != nil {
		return "", err
	}
	if len(open) > 0 {
		return open[len(open)-1], nil
	}
	newest, at := "", time.Time{}
	prefix := run + "/generations/"
	for in, err := range s.Stores.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return "", err
		}
		gen, ok := strings.CutSuffix(strings.TrimPrefix(in.Key, prefix), "/report.json")
		if ok && !strings.Contains(gen, "/") && in.Modified.After(at) {
			newest, at = run+"/"+gen, in.Modified
		}
	}
	if newest == "" {
		return "", fault.RunNotFound.At("find run of", run).
			Because("this index was never built").
			Advise("build it with: unweaver index CORPUS --index " + run)
	}
	return newest, nil
}

// Status implements Control.
func (s *Service) Status(ctx context.Context, name string) (Status, error) {
	run, err := s.resolve(ctx, name)
	if err != nil {
		return Status{}, err
	}
	st, err := s.state(ctx, run)
	if err != nil {
		return Status{}, err
	}
	index, gen, _ := strings.Cut(run, "/")
	if st.Report.Run == "" || corpus.Terminal(st.Report.Status) {
		var rep corpus.Report
		_, err := blob.ReadJSON(ctx, s.Stores.Artifacts, s.art(index).GenerationKey(gen, "report.json"), &rep)
		if err == nil && corpus.Terminal(rep.Status) {
			return Status{Report: rep, Overall: 1}, nil
		}
	}
	if corpus.Terminal(st.Report.Status) {
		return Status{Report: st.Report, Overall: 1}, nil
	}
	return s.live(ctx, run, st)
}

// live merges the state with the progress of batches and with what Temporal says.
func (s *Service) live(ctx context.Context, run string, st corpus.RunState) (Status, error) {
	out := Status{Report: st.Report, Stage: st.Stage}
	id := st.Workflow
	if id == "" {
		id = "build/" + run
	}
	response, err := s.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil && st.Report.Run == "" {
		return out, s.fault(err)
	}
	if st.Report.Run == "" {
		out.Index, out.Generation, _ = strings.Cut(run, "/")
		out.Run, out.Status, out.Started = run, corpus.StatusRunning, time.Now().UTC()
		if err := s.workers(ctx); err != nil {
			out.Problems = append(
				out.Problems,
				corpus.Problem{Code: "no_worker", Object: s.Engine.TaskQueue, Detail: err.Error()},
			)
		}
	}
	if err == nil && response.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		// It was ended from outside, or between its last step and our look.
		if again, err := s.state(ctx, run); err == nil && corpus.Terminal(again.Report.Status) {
			return Status{Report: again.Report, Overall: 1}, nil
		}
		out.Status, out.Reason = corpus.StatusFailed, strings.ToLower(response.WorkflowExecutionInfo.Status.String())
		return out, nil
	}
	all, err := s.Stores.Coordination.Progress(ctx, run)
	if err != nil {
		return out, err
	}
	done := out.merge(all, st.Stage)
	now := time.Now().UTC()
	out.Seconds = now.Sub(out.Started).Seconds()
	if st.Stage != "" {
		out.Stages = append(
			out.Stages,
			corpus.StageProgress{
				Name:    st.Stage,
				Done:    min(done, st.Total),
				Total:   st.Total,
				Seconds: now.Sub(st.StageAt).Seconds(),
			},
		)
		if sec := now.Sub(st.StageAt).Seconds(); sec > 0 {
			out.Rate = float64(done) / sec
		}
		out.Overall, out.ETASeconds = st.Overall(done, now)
	}
	return out, nil
}

// merge sums progress: what was paid over all attempts, what is done by the furthest attempt of each batch.
func (s *Status) merge(all map[string][]byte, stage string) (done int64) {
	var total corpus.Progress
	furthest := map[string]int64{}
	for field, raw := range all {
		if strings.HasPrefix(field, "problem/") {
			var p corpus.Problem
			if json.Unmarshal(raw, &p) == nil && p.Code != "" {
				s.Problems = append(s.Problems, p)
			}
			continue
		}
		var progress corpus.Progress
		if json.Unmarshal(raw, &progress) != nil {
			continue
		}
		total.Add(progress)
		if progress.Stage == stage {
			unit := field[:max(0, strings.LastIndexByte(field, '/'))]
			furthest[unit] = max(furthest[unit], progress.Done)
		}
	}
	for _, n := range furthest {
		done += n
	}
	s.Fill(total)
	sort.Slice(s.Problems, func(i, j int) bool { return s.Problems[i].Detail < s.Problems[j].Detail })
	return done
}
