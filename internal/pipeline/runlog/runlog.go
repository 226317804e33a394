// Package runlog returns the state and the reports of runs. Reports are stored with the artifacts. The state, accounts
// and problems of a run that goes on are in the coordination store, where its processes write them. It does not ask the
// engine: a run that was ended from outside is shown in its last state here, and control/service adds that it ended.
package runlog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Source is where runs are read from.
type Source struct {
	Artifacts blob.Store
	Runs      coordination.Runs
}

// Run is a report with what runs now: what `unweaver status --json` prints.
type Run struct {
	core.Report
	Stage   string        `json:"stage" doc:"that runs now; empty where none does"`
	Unit    string        `json:"unit,omitempty" doc:"what the pieces of the stage are, such as chunks"`
	Overall float64       `json:"overall" doc:"done share, 0 to 1"`
	Waiting *core.Waiting `json:"waiting,omitempty" doc:"of a run that waits: for what, reason and detail tell"`

	Limits *core.LiveLimits `json:"limits,omitempty" doc:"that it was given while it runs; else the configuration's"`
	Budget *core.Budget     `json:"budget,omitempty" doc:"that it was given while it runs; else the configuration's"`
}

// LatestBuild and the two below return the keys, in the state of runs, that name the newest run of its kind of an
// index. A colon is in no name, so that they cannot be those of a run.
func LatestBuild(index string) string   { return "latest:" + index }
func LatestRestore(index string) string { return "restore:" + index } //nolint:revive // the comment above is of all
func LatestAudit(index string) string   { return "audit:" + index }   //nolint:revive // the same

// Read says how a run stands. The error is fault.RunNotFound where nothing is known of it; a source that cannot be
// read is a problem of the run as long as another one can be read.
func (s Source) Read(ctx context.Context, index, generation string) (Run, error) {
	if !core.ValidIndex(index) || !core.ValidSlug(generation) {
		return Run{}, fault.InvalidParam.At("read run", fault.QuoteName(index+"/"+generation)).
			Because("a run is index/generation")
	}
	name := index + "/" + generation
	state, stateErr := s.ReadState(ctx, name)
	over := core.IsTerminal(state.Report.Status)
	var reportErr error
	if over || state.Report.Run == "" {
		var report core.Report
		report, reportErr = s.ReadReport(ctx, name)
		if reportErr == nil && Belongs(report, state, "") {
			return s.EndedRun(ctx, report), nil
		}
	}
	switch {
	case over:
		return s.EndedRun(ctx, state.Report), nil
	case state.Report.Run != "":
		return s.ReadLive(ctx, name, state), nil
	case stateErr != nil:
		return Run{}, stateErr
	case reportErr != nil && !fault.Is(reportErr, fault.NotFound):
		return Run{}, reportErr
	}
	return Run{}, fault.RunNotFound.At("read run", name).
		Because("the run does not exist, or its report was deleted").
		Advise("to list runs: unweaver runs " + index)
}

// ReadState returns the state of a run as its activities wrote it; zero when there is none. One that cannot be read is
// fault.SegmentDamage.
func (s Source) ReadState(ctx context.Context, work string) (core.RunState, error) {
	var state core.RunState
	raw, err := s.Runs.ReadState(ctx, work)
	if err != nil || len(raw) == 0 {
		return state, err
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return core.RunState{}, fault.SegmentDamage.At("read the state of run", work).
			Because(err).
			Advise("paid results are safe; if the run does not end by itself: unweaver cancel " + work +
				", then build again")
	}
	return state, nil
}

// FindReport returns the report of a run that ended; false where there is none that can be read.
func (s Source) FindReport(ctx context.Context, work string) (core.Report, bool) {
	report, err := s.ReadReport(ctx, work)
	return report, err == nil
}

// ReadReport returns the report of a run that ended; fault.NotFound where there is none.
func (s Source) ReadReport(ctx context.Context, work string) (core.Report, error) {
	index, generation, _ := strings.Cut(work, "/")
	report, err := artifact.New(s.Artifacts, index).ReadReport(ctx, generation)
	if err == nil && !core.IsTerminal(report.Status) {
		err = fault.NotFound.At("find the report of run", work).Because("the run has not ended")
	}
	return report, err
}

// SettledAs returns what an operator made of the generation of a run that a gate held: core.GenerationPublished or
// core.GenerationDiscarded; empty: it is held, or not known.
func SettledAs(ctx context.Context, store blob.Store, report core.Report) string {
	if report.Status != core.StatusHeld {
		return ""
	}
	ref, err := artifact.New(store, report.Index).GenerationRef(ctx, report.Generation)
	if err != nil || ref.State == core.GenerationHeld {
		return ""
	}
	return ref.State
}

// EndedRun returns a run that is over. One that a gate held counts as published once an operator had it served.
func (s Source) EndedRun(ctx context.Context, report core.Report) Run {
	report.Published = report.Published || SettledAs(ctx, s.Artifacts, report) == core.GenerationPublished
	return NewEnded(report)
}

// Belongs reports whether a report is of the run that is asked about: that of the id, else that of the state.
func Belongs(report core.Report, state core.RunState, id string) bool {
	if id == "" {
		id = state.RunID
	}
	return id == "" || report.RunID == id
}

// NewEnded returns a run that is over.
func NewEnded(report core.Report) Run { return Run{Report: report, Overall: 1} }

// ReadLive returns a run that goes on: its state, and what its processes wrote since.
func (s Source) ReadLive(ctx context.Context, name string, state core.RunState) Run {
	out := Run{Report: state.Report, Stage: state.Stage, Waiting: state.Waiting}
	s.CheckControl(ctx, name, &out)
	s.AddProgress(ctx, name, state, &out)
	return out
}

// NoteError shows an error as a problem: which object, why, and what to do.
func (r *Run) NoteError(err error) {
	if err == nil {
		return
	}
	problem := core.Problem{Code: string(fault.CodeOf(err)), Detail: err.Error()}
	if e := fault.As(err); e != nil {
		problem.Object = e.Object
	}
	r.Problems = append(r.Problems, problem)
}

// SetName fills in what the name of a run says.
func (r *Run) SetName(work string) {
	r.Run = work
	r.Index, r.Generation, _ = strings.Cut(work, "/")
}

// AddProblems adds problems that are not reported yet.
func (r *Run) AddProblems(problems []core.Problem) {
	for _, problem := range problems {
		if !slices.Contains(r.Problems, problem) {
			r.Problems = append(r.Problems, problem)
		}
	}
}

// addProblems adds what units of the run fail with right now, each problem once. What cannot be read is left out.
func (r *Run) addProblems(problems map[string][]byte) {
	var found []core.Problem
	for _, raw := range problems {
		var problem core.Problem
		if json.Unmarshal(raw, &problem) == nil && problem.Code != "" {
			found = append(found, problem)
		}
	}
	r.AddProblems(found)
	slices.SortStableFunc(r.Problems, func(a, b core.Problem) int { return strings.Compare(a.Detail, b.Detail) })
}

// addOutage adds why a run does not get on whose calls are repeated in place, as the units are not known to fail by
// then. moved is when something was done last; stage is the one that is shown, whatever the task of its calls is.
func (r *Run) addOutage(stage string, moved time.Time) {
	for _, retry := range r.Retries {
		known := slices.ContainsFunc(r.Problems, func(problem core.Problem) bool {
			return problem.Code == retry.Code && problem.Object == stage
		})
		if retry.Code == string(fault.ModelUnavailable) && retry.Last.After(moved) && !known {
			r.Problems = append(r.Problems, core.Problem{
				Code: retry.Code, Object: stage, Detail: retry.Detail + "; it is tried again",
			})
		}
	}
}

// CheckControl notes a control record that the activities of the run cannot read.
func (s Source) CheckControl(ctx context.Context, work string, out *Run) {
	raw, err := s.Runs.ReadControl(ctx, work)
	if err == nil && raw != nil && !json.Valid(raw) {
		err = fault.SegmentDamage.At("read the control record of run", work).
			Because("it is not valid JSON").
			Advise("pause or resume the run, which writes the record again")
	}
	out.NoteError(err)
	var given run.Control
	if err == nil && json.Unmarshal(raw, &given) == nil { // nothing, where there is no record
		out.Limits, out.Budget = given.Limits, given.Budget
	}
}

// AddProgress adds what the processes that work on the run wrote, and how far that is.
func (s Source) AddProgress(ctx context.Context, work string, state core.RunState, out *Run) {
	problems, err := s.Runs.ReadProblems(ctx, work)
	out.NoteError(err)
	out.addProblems(problems)
	now := time.Now().UTC()
	total, pace, err := run.ReadPace(ctx, s.Runs, work, state, now)
	if err != nil {
		out.NoteError(err)
		return
	}
	total.FillAccount(&out.Report)
	out.addOutage(state.Stage, total.Moved)
	out.Seconds = now.Sub(out.Started).Seconds()
	out.IdleSeconds, _ = state.IdleSeconds(now)
	if state.Stage == "" {
		return
	}
	_, out.Unit = core.UnitNames(state.Stage)
	out.Stages = append(slices.Clone(out.Stages), core.StageProgress{
		Name: state.Stage, Done: pace.Done, Total: state.Total, Seconds: state.StageSeconds(now),
	})
	out.Rate = pace.Rate
	out.Overall, out.ETASeconds = state.EstimateProgress(pace)
}
