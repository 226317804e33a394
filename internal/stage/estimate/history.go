package estimate

import (
	"cmp"
	"math"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
)

// Actual is what one earlier run came to.
type Actual struct {
	Documents int64 // that it made
	Chunks    int64 // that it extracted, or found extracted
	Calls     core.Calls
	Tokens    core.Tokens
	Extract   float64 // seconds of the stage; it waits for the model
	Embed     float64
	Shorten   float64
	Rest      float64 // of all other stages
}

// ActualOf takes the numbers of a report. nil: it made nothing.
func ActualOf(report core.Report) *Actual {
	out := Actual{
		Documents: report.Diff.Added + report.Diff.Changed + report.Diff.Moved,
		Chunks:    report.Calls.Extract + report.LedgerHits.Extract,
		Calls:     report.Calls, Tokens: report.Tokens,
	}
	if out.Documents+report.Diff.Removed == 0 && out.Chunks > 0 {
		out.Documents = report.Documents // for another reason than documents: all were made
	}
	for _, stage := range report.Stages {
		switch stage.Name {
		case core.StageExtract:
			out.Extract = stage.Seconds
		case core.StageShorten:
			out.Shorten = stage.Seconds
		case core.StageEmbed:
			out.Embed = stage.Seconds
		default:
			out.Rest += stage.Seconds
		}
	}
	if out.Extract+out.Shorten+out.Embed+out.Rest == 0 {
		return nil
	}
	return &out
}

// Past is what the last runs came to, the newest first.
type Past []Actual

const (
	nearest    = 5 // runs of about the same size
	enoughRuns = 2 // without which what classes cost is not narrowed

	// sizes of runs that tell what one of this size comes to differ by at most this factor
	alikeFactor = 4.0
	// what runs came to, the next one does within these
	pastLess, pastMore = 0.7, 1.4
)

// selectNearest gives the runs that are nearest to a size in documents, the nearest first.
func (p Past) selectNearest(documents int64) Past {
	distance := func(run Actual) float64 {
		return math.Abs(math.Log(float64(max(run.Documents, 1)) / float64(max(documents, 1))))
	}
	out := slices.Clone(p)
	slices.SortStableFunc(out, func(a, b Actual) int { return cmp.Compare(distance(a), distance(b)) })
	return out[:min(len(out), nearest)]
}

// SumCharged returns what chat calls were charged for in all. Runs in which more than a twentieth of them shortened are
// left out, as their reports do not tell the two apart.
func (p Past) SumCharged() (calls, prompt, completion int64) {
	for _, run := range p {
		if 20*run.Calls.Shorten <= run.Calls.Extract {
			calls += run.Calls.Extract
			prompt += run.Tokens.Prompt
			completion += run.Tokens.Completion
		}
	}
	return calls, prompt, completion
}

// selectSimilar gives the runs of about so many chunks.
func (p Past) selectSimilar(chunks int64) (out Past) {
	for _, run := range p {
		if run.Chunks > 0 && chunks > 0 {
			if f := float64(run.Chunks) / float64(chunks); f <= alikeFactor && f >= 1/alikeFactor {
				out = append(out, run)
			}
		}
	}
	return out
}

// NarrowTask takes from a range of calls what runs of about so many chunks never came near. The range of a task that
// calls is not known of stays.
func (p Past) NarrowTask(task Task, chunks, besides int64, calls func(core.Calls) int64) Task {
	runs := p.selectSimilar(chunks)
	if len(runs) < enoughRuns || task.Calls.High == 0 {
		return task
	}
	least, most := math.Inf(1), 0.0
	for _, run := range runs {
		rate := float64(calls(run.Calls)) / float64(run.Chunks) * float64(chunks)
		least, most = min(least, rate), max(most, rate)
	}
	low := max(0, int64(pastLess*least)-besides)
	high := max(1, ceil(pastMore*most)-besides)
	was := task.Calls
	task.Calls.Low = min(max(was.Low, low), was.High)
	task.Calls.High = max(min(was.High, high), task.Calls.Low)
	scale := func(tokens *Range) {
		span := float64(tokens.High - tokens.Low)
		if was.High > was.Low { // as far up the range of tokens as the calls went
			part := func(n int64) float64 { return float64(n-was.Low) / float64(was.High-was.Low) }
			*tokens = Range{
				tokens.Low + int64(span*part(task.Calls.Low)), tokens.Low + ceil(span*part(task.Calls.High)),
			}
		}
	}
	scale(&task.Prompt)
	scale(&task.Completion)
	return task
}

// EstimateSeconds returns how long a run of so many documents and calls takes; ok: there are runs to go by.
func (p Past) EstimateSeconds(documents int64, extract, shorten, embed core.Range) (seconds core.Range, ok bool) {
	seconds.Low = math.Inf(1)
	for _, run := range p.selectNearest(documents) {
		size := float64(max(documents, 1)) / float64(max(run.Documents, 1))
		least, most := run.Rest*min(1, size), run.Rest*max(1, size)
		for _, stage := range []struct {
			seconds float64
			calls   int64
			wanted  core.Range
		}{
			{run.Extract, run.Calls.Extract, extract}, {run.Shorten, run.Calls.Shorten, shorten},
			{run.Embed, run.Calls.Embed, embed},
		} {
			if stage.calls == 0 { // nothing was paid for: it is work like that of the other stages
				least += stage.seconds * min(1, size)
				most += stage.seconds * max(1, size)
				continue
			}
			each := stage.seconds / float64(stage.calls)
			least += each * stage.wanted.Low
			most += each * stage.wanted.High
		}
		seconds.Low, seconds.High = min(seconds.Low, pastLess*least), max(seconds.High, pastMore*most)
		ok = true
	}
	if !ok {
		return core.Range{}, false
	}
	return seconds, true
}
