package estimate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/estimate"
)

func pastOf(runs ...estimate.Actual) estimate.Past { return runs }

func shortened(calls core.Calls) int64 { return calls.Shorten }

// Two runs of about the size narrow what a task may cost; one does not, nor do runs of another size.
func TestRunsOfAboutTheSizeNarrowARange(t *testing.T) {
	t.Parallel()
	night := estimate.Actual{Chunks: 100, Calls: core.Calls{Shorten: 20}}
	another := estimate.Actual{Chunks: 200, Calls: core.Calls{Shorten: 60}}
	large := estimate.Actual{Chunks: 10_000, Calls: core.Calls{Shorten: 9_000}}
	task := estimate.Task{Calls: estimate.Range{Low: 0, High: 1000}, Prompt: estimate.Range{Low: 0, High: 50_000}}
	for _, c := range []struct {
		name string
		past estimate.Past
		want estimate.Range
	}{
		{"two of the size", pastOf(night, another), estimate.Range{Low: 14, High: 42}},
		{"one of the size", pastOf(night, large), task.Calls},
		{"none", nil, task.Calls},
	} {
		if got := c.past.NarrowTask(task, 100, 0, shortened); got.Calls != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got.Calls, c.want)
		} else if got.Prompt.High != 50*c.want.High {
			t.Errorf("%s: tokens %+v", c.name, got.Prompt)
		}
	}
	sure := estimate.Task{Calls: estimate.Range{Low: 500, High: 600}}
	got := pastOf(night, another).NarrowTask(sure, 100, 0, shortened)
	assert.True(t, got.Calls.Low >= 500 && got.Calls.High >= got.Calls.Low,
		"what is sure is not taken away: %+v", got.Calls)
}

// The time of a run is that of its calls at the pace of earlier ones, and of the rest by its size.
func TestTimeGoesByWhatEarlierRunsTook(t *testing.T) {
	t.Parallel()
	past := pastOf(estimate.Actual{Documents: 10, Chunks: 50, Calls: core.Calls{Extract: 100}, Extract: 200, Rest: 10})
	got, ok := past.EstimateSeconds(10, core.Range{Low: 50, High: 50}, core.Range{}, core.Range{})
	assert.False(t, !ok || got.Low < 70 || got.Low > 110 || got.High < 110 || got.High > 160, "%+v", got)
	more, _ := past.EstimateSeconds(20, core.Range{Low: 50, High: 50}, core.Range{}, core.Range{})
	assert.False(t, more.High <= got.High || more.Low != got.Low, "twice the documents: %+v, once %+v", more, got)
	_, ok = estimate.Past(nil).EstimateSeconds(1, core.Range{}, core.Range{}, core.Range{})
	assert.False(t, ok, "nothing to go by")
}

func TestARunThatShortenedMuchDoesNotTellWhatExtractionCosts(t *testing.T) {
	t.Parallel()
	past := pastOf(
		estimate.Actual{Calls: core.Calls{Extract: 100, Shorten: 5}, Tokens: core.Tokens{Prompt: 1000, Completion: 2000}},
		estimate.Actual{Calls: core.Calls{Extract: 100, Shorten: 6}, Tokens: core.Tokens{Prompt: 7, Completion: 7}},
	)
	if calls, prompt, completion := past.SumCharged(); calls != 100 || prompt != 1000 || completion != 2000 {
		t.Errorf("%d calls, %d and %d tokens", calls, prompt, completion)
	}
}

// A night whose only new document has no text made nothing; one that extracts and changes no document made them all.
func TestANightThatMadeNothingCountsNoDocuments(t *testing.T) {
	report := core.Report{Documents: 40, Stages: []core.StageProgress{{Name: core.StagePlan, Seconds: 1}}}
	past := estimate.ActualOf(report)
	assert.True(t, past != nil && past.Documents == 0, "%+v", past)
	report.LedgerHits.Extract = 90
	if past := estimate.ActualOf(report); past == nil || past.Documents != 40 {
		t.Errorf("%+v", past)
	}
}
