package extract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/sampling"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func shared(in extract.In, share float64) extract.In {
	in.Spec.Extraction = &core.Extraction{Share: share}
	return in
}

// A chunk is paid for once, whatever the share was before and is later, and an estimate is exact to the call.
func TestAShareOfTheChunksIsSentAndTheOthersAreExtractedByRule(t *testing.T) {
	b := newBench(t)
	docs := stagetest.Numbered(60, "Ada Lovelace met Charles Babbage in London %d times.")
	paid := 0
	for _, share := range []float64{0, 0.4, 0.2, 0.4, 0.8, 1, 0.3} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			chat := &stagetest.Chat{Answer: stagetest.Says(entities("By the model"))}
			in := shared(b.in(chat, docs...), share)
			estimate := stagetest.Must(extract.Count(t.Context(), extract.CountIn{
				Spec: in.Spec, Model: chat.Info(), Ledger: in.Ledger, Chunks: extract.StreamTexts(t.Context(), in),
			}))
			stagetest.Must(extract.Run(t.Context(), in))
			sent := 0
			for i, row := range b.extracted(in) {
				want := sampling.ShouldSend(docs[i].Chunks[0], share)
				byModel := row.Entities[0].Name == "By the model"
				assert.True(t, byModel == want && byModel != (row.Rung == extract.RungRule) && byModel != row.Key.IsZero(),
					"chunk %d: %+v, sent %v", i, row, want)
				assert.True(t, byModel || strings.Contains(fmt.Sprint(row.Entities), "Charles Babbage"), "chunk %d: %+v", i, row)
				if want {
					sent++
				}
			}
			calls := len(chat.Calls())
			want := max(0, sent-paid)
			assert.True(t, calls == want, "%d calls for %d chunks of which %d were paid", calls, sent, paid)
			if estimate.Calls != int64(calls) || estimate.Rules != int64(60-sent) || estimate.Hits != int64(sent-calls) {
				t.Errorf("estimate %+v, %d calls, %d sent", estimate, calls, sent)
			}
			paid = max(paid, sent)
		})
	}
}

func TestThePreflightAsksForAChunkThatIsSent(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: stagetest.Says(entities("X"))}
	docs := stagetest.Numbered(60, "Ada Lovelace met Charles Babbage in London %d times.")
	key := stagetest.Must(extract.ExtractFirst(t.Context(), shared(b.in(chat, docs...), 0.2), nil))
	if calls := chat.Calls(); len(calls) != 1 || key.IsZero() || !sampling.ShouldSend(calls[0].Input, 0.2) {
		t.Errorf("%d calls, key %v", len(calls), key)
	}
	key, err := extract.ExtractFirst(t.Context(), shared(b.in(chat, docs...), 0), nil)
	assert.True(t, err == nil && key.IsZero() && len(chat.Calls()) == 1,
		"of no share: %v %v, %d calls", key, err, len(chat.Calls()))
}

// The built-in model extracts from all, whatever the share: nothing is to be saved.
func TestAShareOfTheBuiltInModelIsAllOfIt(t *testing.T) {
	b := newBench(t)
	in := b.in(nil, stagetest.Numbered(3, "Ada Lovelace %d.")...)
	estimate, err := extract.Count(t.Context(), extract.CountIn{
		Spec: shared(in, 0).Spec, Model: model.Info{Provider: "builtin"},
		Ledger: ledger.New(b.art.Store, b.claims), Chunks: extract.StreamTexts(context.Background(), in),
	})
	assert.True(t, err == nil && estimate == (extract.Estimate{Chunks: 3}), "%+v %v", estimate, err)
}
