package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// markCourse notes how far the run is and what it has paid for, where that was not noted for a while: what renews the
// lease does it, once in some seconds for all processes. It is for people alone: what cannot be read or written is
// left out.
func (r *Run) markCourse(ctx context.Context) {
	state, err := r.ReadState(ctx)
	if err != nil || state.Stage == "" || state.Stopped != nil || core.IsTerminal(state.Report.Status) {
		return
	}
	noted := r.ReadCourse(ctx, state.RunID)
	now := time.Now().UTC()
	sofar := now.Sub(state.Report.Started)
	if last := len(noted) - 1; last >= 0 &&
		sofar.Seconds()-noted[last].Seconds < core.MomentEvery(sofar).Seconds() {
		return
	}
	paid, pace, err := ReadPace(ctx, r.Coordination, r.Name(), state, now)
	if err != nil {
		return
	}
	share, _ := state.EstimateProgress(pace)
	paid.FillAccount(&state.Report)
	state.Report.Seconds = sofar.Seconds()
	raw, err := json.Marshal(core.MergeMoments(noted, state.Report.ToMoment(state.Stage, share)))
	if err == nil {
		err = r.Coordination.SetProgress(ctx, r.Name(), state.RunID, raw)
	}
	if err != nil {
		r.Log.Warn("progress not noted", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
	}
}

// ReadCourse returns what was noted of a run of the engine so far.
func (r *Run) ReadCourse(ctx context.Context, runID string) (noted []core.Moment) {
	all, err := r.Coordination.ReadProgress(ctx, r.Name())
	if err != nil || json.Unmarshal(all[runID], &noted) != nil {
		return nil
	}
	return noted
}

// addMoment adds where the run stands now to its course.
func addMoment(state *core.RunState, paid Account, now time.Time) {
	report := state.Report
	report.Seconds = now.Sub(report.Started).Seconds()
	paid.FillAccount(&report)
	share := 1.0
	if state.Stage != "" {
		share, _ = state.EstimateProgress(core.Pace{})
	} else if report.Status == core.StatusFailed || report.Status == core.StatusCancelled {
		share = 0 // what it came to: at least where it was
		for _, moment := range report.Course {
			share = max(share, moment.Share)
		}
	}
	state.Report.Course = core.MergeMoments(state.Report.Course, report.ToMoment(state.Stage, share))
}

// races is how often nights.json is tried when another run writes it at the same moment.
const races = 5

// KeepNight adds a build that ended to nights.json. What cannot be written is a gap in the trends, and no more.
func (r *Run) KeepNight(ctx context.Context, report core.Report) {
	err := fault.GenBusy.At("add to", r.Index.NightsKey()).Because("it changes all the time")
	for range races {
		var nights core.Nights
		info, readErr := blob.ReadJSON(ctx, r.Artifacts, r.Index.NightsKey(), &nights)
		cond := blob.Cond{Match: info.ETag}
		switch {
		case fault.Is(readErr, fault.NotFound):
			cond = blob.Cond{Absent: true}
		case artifact.IsDamage(readErr):
			nights, cond = core.Nights{}, blob.Cond{} // it is for people: nothing in it is worth a halt
		case readErr != nil:
			r.Log.Warn("night not noted", "run_id", r.Name(), "code", string(fault.CodeOf(readErr)))
			return
		}
		nights.Add(report.ToNight())
		_, writeErr := blob.WriteJSON(ctx, r.Artifacts, r.Index.NightsKey(), nights, cond)
		if writeErr == nil {
			return
		}
		if !fault.Is(writeErr, fault.Precondition) {
			r.Log.Warn("night not noted", "run_id", r.Name(), "code", string(fault.CodeOf(writeErr)))
			return
		}
	}
	r.Log.Warn("night not noted", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
}

// CountFresh counts the bytes of the files of a generation that its parent does not have.
func (r *Run) CountFresh(ctx context.Context, manifest *core.Manifest) int64 {
	known := map[string]bool{}
	if parent, err := r.ReadParent(ctx, manifest.Parent); err == nil && parent != nil {
		for _, segment := range parent.Segments.All() {
			known[segment.SHA256] = true
		}
	}
	bytes := int64(0)
	for _, segment := range manifest.Segments.All() {
		if !known[segment.SHA256] {
			bytes += segment.Bytes
		}
	}
	return bytes
}
