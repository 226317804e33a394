package extract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// noClaims fails a test that claims anything.
type noClaims struct {
	coordination.Claims
	t *testing.T
}

func (c noClaims) Claim(context.Context, string, string, time.Duration) (bool, error) {
	c.t.Error("claimed")
	return false, errors.New("claimed")
}

func TestCountTellsWhatWouldBePaidAndTakesNothing(t *testing.T) {
	b := newBench(t)
	docs := stagetest.Numbered(50, "Text number %d of fifty.")
	paid := &stagetest.Chat{Answer: stagetest.Says(entities("X"))}
	_, err := extract.Run(t.Context(), b.in(paid, docs[:20]...)) // an earlier run
	stagetest.Ok(t, err)
	bad := &stagetest.Chat{Answer: stagetest.Says("no")}
	stagetest.Must(extract.Run(t.Context(), b.in(bad, docs[20:25]...)))

	in := b.in(nil, docs...)
	readOnly := &stagetest.Tampered{Store: b.art.Store, OnPut: func(key string) error {
		t.Errorf("wrote %s", key)
		return errors.New("wrote")
	}}
	in.Artifacts.Store = readOnly
	count := func(info model.Info, attempt int) extract.Estimate {
		estimate := stagetest.Must(extract.Count(t.Context(), extract.CountIn{
			Model: info, Ledger: ledger.New(readOnly, noClaims{t: t}), Attempt: attempt,
			Chunks: extract.StreamTexts(t.Context(), in),
		}))
		return estimate
	}
	info := (&stagetest.Chat{}).Info()
	got := count(info, 0)
	assert.True(t, got.Chunks == 50 && got.Calls == 25 && got.Hits == 25, "%+v", got)
	assert.True(t, got.Prompt >= 25*100 && got.Prompt <= 25*300 && got.Completion >= 25*6 && got.Completion <= 25*15,
		"tokens %+v", got)
	assert.True(t, got.Measured.Calls == 25 && got.Measured.Completion > 0 && got.Tokens > 0, "measured %+v", got)
	if later := count(info, 1); later.Calls != 30 { // bad answers are asked for again
		t.Errorf("in a later round %+v", later)
	}
	assert.Equal(t, extract.Estimate{Chunks: 50}, count(model.Info{Provider: "builtin"}, 0), "built-in models")
	info.Model = "another"
	other := count(info, 0)
	assert.True(t, other.Calls == 50 && other.Hits == 0, "another model %+v", other)
}

type brokenLedger struct{ err error }

func (l brokenLedger) Get(context.Context, string, core.Digest, int) (*ledger.Entry, error) {
	return nil, l.err
}

func TestCountTellsThatTheLedgerCannotBeRead(t *testing.T) {
	b := newBench(t)
	in := b.in(nil, stagetest.Numbered(3, "Text %d.")...)
	_, err := extract.Count(t.Context(), extract.CountIn{
		Model: (&stagetest.Chat{}).Info(), Ledger: brokenLedger{fault.StoreDenied.At("read", "ledger")},
		Chunks: extract.StreamTexts(t.Context(), in),
	})
	assert.True(t, fault.Is(err, fault.StoreDenied), "got %v", err)
}

// What an answer costs is known of a model that has answered; of one that has not, hardly.
func TestWhatCallsAreChargedForIsARangeThatHoldsIt(t *testing.T) {
	guess := extract.Estimate{Calls: 100, Prompt: 40_000, Tokens: 20_000}
	prompt, completion := guess.EstimateCharge(0)
	assert.True(t, prompt[0] < 40_000 && prompt[1] > 40_000 && completion[0] <= 10_000 && completion[1] >= 60_000,
		"nothing is measured: %v, %v", prompt, completion)
	if _, completion = guess.EstimateCharge(64); completion[1] != 6400 || completion[0] > completion[1] {
		t.Errorf("an answer has 64 tokens at most: %v", completion)
	}
	known := guess
	known.Measured = extract.Measured{Calls: 40, Tokens: 8000, Reckoned: 16_000, Prompt: 20_000, Completion: 32_000}
	prompt, completion = known.EstimateCharge(0)
	if prompt[0] > 50_000 || prompt[1] < 50_000 || completion[0] > 80_000 || completion[1] < 80_000 ||
		completion[1] > 110_000 {
		t.Errorf("a model that writes four times the text: %v, %v", prompt, completion)
	}
	few := (extract.Estimate{}).Plus(known).Plus(known)
	assert.True(t, few.Measured.Calls == 80 && few.Tokens == 40_000, "twice: %+v", few)
}
