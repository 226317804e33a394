package estimate_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// known is a ledger that has some keys and counts looks; it can do nothing else.
type known struct {
	missing map[core.Digest]bool
	looks   int
	err     error
}

func (k *known) Get(_ context.Context, task string, key core.Digest, _ int) (*ledger.Entry, error) {
	if k.looks++; k.err != nil || task != ledger.Shorten {
		return nil, k.err
	}
	if k.missing[key] {
		return nil, nil
	}
	return &ledger.Entry{Value: []byte("{}")}, nil
}

func list(classes ...estimate.Class) iter.Seq2[estimate.Class, error] {
	return func(yield func(estimate.Class, error) bool) {
		for _, class := range classes {
			if !yield(class, nil) {
				return
			}
		}
	}
}

func keys(name string, n int) []core.Digest {
	out := make([]core.Digest, n)
	for i := range out {
		out[i] = core.Sum(name, fmt.Sprint(i))
	}
	return out
}

// common stands in a third of 1,000 chunks and took four calls; rare stands in two chunks and took one.
var (
	common = estimate.Class{Runes: 3900, Chunks: 300, Mentions: 300, Keys: keys("common", 4)}
	rare   = estimate.Class{Runes: 3000, Chunks: 2, Mentions: 50, Keys: keys("rare", 1)}
	short  = estimate.Class{Runes: 90, Chunks: 1, Mentions: 1}
	near   = estimate.Class{Runes: 3950, Chunks: 100, Mentions: 40}
)

func night(added estimate.New, classes ...estimate.Class) estimate.ShortenIn {
	return estimate.ShortenIn{
		Paid:       true,
		Shortening: core.Shortening{Threshold: 4000, Sample: 256},
		Parent:     core.Counts{Chunks: 1000, Classes: int64(len(classes)), Mentions: 2000},
		Classes:    list(classes...),
		New:        added,
		Ledger:     &known{},
	}
}

func new10(unseen int64) estimate.New { return estimate.New{Chunks: 10, Tokens: 1500, Unseen: unseen} }

func TestShorteningOfANight(t *testing.T) {
	for name, c := range map[string]struct {
		in   estimate.ShortenIn
		want estimate.Range
	}{
		"nothing new pays nothing": {night(estimate.New{}, common, rare, short, near), estimate.Range{}},
		"one new chunk may name the common class": {
			night(estimate.New{Chunks: 1, Tokens: 150, Unseen: 1}, common), estimate.Range{High: 1},
		},
		"ten surely do, and may change all of it":   {night(new10(0), common), estimate.Range{High: 4}},
		"unless an earlier run saw them":            {night(new10(20), common), estimate.Range{Low: 1, High: 4}},
		"a rare class is not expected":              {night(new10(20), rare, short), estimate.Range{High: 1}},
		"a class that is nearly long may become so": {night(new10(20), near, short), estimate.Range{High: 1}},
		"a class far from it does not":              {night(new10(20), short, short), estimate.Range{}},
		"chunks that go change texts too":           {night(estimate.New{Gone: 10}, common), estimate.Range{High: 4}},
		"another threshold pays for all again": {
			func() estimate.ShortenIn {
				in := night(estimate.New{}, common, rare, short)
				in.Again = true
				return in
			}(), estimate.Range{Low: 5, High: 5},
		},
		"a model that costs nothing costs nothing": {
			func() estimate.ShortenIn { in := night(new10(20), common); in.Paid = false; return in }(), estimate.Range{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := estimate.Shorten(t.Context(), c.in)
			stagetest.Ok(t, err)
			if got.Calls != c.want {
				t.Errorf("got %+v, want %+v", got.Calls, c.want)
			}
			for _, tokens := range []estimate.Range{got.Prompt, got.Completion} {
				if tokens.Low > tokens.High || (tokens.High == 0) != (got.Calls.High == 0) ||
					(tokens.Low == 0) != (got.Calls.Low == 0) {
					t.Errorf("calls %+v, tokens %+v", got.Calls, tokens)
				}
			}
		})
	}
}

func TestASampledClassIsHardlyEverShortenedAgain(t *testing.T) {
	hot := estimate.Class{Runes: 3900, Chunks: 300, Mentions: 300_000, Keys: keys("hot", 4)}
	in := night(new10(10), hot)
	got, err := estimate.Shorten(t.Context(), in)
	stagetest.Ok(t, err)
	in.Parity = true // every mention counts
	all, err := estimate.Shorten(t.Context(), in)
	stagetest.Ok(t, err)
	if got.Calls != (estimate.Range{High: 1}) || all.Calls != (estimate.Range{Low: 1, High: 4}) {
		t.Errorf("sampled %+v, all %+v", got.Calls, all.Calls)
	}
}

func TestWhatTheLedgerLostIsPaidAgain(t *testing.T) {
	var classes []estimate.Class
	lost := &known{missing: map[core.Digest]bool{}}
	for i := range 1000 {
		class := estimate.Class{Runes: 3000, Chunks: 1, Mentions: 60, Keys: keys(fmt.Sprint("class ", i), 3)}
		classes = append(classes, class)
		if i%4 == 0 {
			for _, key := range class.Keys {
				lost.missing[key] = true
			}
		}
	}
	in := night(estimate.New{}, classes...)
	in.Ledger = lost
	got, err := estimate.Shorten(t.Context(), in)
	stagetest.Ok(t, err)
	if math.Abs(float64(got.Calls.Low)-750) > 10 || math.Abs(float64(got.Calls.High)-750) > 10 {
		t.Errorf("%+v, want 750", got.Calls)
	}
	if lost.looks != 2000 {
		t.Errorf("%d looks", lost.looks)
	}
	lost.err = errors.New("no ledger")
	if _, err := estimate.Shorten(t.Context(), in); !errors.Is(err, lost.err) {
		t.Errorf("got %v", err)
	}
}

func TestShorteningOfAFirstBuildIsNotForgotten(t *testing.T) {
	for chunks, most := range map[int64]int64{100: 10, 1890: 80, 100_000: 40_000} {
		added := estimate.New{Chunks: chunks, Tokens: 120 * chunks, Unseen: chunks}
		got, err := estimate.Shorten(t.Context(), estimate.ShortenIn{
			Paid: true, Shortening: core.Shortening{Threshold: 4000, Sample: 256}, New: added,
		})
		stagetest.Ok(t, err)
		if got.Calls.Low != 0 || got.Calls.High < 1 || got.Calls.High > most {
			t.Errorf("%d chunks: %+v", chunks, got.Calls)
		}
		if chunks == 1890 && got.Calls.High < 8 { // that many calls were measured
			t.Errorf("%d chunks: %+v, measured 8", chunks, got.Calls)
		}
	}
}

func TestClassesAreReadFromAGeneration(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	stagetest.Ok(t, err)
	art := artifact.Index{Store: store, Name: "i"}
	manifest := &core.Manifest{}
	for part := range 2 {
		record := rows.Record{Name: "X", Text: strings.Repeat("é", 10+part)}
		class := rows.Class{Keys: keys("x", part), Mentions: 7, Chunks: 5}
		class.Record = record.Encode()
		segment := stagetest.Segment(
			t,
			art,
			stagetest.Row{Key: fmt.Sprintf("%016d", part), Value: string(class.Encode())},
		)
		manifest.Segments.Classes = append(manifest.Segments.Classes, segment)
	}
	art.Store = &stagetest.Tampered{
		Store: store,
		OnPut: func(key string) error { t.Errorf("wrote %s", key); return nil },
	}
	var got []string
	for class, err := range estimate.Classes(t.Context(), art, manifest) {
		stagetest.Ok(t, err)
		got = append(got, fmt.Sprint(class.Runes, class.Chunks, class.Mentions, len(class.Keys)))
	}
	if strings.Join(got, "|") != "10 5 7 0|11 5 7 1" {
		t.Errorf("%v", got)
	}
	manifest.Segments.Classes = append(manifest.Segments.Classes, core.Segment{SHA256: "gone"})
	in := night(new10(10))
	in.Classes = estimate.Classes(t.Context(), art, manifest)
	if _, err := estimate.Shorten(t.Context(), in); err == nil {
		t.Error("a segment that is gone was not noticed")
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
			for texts, err := range embed.Batches(func(yield func(embed.Item, error) bool) {
				for i := range c.chunks {
					for w, window := range embed.Windows("Title", text, c.limit) {
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
				Paid: true,
				New: estimate.New{
					Chunks: int64(c.chunks),
					Tokens: int64(c.chunks * c.words),
					Unseen: int64(c.chunks),
				},
				MaxInputTokens: c.limit, Parts: 1,
			})
			if requests < got.Calls.Low || requests > got.Calls.High || got.Calls.High > 6*got.Calls.Low+2 {
				t.Errorf("%d requests, estimated %+v", requests, got.Calls)
			}
			if tokens < got.Prompt.Low || tokens > got.Prompt.High {
				t.Errorf("%d tokens, estimated %+v", tokens, got.Prompt)
			}
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
			parent,
			estimate.New{Chunks: 100, Tokens: 13_000, Unseen: 100},
			estimate.Range{Low: 3, High: 5},
			estimate.Range{Low: 9, High: 13},
		},
		"seen ones may be paid already": {
			parent,
			estimate.New{Chunks: 100, Tokens: 13_000},
			estimate.Range{},
			estimate.Range{Low: 9, High: 13},
		},
		"chunks that go change classes": {
			parent,
			estimate.New{Gone: 100},
			estimate.Range{},
			estimate.Range{Low: 9, High: 13},
		},
		"a first build goes by the chunks' length": {
			core.Counts{},
			estimate.New{Chunks: 1000, Tokens: 130_000, Unseen: 1000},
			estimate.Range{Low: 17, High: 21},
			estimate.Range{Low: 80, High: 105},
		},
	} {
		got := estimate.EmbedClasses(estimate.EmbedIn{Paid: true, Parent: c.parent, New: c.added, Parts: 1})
		if got.Calls.Low < c.least.Low || got.Calls.Low > c.least.High || got.Calls.High < c.most.Low ||
			got.Calls.High > c.most.High {
			t.Errorf("%s: %+v", name, got.Calls)
		}
		if got.Prompt.Low > got.Prompt.High || (got.Prompt.High == 0) != (got.Calls.High == 0) {
			t.Errorf("%s: tokens %+v", name, got.Prompt)
		}
	}
	free := estimate.EmbedIn{Parent: parent, New: new10(10)}
	if estimate.EmbedClasses(free) != (estimate.Task{}) || estimate.EmbedChunks(free) != (estimate.Task{}) {
		t.Error("a built-in embedder costs something")
	}
}

func TestCostIsByTheMillionTokens(t *testing.T) {
	task := estimate.Task{
		Prompt: estimate.Range{Low: 1_000_000, High: 2_000_000}, Completion: estimate.Range{Low: 0, High: 500_000},
	}
	low, high := task.Cost(core.Price{Prompt: 0.5, Completion: 2})
	if low != 0.5 || high != 2 {
		t.Errorf("%v to %v", low, high)
	}
}
