package estimate

import (
	"math"

	"github.com/unweaver/unweaver/internal/core"
)

// ShortenIn is what the cost of shortening is estimated from.
type ShortenIn struct {
	Paid       bool // by a model that costs something; else the estimate is zero
	Shortening core.Shortening
	Again      bool        // the parent was shortened by another model, threshold or sample
	Parent     core.Counts // zero: no parent
	New        New
}

const (
	// blockRunes is a usual block of a long text, and maxBlockRunes the longest; a call has one of them.
	blockRunes    = 9_000
	maxBlockRunes = 24_000
	// callTokens are the instructions of a call.
	callTokens = 100
	// callsPerMention: two blocks of a long text change with a new mention, and the whole.
	callsPerMention = 3
)

// EstimateShorten estimates the calls that bring long class texts under the threshold. Which classes are long is not
// known before chunks are extracted, so that low is none. High has each new mention, and each that goes, in a long
// class; but no more than all long texts take, which the parent's size and the most expensive of the earlier runs let
// expect.
func EstimateShorten(in ShortenIn, past Past) Task {
	whole := New{Chunks: in.Parent.Chunks + in.New.Chunks, Tokens: in.Parent.Tokens + in.New.Tokens}
	switch {
	case !in.Paid:
		return Task{}
	case in.Parent.Chunks == 0 || in.Again:
		return in.priceCalls(0, in.countCalls(whole))
	}
	_, mentions := chunkRates(in.Parent, in.New)
	all := in.countCalls(whole)
	for _, run := range past {
		all = max(all, pastMore*float64(run.Calls.Shorten)*max(1, float64(in.New.Chunks)/float64(max(run.Chunks, 1))))
	}
	return in.priceCalls(0, min(callsPerMention*mentions*float64(in.New.Chunks+in.New.Gone), all))
}

// countCalls returns how many calls so many chunks take at most. The share of the descriptions that classes over the
// threshold hold grew with the root of the number of chunks (1.0 % of 500, 1.3 % of 1,000, 2.1 % of 1,890); three times
// that is allowed for.
func (in ShortenIn) countCalls(of New) float64 {
	_, mentions := chunkRates(core.Counts{}, of)
	runes := mentions * float64(of.Chunks) * mentionRunes
	common := min(0.5, 3*0.0005*math.Sqrt(float64(of.Chunks)))
	return runes * common / float64(max(in.Shortening.Threshold, 1))
}

// priceCalls gives calls their tokens.
func (in ShortenIn) priceCalls(low, high float64) Task {
	least := float64(min(in.Shortening.Threshold, blockRunes)) / runesPerToken
	longest := min(max(blockRunes, float64(in.Shortening.Threshold)), maxBlockRunes) / runesPerToken
	limit := float64(in.Shortening.Threshold) / runesPerToken
	return Task{
		Calls:      Range{int64(low), ceil(high)},
		Prompt:     Range{int64(low * (callTokens + least)), ceil(high * (callTokens + longest))},
		Completion: Range{int64(low * limit / 8), ceil(high * limit)},
	}
}
