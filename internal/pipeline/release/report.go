package release

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	shown "github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// End records how a run ends, or that it pauses. A run that ends gives its lease back. It may be repeated.
func (r *Run) End(ctx context.Context, holder run.Holder, ending run.Ending) error {
	state, err := r.ReadState(ctx)
	if err != nil {
		return err
	}
	if state.Report.Ended == nil || state.RunID != holder.Run {
		err = r.WriteReport(ctx, holder, ending)
	} else { // a repeated attempt must not read accounts that it forgot; the files may not be written yet
		err = r.writeReport(ctx, state.Report)
	}
	if err != nil {
		return err
	}
	if ending.Status == core.StatusPaused {
		return nil
	}
	if state, err = r.ReadState(ctx); err == nil && core.IsTerminal(state.Report.Status) {
		r.KeepNight(ctx, state.Report)
	}
	if err := run.GiveLease(ctx, r.Index, holder); fault.Is(err, fault.SegmentDamage) {
		r.Log.Warn("lease not given back: it cannot be read", "run_id", r.Name(), "error", err.Error())
	} else if err != nil {
		return err
	}
	if err := r.Coordination.ForgetRun(ctx, r.Name()); err != nil {
		return err
	}
	return r.CloseReport(ctx)
}

// CloseReport leaves a record that stops any process still working on the run, on a machine that was cut off.
func (r *Run) CloseReport(ctx context.Context) error {
	raw, err := json.Marshal(run.Control{Stop: run.CommandCancel})
	if err != nil {
		return err
	}
	return r.Coordination.SetControl(ctx, r.Name(), raw)
}

// Reopen lets a run of the engine work under a name that another had before it.
func (r *Run) Reopen(ctx context.Context, holder run.Holder) error {
	state, err := r.ReadState(ctx)
	if err != nil || state.RunID == holder.Run {
		return err
	}
	return r.Coordination.SetControl(ctx, r.Name(), []byte("{}"))
}

// writeReport writes report.json and report.md, but not over those of a generation that another run
// built under this name: what became of this one is in its state.
func (r *Run) writeReport(ctx context.Context, report core.Report) error {
	if taken, err := r.isNameTaken(ctx, report); taken || err != nil {
		return err
	}
	return WriteReports(ctx, r.Index, r.Generation, report)
}

// WriteReports writes what people read of a generation's report, and what programs do.
func WriteReports(ctx context.Context, index artifact.Index, generation string, report core.Report) error {
	if _, err := blob.WriteJSON(ctx, index.Store, index.ReportKey(generation), report, blob.Cond{}); err != nil {
		return err
	}
	markdown := index.GenerationKey(generation, "report.md")
	_, err := blob.Write(ctx, index.Store, markdown, []byte(shown.RenderMarkdown(report)), blob.Cond{})
	return err
}

// isNameTaken says that another run built a generation of this name.
func (r *Run) isNameTaken(ctx context.Context, report core.Report) (bool, error) {
	if err := publish.CheckUnused(ctx, r.Index, r.Generation); !fault.Is(err, fault.Usage) {
		if fault.Is(err, fault.SegmentDamage) { // whose it is is not known
			err = nil
		}
		return false, err
	}
	there, err := r.Index.ReadReport(ctx, r.Generation)
	if artifact.IsDamage(err) {
		return false, nil
	}
	return there.RunID != report.RunID, err
}

// WriteReport brings the run's state up to date and writes report.json and report.md.
func (r *Run) WriteReport(ctx context.Context, holder run.Holder, ending run.Ending) error {
	paid, err := run.ReadTotals(ctx, r.Coordination, r.Name())
	if err != nil {
		return err
	}
	old, err := r.Index.ReadReport(ctx, r.Generation)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	var written core.Report
	now := time.Now().UTC()
	err = r.ChangeState(ctx, func(state *core.RunState) {
		r.StartState(state, holder, now)
		report := &state.Report
		state.Waiting = nil
		report.Status, report.Reason, report.Unchanged = ending.Status, ending.Reason, ending.Unchanged
		report.Detail = r.ResolveDetail(ctx, ending)
		paid.FillAccount(report)
		report.Seconds = now.Sub(report.Started).Seconds()
		r.NoteEnding(ctx, state, paid, ending, now)
		report.Course = core.MergeMoments(report.Course, r.ReadCourse(ctx, state.RunID)...)
		// Scratch may be collected once the run has ended, or collects: that report is whole, and may hold warnings. The
		// report of a pause holds what was known by then.
		whole := core.IsTerminal(old.Status) || old.Status == core.StatusRunning
		if whole && old.Documents > 0 && old.Started.Equal(report.Started) {
			report.TakeResults(old)
		} else {
			r.fillResults(ctx, report, ending)
		}
		r.addWarning(ctx, report, ending.Warning)
		warnOfCounts(report)
		written = *report
	})
	if err != nil {
		return err
	}
	return r.writeReport(ctx, written)
}

// fillResults fills in what the stages found: from the run's scratch, or for an unchanged corpus from the current
// generation.
func (r *Run) fillResults(ctx context.Context, report *core.Report, ending run.Ending) {
	report.Planned = cmp.Or(r.ReadExpected(ctx), report.Planned)
	fixed, err := run.PlanFile.Read(ctx, r.Scratch)
	if err != nil {
		return // it ended before plan did
	}
	report.Diff, report.Refused, report.LeftOut = fixed.Plan.Diff, fixed.Plan.Refused, fixed.Plan.LeftOut
	report.Problems = nil
	for _, found := range fixed.Damage[:min(plan.MaxProblems, len(fixed.Damage))] {
		report.Problems = append(report.Problems, found.Problem())
	}
	room := min(len(fixed.Plan.Problems), plan.MaxProblems-len(report.Problems))
	report.Problems = append(report.Problems, fixed.Plan.Problems[:room]...)
	report.Reasons = fixed.Plan.Reasons
	report.DocumentsFailed, report.DocumentsEmpty = fixed.Plan.Unreadable+fixed.Plan.Lost, fixed.Plan.Empty
	report.ProblemsTotal = fixed.Plan.ProblemCount + int64(len(fixed.Damage))
	report.Documents, report.Within = fixed.Plan.Documents, fixed.Plan.Within
	manifest := &core.Manifest{}
	if ending.Unchanged {
		if current, err := r.Index.Manifest(ctx, fixed.Parent); err == nil {
			manifest = current
		}
	} else if drafted, err := run.ManifestFile.Read(ctx, r.Scratch); err == nil {
		_ = r.WithEnrichments(ctx, &drafted) // what cannot be read is not reported
		manifest = &drafted
	} else {
		if shards, err := run.ShardsFile.Read(ctx, r.Scratch); err == nil {
			report.Chunks = shards.Counts.Chunks
		}
		return
	}
	if !ending.Unchanged || fixed.Plan.Again || fixed.Plan.Untagged.Documents+fixed.Plan.Unlabelled.Documents > 0 {
		r.AddChunked(ctx, report, fixed.Plan)
	}
	if ending.Unchanged { // what was tried again is what it was
		report.Diff.Changed -= fixed.Plan.Retried
		report.Diff.Same += fixed.Plan.Retried
		report.Diff.Unchanged = true
	}
	if probed, found, err := run.ProbesFile.Find(ctx, r.Scratch); err == nil && found {
		report.Probes = &probed
	}
	report.FromManifest(manifest)
	if !ending.Unchanged {
		report.Bytes = r.CountFresh(ctx, manifest)
	}
	report.ChunksFailed = manifest.Counts.DeadLetters
	r.FailedChunks(ctx, report, manifest)
	report.DocumentsFailed = max(report.DocumentsFailed, manifest.Counts.Failed)
	if _, err := r.Artifacts.Stat(ctx, r.ProblemsKey()); err == nil {
		report.ProblemsPath = r.ProblemsKey()
	}
	current, _, err := r.Index.ReadPointer(ctx)
	report.Published = err == nil && current.Generation == r.Generation
}

// EndRestore records how a restore or an audit ends, or that it pauses: it has no report of its own and no lease. One
// that ends removes its scratch: no night does, as it may be in use. It may be repeated.
func (r *Run) EndRestore(ctx context.Context, holder run.Holder, ending run.Ending) error {
	paid, err := run.ReadTotals(ctx, r.Coordination, r.Name())
	if err != nil {
		return err
	}
	audited, isAudit, err := run.AuditFile.Find(ctx, r.Scratch)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	err = r.ChangeState(ctx, func(state *core.RunState) {
		if state.RunID == holder.Run && state.Report.Ended != nil { // a repeated attempt: its scratch is gone
			return
		}
		r.StartState(state, holder, now)
		report := &state.Report
		state.Waiting = nil
		report.Status, report.Reason, report.Detail = ending.Status, ending.Reason, r.ResolveDetail(ctx, ending)
		if isAudit {
			report.Audit = &audited
		}
		report.Seconds = now.Sub(report.Started).Seconds()
		paid.FillAccount(report)
		r.NoteEnding(ctx, state, paid, ending, now)
	})
	if err != nil || !core.IsTerminal(ending.Status) {
		return err
	}
	return r.Scratch.Remove(ctx)
}

// ShowProblem shows in the status what a unit failed with, as long as it lasts.
func (r *Run) ShowProblem(ctx context.Context, key string, problem core.Problem) {
	raw, err := json.Marshal(problem)
	if err == nil {
		err = r.Coordination.SetProblem(ctx, r.Name(), key, raw)
	}
	r.Unshown.Set(r.Name(), key, problem, err != nil)
	if problem.Code != string(fault.BudgetSpent) { // nothing is tried again before a resume
		r.Progress.CountFailure(problem)
	}
	if err != nil {
		r.Log.Warn("problem not shown", "run_id", r.Name(), "stage", r.Stage, "code", problem.Code)
	}
}

// warnOfCounts says what was not taken of models' answers, and of the ledger, once a run.
func warnOfCounts(report *core.Report) {
	for _, one := range []struct {
		count        int64
		code         fault.Code
		object, text string
	}{
		{
			report.EntitiesCut, fault.BadOutput, "extract",
			"some entities were dropped or shortened: the answer had too many, or too long ones",
		},
		{
			report.UsageDoubted, fault.BadOutput, "usage",
			"the server reports no valid token counts: tokens are counted here instead",
		},
		{report.LedgerDamage, fault.LedgerDamage, "ledger", "damaged entries or packs: their results are paid for again"},
	} {
		if one.count == 0 {
			continue
		}
		problem := core.Problem{Code: string(one.code), Object: one.object}
		problem.Detail = fmt.Sprintf("%d %s", one.count, one.text)
		report.NoteProblem(problem)
	}
}

// addWarning adds a warning to a report that does not have it yet.
func (r *Run) addWarning(ctx context.Context, report *core.Report, warning *run.Warning) {
	if warning == nil {
		return
	}
	problem := core.Problem{Code: warning.Code, Object: warning.Object}
	problem.Detail = r.ResolveDetail(ctx, run.Ending{Ref: warning.Ref})
	report.NoteProblem(problem)
}

// Warn adds to the run's report what went wrong without making the run fail, each problem once.
func (r *Run) Warn(ctx context.Context, problems ...core.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	for _, problem := range problems {
		r.Log.Warn("run goes on", "run_id", r.Name(), "stage", r.Stage, "code", problem.Code)
	}
	return r.changeReport(ctx, func(report *core.Report) {
		for _, problem := range problems {
			report.NoteProblem(problem)
		}
	})
}

// changeReport changes what programs read of the run's report. What people read follows at the end of the run.
func (r *Run) changeReport(ctx context.Context, change func(*core.Report)) error {
	report, err := r.Index.ReadReport(ctx, r.Generation)
	if err != nil {
		return err
	}
	change(&report)
	_, err = blob.WriteJSON(ctx, r.Artifacts, r.Index.ReportKey(r.Generation), report, blob.Cond{})
	return err
}
