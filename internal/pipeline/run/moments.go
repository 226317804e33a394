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

// KeepNight adds a build that ended to nights.json. What cannot be written is a gap in the trends, and no more.
func (r *Run) KeepNight(ctx context.Context, report core.Report) {
	read := func(ctx context.Context) (core.Nights, string, error) {
		var nights core.Nights
		info, err := blob.ReadJSON(ctx, r.Artifacts, r.Index.NightsKey(), &nights)
		if artifact.IsDamage(err) { // it is for people: nothing in it is worth a halt
			return core.Nights{}, info.ETag, nil
		}
		return nights, info.ETag, err
	}
	err := blob.ChangeJSON(ctx, r.Artifacts, r.Index.NightsKey(), read, func(nights *core.Nights) error {
		nights.Add(report.ToNight())
		return nil
	})
	if err != nil {
		r.Log.Warn("night not noted", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
	}
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
