package estimate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func night(added estimate.New) estimate.ShortenIn {
	return estimate.ShortenIn{
		Paid: true, Shortening: core.Shortening{Threshold: 4000, Sample: 256},
		Parent: core.Counts{Chunks: 1000, Tokens: 150_000, Classes: 500, Mentions: 2000}, New: added,
	}
}

func new10(unseen int64) estimate.New { return estimate.New{Chunks: 10, Tokens: 1500, Unseen: unseen} }

func TestShorteningOfANight(t *testing.T) {
	again, free := night(estimate.New{}), night(new10(10))
	again.Again, free.Paid = true, false
	first := estimate.ShortenIn{Paid: true, Shortening: again.Shortening, New: estimate.New{Chunks: 1000, Tokens: 150_000}}
	whole := estimate.EstimateShorten(first, nil).Calls.High
	for name, c := range map[string]struct {
		in   estimate.ShortenIn
		past estimate.Past
		high int64
	}{
		"nothing new pays nothing":                 {night(estimate.New{}), nil, 0},
		"one new chunk has two mentions":           {night(estimate.New{Chunks: 1, Tokens: 150, Unseen: 1}), nil, 6},
		"chunks that go change texts too":          {night(estimate.New{Gone: 2}), nil, 12},
		"many come to no more than all long texts": {night(estimate.New{Gone: 1000}), nil, whole},
		"unless a run came to more": {
			night(estimate.New{Gone: 1000}), estimate.Past{{Chunks: 50, Calls: core.Calls{Shorten: 1000}}}, 1400,
		},
		"another threshold pays for all again": {again, nil, whole},
		"a model that costs nothing":           {free, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := estimate.EstimateShorten(c.in, c.past)
			assert.True(t, got.Calls == (estimate.Range{High: c.high}), "got %+v, want up to %d", got.Calls, c.high)
			for _, tokens := range []estimate.Range{got.Prompt, got.Completion} {
				assert.True(t, tokens.Low <= tokens.High && (tokens.High == 0) == (got.Calls.High == 0),
					"calls %+v, tokens %+v", got.Calls, tokens)
			}
		})
	}
}

func TestShorteningOfAFirstBuildIsNotForgotten(t *testing.T) {
	for chunks, most := range map[int64]int64{100: 10, 1890: 80, 100_000: 40_000} {
		got := estimate.EstimateShorten(estimate.ShortenIn{
			Paid: true, Shortening: core.Shortening{Threshold: 4000, Sample: 256},
			New: estimate.New{Chunks: chunks, Tokens: 120 * chunks, Unseen: chunks},
		}, nil)
		assert.True(t, got.Calls.Low == 0 && got.Calls.High >= 1 && got.Calls.High <= most,
			"%d chunks: %+v", chunks, got.Calls)
		if chunks == 1890 && got.Calls.High < 8 { // that many calls were measured
			t.Errorf("%d chunks: %+v, measured 8", chunks, got.Calls)
		}
	}
}

// Requests are cut by the embedder's own rule: the estimate must hold what it really makes of texts.
func TestRequestsOfNewChunksAreWithinTheRange(t *testing.T) {
	for name, c := range map[string]struct{ chunks, words, limit int }{
		"short chunks":                {3000, 100, 0},
		"usual chunks":                {700, 900, 0},
		"few":                         {5, 100, 8000},
		"chunks over the limit":       {150, 900, 512},
		"chunks not far below it":     {300, 300, 512},
		"a chunk that is one request": {20, 25_000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.TrimSpace(strings.Repeat("word ", c.words))
			var requests, tokens int64
			for texts, err := range embed.CutBatches(func(yield func(embed.Item, error) bool) {
				for i := range c.chunks {
					for w, window := range embed.CutWindows("Title", text, c.limit) {
						digest := core.Sum(fmt.Sprint(i, w))
						if !yield(embed.Item{Digest: digest, Text: window}, nil) {
							return
						}
					}
				}
			}) {
				stagetest.Ok(t, err)
				requests++
				for _, item := range texts {
					tokens += int64(len(strings.Fields(item.Text)))
				}
			}
			got := estimate.EmbedChunks(estimate.EmbedIn{
				Paid: true, New: estimate.New{Chunks: int64(c.chunks), Tokens: int64(c.chunks * c.words)}, MaxInputTokens: c.limit,
				Parts: 1,
			})
			assert.True(t, requests >= got.Calls.Low && requests <= got.Calls.High && got.Calls.High <= 6*got.Calls.Low+2,
				"%d requests, estimated %+v", requests, got.Calls)
			assert.True(t, tokens >= got.Prompt.Low && tokens <= got.Prompt.High, "%d tokens, estimated %+v", tokens, got.Prompt)
		})
	}
}

func TestVectorsOfClasses(t *testing.T) {
	parent := core.Counts{Chunks: 1000, Classes: 8000, Mentions: 13_000}
	for name, c := range map[string]struct {
		parent      core.Counts
		added       estimate.New
		least, most estimate.Range // of calls.Low and calls.High
	}{
		"nothing new": {parent, estimate.New{}, estimate.Range{}, estimate.Range{}},
		"100 chunks have 800 classes to 1,300": {
			parent, estimate.New{Chunks: 100, Tokens: 13_000, Unseen: 100}, estimate.Range{Low: 3, High: 5},
			estimate.Range{Low: 9, High: 13},
		},
		"seen ones may be paid already": {
			parent, estimate.New{Chunks: 100, Tokens: 13_000}, estimate.Range{}, estimate.Range{Low: 9, High: 13},
		},
		"chunks that go change classes": {
			parent, estimate.New{Gone: 100}, estimate.Range{}, estimate.Range{Low: 9, High: 13},
		},
		"a first build goes by the chunks' length": {
			core.Counts{}, estimate.New{Chunks: 1000, Tokens: 130_000, Unseen: 1000}, estimate.Range{Low: 17, High: 21},
			estimate.Range{Low: 80, High: 105},
		},
	} {
		got := estimate.EmbedClasses(estimate.EmbedIn{Paid: true, Parent: c.parent, New: c.added, Parts: 1})
		assert.True(t, got.Calls.Low >= c.least.Low && got.Calls.Low <= c.least.High && got.Calls.High >= c.most.Low &&
			got.Calls.High <= c.most.High, "%s: %+v", name, got.Calls)
		assert.True(t, got.Prompt.Low <= got.Prompt.High && (got.Prompt.High == 0) == (got.Calls.High == 0),
			"%s: tokens %+v", name, got.Prompt)
	}
	free := estimate.EmbedIn{Parent: parent, New: new10(10)}
	assert.True(t, estimate.EmbedClasses(free) == (estimate.Task{}) && estimate.EmbedChunks(free) == (estimate.Task{}),
		"a built-in embedder costs something")
}

func TestAnEmbedderInsideTakesAsLongAsItsTokens(t *testing.T) {
	chunks, classes := estimate.Task{Prompt: estimate.Range{Low: 1000, High: 2000}}, estimate.Task{}
	got := estimate.EstimateInside(chunks, classes, 100)
	assert.True(t, got.Low > 5 && got.Low < 10 && got.High > 20 && got.High < 60, "%+v", got)
	classes.Prompt.High = 2000
	assert.Equal(t, 2*got.High, estimate.EstimateInside(chunks, classes, 100).High)
	assert.Zero(t, estimate.EstimateInside(chunks, classes, 0))
}

func TestCostIsByTheMillionTokens(t *testing.T) {
	task := estimate.Task{
		Prompt: estimate.Range{Low: 1_000_000, High: 2_000_000}, Completion: estimate.Range{Low: 0, High: 500_000},
	}
	low, high := task.Cost(core.Price{Prompt: 0.5, Completion: 2})
	assert.True(t, low == 0.5 && high == 2, "%v to %v", low, high)
}

func pastOf(runs ...estimate.Actual) estimate.Past { return runs }

func shortened(calls core.Calls) int64 { return calls.Shorten }

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

func TestANightThatMadeNothingCountsNoDocuments(t *testing.T) {
	report := core.Report{Documents: 40, Stages: []core.StageProgress{{Name: core.StagePlan, Seconds: 1}}}
	past := estimate.ActualOf(report)
	assert.True(t, past != nil && past.Documents == 0, "%+v", past)
	report.LedgerHits.Extract = 90
	past = estimate.ActualOf(report)
	assert.True(t, past != nil && past.Documents == 40, "%+v", past)
}
