package core

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Night is a build in a few figures: a line of nights.json, which outlives the report. It names no document.
type Night struct {
	Run        string    `json:"run" doc:"index/generation"`
	RunID      string    `json:"run_id,omitempty" doc:"of its workflow"`
	Generation string    `json:"generation"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason,omitempty" doc:"a code: of held, failed"`
	Published  bool      `json:"published"`
	Unchanged  bool      `json:"unchanged,omitempty" doc:"nothing had changed: nothing was published"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds" doc:"that it worked: pauses and waits are left out"`
	Documents  int64     `json:"documents"`
	Chunks     int64     `json:"chunks"`
	Changed    int64     `json:"changed" doc:"documents that were added, changed, moved or removed"`
	Share      float64   `json:"share" doc:"of the documents, the changed ones, 0 to 1"`
	Calls      int64     `json:"calls" doc:"to models, paid for"`
	Tokens     int64     `json:"tokens" doc:"paid for"`
	Cost       float64   `json:"cost" doc:"in the money of the prices that it was built with"`
	Currency   string    `json:"currency,omitempty"`
	Failed     int64     `json:"failed" doc:"documents that stand failed"`
	Letters    int64     `json:"dead_letters"`
	Problems   int64     `json:"problems"`
	Bytes      int64     `json:"bytes" doc:"of the files of the generation that this run wrote"`
	Planned    *Missed   `json:"planned" doc:"how wrong the estimate was; null: nothing was to be built"`
}

// Missed is by how much a run was outside of what its plan expected, as a share of the greater of both figures: 0
// within the range, 0.1 where the range ended a tenth below the actual figure, -0.1 where that was a tenth below the
// range.
type Missed struct {
	Calls   float64 `json:"calls"`
	Tokens  float64 `json:"tokens"`
	Cost    float64 `json:"cost"`
	Seconds float64 `json:"seconds"`
}

// MeasureMiss returns by how much of an actual figure a range misses it; see Missed.
func (r Range) MeasureMiss(actual float64) float64 {
	switch {
	case actual > r.High:
		return (actual - r.High) / actual
	case actual < r.Low: // which is above zero
		return (actual - r.Low) / r.Low
	}
	return 0
}

// Plus returns the range of a sum.
func (r Range) Plus(other Range) Range { return Range{r.Low + other.Low, r.High + other.High} }

// Worked returns for how many seconds a run worked: without those in which it paused or waited.
func (r Report) Worked() float64 { return max(0, r.Seconds-r.IdleSeconds) }

// CountProblems returns how many problems a run has, listed or not.
func (r Report) CountProblems() int64 { return max(r.ProblemsTotal, int64(len(r.Problems))) }

// ToNight returns the line of a report of a build.
func (r Report) ToNight() Night {
	changed := r.Diff.Added + r.Diff.Changed + r.Diff.Moved + r.Diff.Removed
	out := Night{
		Run: r.Run, RunID: r.RunID, Generation: r.Generation, Status: r.Status, Reason: r.Reason, Published: r.Published,
		Unchanged: r.Unchanged, Started: r.Started, Seconds: r.Worked(), Documents: r.Documents,
		Chunks: r.Chunks, Changed: changed, Calls: r.Calls.Sum(), Tokens: r.Tokens.Sum(), Cost: r.Cost,
		Currency: r.Currency, Failed: r.DocumentsFailed, Letters: r.DeadLetters, Bytes: r.Bytes,
		Problems: r.CountProblems(),
	}
	if all := max(r.Documents+r.Diff.Removed, changed); all > 0 {
		out.Share = float64(changed) / float64(all)
	}
	if planned := r.Planned; planned != nil {
		calls := planned.Extract.Plus(planned.Shorten).Plus(planned.Embed)
		out.Planned = &Missed{
			Calls: calls.MeasureMiss(float64(out.Calls)), Tokens: planned.Tokens.MeasureMiss(float64(out.Tokens)),
			Cost: planned.Cost.MeasureMiss(out.Cost), Seconds: planned.Seconds.MeasureMiss(out.Seconds),
		}
	}
	return out
}

// Nights is nights.json: the last builds of an index that ended, the oldest first.
type Nights struct {
	Nights []Night `json:"nights"`
}

// MostNights bounds nights.json.
const MostNights = 180

// Add takes a build up, once, and lets the oldest go. What builds of hints paid is one entry a day.
func (n *Nights) Add(night Night) {
	if IsHinted(night.Generation) {
		if night.Calls == 0 && night.Tokens == 0 {
			return
		}
		index, _, _ := strings.Cut(night.Run, "/")
		night.Generation = HintsGeneration + night.Started.UTC().Format("20060102")
		night.Run, night.Planned = index+"/"+night.Generation, nil
		if i := slices.IndexFunc(n.Nights, func(known Night) bool { return known.Run == night.Run }); i >= 0 {
			known := n.Nights[i]
			if known.RunID == night.RunID { // it ends a second time
				return
			}
			night.Started, night.Share = known.Started, min(1, night.Share+known.Share)
			night.Calls, night.Tokens, night.Cost = night.Calls+known.Calls, night.Tokens+known.Tokens, night.Cost+known.Cost
			night.Seconds, night.Changed = night.Seconds+known.Seconds, night.Changed+known.Changed
			night.Bytes += known.Bytes
			n.Nights = slices.Delete(n.Nights, i, i+1)
		}
	}
	n.Nights = slices.DeleteFunc(n.Nights, func(known Night) bool {
		return known.Run == night.Run && known.RunID == night.RunID
	})
	n.Nights = append(n.Nights, night)
	slices.SortStableFunc(n.Nights, func(one, two Night) int {
		return cmp.Or(one.Started.Compare(two.Started), cmp.Compare(one.Run, two.Run))
	})
	n.Nights = n.Nights[max(0, len(n.Nights)-MostNights):]
}
