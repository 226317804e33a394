// Package control is what the command line asks for: start, watch and steer runs, list and restore generations, probe the
// installation. Service does it over Temporal and the stores; admin carries it over HTTP where one process owns them.
package control

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

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/blob"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/engine"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/setup"
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
	Resume(ctx context.Context, run string) error
	Cancel(ctx context.Context, run string) error
	Generations(ctx context.Context, index string) ([]artifact.Generation, error)
	Restore(ctx context.Context, index string) (Run, error)
	Doctor(ctx context.Context, spec corpus.Spec) ([]Check, error)
}

// Service implements Control.
type Service struct {
	Client    client.Client
	Engine    config.Engine
	Stores    *setup.Stores
	Models    *setup.Models
	Heartbeat time.Duration
}

var _ Control = (*Service)(nil)

func (s *Service) art(index string) artifact.Index {
	return artifact.Index{Store: s.Stores.Artifacts, Name: index}
}

// Index implements Control.
func (s *Service) Index(ctx context.Context, r IndexRequest) (Run, error) {
	spec := r.Spec
	if !corpus.ValidSlug(spec.Index) {
		return Run{}, slug("index", spec.Index)
	}
	if spec.Corpus == "" {
		return Run{}, fault.New(fault.CorpusMissing, fault.Bad, "index", spec.Index, "no corpus is given", "give a folder or s3://bucket/prefix as argument, or set indexes."+spec.Index+".corpus")
	}
	if _, err := s.Stores.Corpus(ctx, spec.Corpus); err != nil {
		return Run{}, err
	}
	digest, err := s.art(spec.Index).PutSpec(ctx, spec)
	if err != nil {
		return Run{}, err
	}
	gen := r.Generation
	if gen == "" {
		running, err := s.running(ctx, spec, digest, r.DryRun)
		if err != nil || running != "" {
			return Run{Run: running, Attached: true}, err
		}
		gen = strings.ToLower(time.Now().UTC().Format("20060102T150405Z"))
		if r.DryRun {
			gen += "-dry"
		}
	}
	if !corpus.ValidSlug(gen) {
		return Run{}, slug("generation", gen)
	}
	b := workflows.Build{Index: spec.Index, Generation: gen, Spec: digest.String(), DryRun: r.DryRun, ReplaceCorpus: r.ReplaceCorpus, Heartbeat: s.Heartbeat}
	if err := s.Stores.Classes.SetState(ctx, "latest/"+spec.Index, []byte(spec.Index+"/"+gen)); err != nil {
		return Run{}, err
	}
	_, err = s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflows.BuildID(spec.Index, gen), TaskQueue: s.Engine.TaskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE}, workflows.BuildIndexName, b)
	return Run{Run: spec.Index + "/" + gen}, s.fault(err)
}

func slug(what, name string) error {
	return fault.New(fault.Usage, fault.Bad, "name "+what, name, "letters a-z, digits and hyphens, at most 63, no hyphen first", "")
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
		return "", fault.New(fault.LeaseHeld, fault.Bad, "index", spec.Index, "run "+run+" builds it with another configuration", "wait for it, or: unweaver cancel "+run)
	}
	return "", nil
}

// openBuilds lists the runs of an index that Temporal has open: the holder of the lease, and what visibility shows.
func (s *Service) openBuilds(ctx context.Context, index string) ([]string, error) {
	seen := map[string]bool{}
	var l corpus.Lease
	_, err := blob.ReadJSON(ctx, s.Stores.Artifacts, s.art(index).LeaseKey(), &l)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	if l.Workflow != "" {
		d, err := s.Client.DescribeWorkflowExecution(ctx, l.Workflow, l.Run)
		if err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			seen[strings.TrimPrefix(l.Workflow, "build/")] = true
		}
	}
	// Visibility lags behind a start; the newest start of an index is remembered beside.
	if b, err := s.Stores.Classes.State(ctx, "latest/"+index); err == nil && b != nil {
		d, err := s.Client.DescribeWorkflowExecution(ctx, "build/"+string(b), "")
		if err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			seen[string(b)] = true
		}
	}
	r, err := s.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: s.Engine.Namespace, PageSize: 100,
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.BuildIndexName)})
	if err != nil {
		return nil, s.fault(err)
	}
	for _, e := range r.Executions {
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
	b, err := s.Stores.Classes.State(ctx, run)
	if err != nil || b == nil {
		return st, err
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return st, fault.New(fault.SegmentDamage, fault.Fatal, "read state of", run, err, "")
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
		return "", fault.New(fault.RunNotFound, fault.Bad, "find run of", run, "this index was never built", "build it with: unweaver index CORPUS --index "+run)
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
	d, err := s.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil && st.Report.Run == "" {
		return out, s.fault(err)
	}
	if st.Report.Run == "" {
		out.Index, out.Generation, _ = strings.Cut(run, "/")
		out.Run, out.Status, out.Started = run, corpus.StatusRunning, time.Now().UTC()
		if err := s.workers(ctx); err != nil {
			out.Problems = append(out.Problems, corpus.Problem{Code: "no_worker", Object: s.Engine.TaskQueue, Detail: err.Error()})
		}
	}
	if err == nil && d.WorkflowExecutionInfo.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		// It was ended from outside, or between its last step and our look.
		if again, err := s.state(ctx, run); err == nil && corpus.Terminal(again.Report.Status) {
			return Status{Report: again.Report, Overall: 1}, nil
		}
		out.Status, out.Reason = corpus.StatusFailed, strings.ToLower(d.WorkflowExecutionInfo.Status.String())
		return out, nil
	}
	all, err := s.Stores.Classes.Progress(ctx, run)
	if err != nil {
		return out, err
	}
	done := out.merge(all, st.Stage)
	now := time.Now().UTC()
	out.Seconds = now.Sub(out.Started).Seconds()
	if st.Stage != "" {
		out.Stages = append(out.Stages, corpus.StageProgress{Name: st.Stage, Done: min(done, st.Total), Total: st.Total, Seconds: now.Sub(st.StageAt).Seconds()})
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
	for field, b := range all {
		if strings.HasPrefix(field, "problem/") {
			var p corpus.Problem
			if json.Unmarshal(b, &p) == nil && p.Code != "" {
				s.Problems = append(s.Problems, p)
			}
			continue
		}
		var p corpus.Progress
		if json.Unmarshal(b, &p) != nil {
			continue
		}
		total.Add(p)
		if p.Stage == stage {
			unit := field[:max(0, strings.LastIndexByte(field, '/'))]
			furthest[unit] = max(furthest[unit], p.Done)
		}
	}
	for _, n := range furthest {
		done += n
	}
	s.Fill(total)
	sort.Slice(s.Problems, func(i, j int) bool { return s.Problems[i].Detail < s.Problems[j].Detail })
	return done
}
