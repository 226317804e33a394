package activities

import (
	"context"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

func now() time.Time { return time.Now().UTC() }

// state reads, changes and writes the run's state.
func (r *run) state(ctx context.Context, f func(*corpus.RunState)) error {
	var state corpus.RunState
	raw, err := r.Classes.State(ctx, r.id)
	if err != nil {
		return err
	}
	if raw != nil {
		if err := json.Unmarshal(raw, &state); err != nil {
			return fault.SegmentDamage.At("read state of", r.id).Because(err)
		}
	}
	f(&state)
	if raw, err = json.Marshal(state); err != nil {
		return err
	}
	return r.Classes.SetState(ctx, r.id, raw)
}

// BeginStage closes the stage before and starts the next in the run's state.
func (a *Activities) BeginStage(ctx context.Context, in workflows.StageState) error {
	r, err := a.open(ctx, in.Build, in.Stage, 0, 0)
	r.records = true
	if err != nil {
		return r.outcome(ctx, err)
	}
	ex := activity.GetInfo(ctx).WorkflowExecution
	now := time.Now().UTC()
	total, err := r.total(ctx)
	if err != nil {
		return r.outcome(ctx, err)
	}
	err = r.state(ctx, func(state *corpus.RunState) {
		if state.Stage == "" || state.RunID != ex.RunID {
			*state = corpus.RunState{Workflow: ex.ID, RunID: ex.RunID, Corpus: r.spec.Corpus, StageAt: now}
			state.Report = corpus.Report{Index: in.Index, Generation: in.Generation, Run: r.id, Started: now}
			_ = state.Spec.UnmarshalText([]byte(in.Spec)) // it was read by this digest
		}
		if state.Stage != "" && state.Stage != in.Stage {
			state.Close(now)
		}
		if state.Stage != in.Stage {
			state.StageAt = now
		}
		state.Stage, state.Total = in.Stage, in.Total
		state.Report.Status = corpus.StatusRunning
		state.Report.Fill(total)
	})
	r.Log.Info("stage begins", "run_id", r.id, "stage", in.Stage, "total", in.Total)
	return r.outcome(ctx, err)
}

// EndBuild records how a build ends, or that it pauses. A build that ends gives its lease back.
func (a *Activities) EndBuild(ctx context.Context, end workflows.End) error {
	r, err := a.open(ctx, end.Build, "end", 0, 0)
	r.records = true
	if err != nil {
		return r.outcome(ctx, err)
	}
	over, err := r.ended(ctx)
	if err != nil {
		return r.outcome(ctx, err)
	}
	if !over { // a repeated attempt must not read the progress that it forgot
		if err := r.report(ctx, end); err != nil {
			return r.outcome(ctx, err)
		}
	}
	if end.Status == corpus.StatusPaused {
		r.Log.Warn("run paused", "run_id", r.id, "reason", end.Reason)
		return nil
	}
	r.Log.Info("run ended", "run_id", r.id, "status", end.Status, "reason", end.Reason)
	if err := r.unlease(ctx); err != nil {
		return r.outcome(ctx, err)
	}
	return r.outcome(ctx, r.Classes.ForgetRun(ctx, r.id))
}

// ended tells whether the end of this workflow run is recorded already.
func (r *run) ended(ctx context.Context) (bool, error) {
	raw, err := r.Classes.State(ctx, r.id)
	if err != nil || raw == nil {
		return false, err
	}
	var state corpus.RunState
	if err := json.Unmarshal(raw, &state); err != nil {
		return false, fault.SegmentDamage.At("read state of", r.id).Because(err)
	}
	return state.Report.Ended != nil && state.RunID == activity.GetInfo(ctx).WorkflowExecution.RunID, nil
}

// unlease gives the lease back where this run holds it; the fence stays, so that it only rises.
func (r *run) unlease(ctx context.Context) error {
	var lease corpus.Lease
	in, err := blob.ReadJSON(ctx, r.Artifacts, r.art.LeaseKey(), &lease)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	ex := activity.GetInfo(ctx).WorkflowExecution
	if err != nil || lease.Workflow != ex.ID || lease.Run != ex.RunID {
		return err
	}
	_, err = blob.WriteJSON(
		ctx,
		r.Artifacts,
		r.art.LeaseKey(),
		corpus.Lease{Fence: lease.Fence, Taken: lease.Taken},
		blob.Cond{Match: in.ETag},
	)
	return err
}

// report brings the run's state up to date and writes report.json and report.md.
func (r *run) report(ctx context.Context, end workflows.End) error {
	total, err := r.total(ctx)
	if err != nil {
		return err
	}
	var old corpus.Report
	if _, err := blob.ReadJSON(ctx, r.Artifacts, r.art.GenerationKey(r.b.Generation, "report.json"), &old); err != nil &&
		!fault.Is(err, fault.NotFound) {
		return err
	}
	var rep corpus.Report
	now := time.Now().UTC()
	ex := activity.GetInfo(ctx).WorkflowExecution
	err = r.state(ctx, func(state *corpus.RunState) {
		if state.Report.Run == "" || state.RunID != ex.RunID { // it ended before its first stage
			*state = corpus.RunState{Workflow: ex.ID, RunID: ex.RunID, Corpus: r.spec.Corpus, StageAt: now}
			state.Report = corpus.Report{Index: r.b.Index, Generation: r.b.Generation, Run: r.id, Started: now}
		}
		report := &state.Report
		report.Status, report.Reason, report.Unchanged = end.Status, end.Reason, end.Unchanged
		report.Detail = r.detail(ctx, end)
		report.Fill(total)
		report.Seconds = now.Sub(report.Started).Seconds()
		if corpus.Terminal(end.Status) {
			state.Close(now)
			state.Stage = ""
			report.Ended, report.ETASeconds = &now, 0
		}
		if old.Generation != "" && old.Documents > 0 &&
			old.Started.Equal(report.Started) { // scratch may be collected by now
			report.Take(old)
		} else {
			r.results(ctx, report, end)
		}
		rep = *report
	})
	if err != nil || end.Status == corpus.StatusPaused {
		return err
	}
	if _, err := blob.WriteJSON(ctx, r.Artifacts, r.art.GenerationKey(r.b.Generation, "report.json"), rep, blob.Cond{}); err != nil {
		return err
	}
	_, err = blob.Write(
		ctx,
		r.Artifacts,
		r.art.GenerationKey(r.b.Generation, "report.md"),
		[]byte(rep.Markdown()),
		blob.Cond{},
	)
	return err
}

// detail resolves the reference of an error.
func (r *run) detail(ctx context.Context, end workflows.End) string {
	ref := end.Ref
	if end.Detail != "" {
		return end.Detail
	}
	if ref == "" && end.Status == corpus.StatusHeld {
		ref = r.key("held.json")
	}
	if ref == "" {
		return ""
	}
	var f failure
	if _, err := blob.ReadJSON(ctx, r.Artifacts, ref, &f); err != nil {
		return ""
	}
	return f.Text
}

// results fills in what the stages found: from the run's scratch, or for an unchanged corpus from the current
// generation.
func (r *run) results(ctx context.Context, report *corpus.Report, end workflows.End) {
	var s sealed
	if err := r.readJSON(ctx, "build.json", &s); err != nil {
		return // it ended before plan did
	}
	report.Diff, report.Refused, report.Problems = s.Plan.Diff, s.Plan.Refused, s.Plan.Problems
	report.Documents = s.Plan.Documents
	manifest := &corpus.Manifest{}
	if end.Unchanged {
		if cur, err := r.art.Manifest(ctx, s.Parent); err == nil {
			manifest = cur
		}
	} else if err := r.readJSON(ctx, "manifest.json", manifest); err != nil {
		var sh shards
		if r.readJSON(ctx, "shards.json", &sh) == nil {
			report.Chunks = sh.Counts.Chunks
		}
		return
	}
	for n := range s.Plan.Units {
		var c chunk.Result
		if len(report.Problems) < plan.MaxProblems && r.readJSON(ctx, chunkName(n), &c) == nil {
			report.Problems = append(
				report.Problems,
				c.Problems[:min(len(c.Problems), plan.MaxProblems-len(report.Problems))]...)
		}
	}
	report.FromManifest(manifest)
	cur, _, err := r.art.Current(ctx)
	report.Published = err == nil && (cur.Generation == r.b.Generation)
}
