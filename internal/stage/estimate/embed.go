package estimate

import (
	"math"

	"github.com/unweaver/unweaver/internal/core"
)

// EmbedIn is what the cost of vectors is estimated from.
type EmbedIn struct {
	Paid           bool        // by a model that costs something; else the estimate is zero
	Parent         core.Counts // zero: no parent
	New            New
	Again          Range // classes of the parent that are embedded again
	MaxInputTokens int   // of the embedder; 0: no limit
	Parts          int   // partitions or shards: each ends with a request that may be small
}

// A request ends at a text chosen by its content once it has 160, at the latest with 256: with 197 on average, and a
// deviation of 31. One of long texts ends when it has all the text that it may have.
const (
	minItems, meanItems, maxItems = 160.0, 197.0, 256.0
	deviation                     = 31.0
	maxRunes                      = 120_000.0
	// classTokens are those of a usual class text.
	classTokens = (nameRunes + mentionRunes*1.3) / runesPerToken
)

// EmbedChunks estimates the requests for the vectors of New.Chunks, none of which the ledger has. Low and high differ
// by how texts fall into requests, and by the windows of chunks that are too long for the embedder.
func EmbedChunks(in EmbedIn) Task {
	if !in.Paid || in.New.Chunks == 0 {
		return Task{}
	}
	chunks, tokens := float64(in.New.Chunks), float64(in.New.Tokens)
	low, high := countWindows(tokens/chunks, in.MaxInputTokens)
	title := nameRunes / runesPerToken
	return Task{
		Calls: Range{
			requestsOf(low*chunks, tokens, in.Parts).Low,
			requestsOf(high*chunks, tokens*overlapFactor(high), in.Parts).High,
		},
		Prompt: Range{in.New.Tokens, ceil(tokens*overlapFactor(high) + title*high*chunks)},
	}
}

// countWindows returns how many windows a chunk of so many tokens has: one, or one for each 110 words after the first
// 150.
func countWindows(tokens float64, limit int) (low, high float64) {
	if limit <= 0 || tokens <= float64(limit)/2 {
		return 1, 1
	}
	count := func(words float64) float64 { return max(1, math.Ceil((words-150)/110)+1) }
	if tokens <= float64(limit) { // the usual one is not too long, though some are
		return 1, count(tokens)
	}
	return count(tokens / 2), count(tokens)
}

// overlapFactor returns how much longer windows are than the chunk they were cut from.
func overlapFactor(windows float64) float64 {
	if windows <= 1 {
		return 1
	}
	return 150.0 / 110
}

// EmbedClasses estimates the requests for the vectors of new and changed classes: low, as many as the parent has for
// each of its chunks (only chunks that no run ever extracted count); high, one for every mention of every new chunk,
// and for every mention that goes. Those that are embedded again come on top.
func EmbedClasses(in EmbedIn) Task {
	if !in.Paid {
		return Task{}
	}
	classes, mentions := chunkRates(in.Parent, in.New)
	low := classes * float64(in.New.Unseen)
	if in.Parent.Chunks == 0 {
		low /= 2 // what is known of other corpora
	}
	low += float64(in.Again.Low)
	high := max(low, mentions*float64(in.New.Chunks+in.New.Gone)+float64(in.Again.High))
	if high == 0 {
		return Task{}
	}
	return Task{
		Calls:  Range{requestsOf(low, low*classTokens, in.Parts).Low, requestsOf(high, high*2*classTokens, in.Parts).High},
		Prompt: Range{int64(low * classTokens / 2), ceil(high * 2 * classTokens)},
	}
}

// requestsOf returns how many requests texts fall into, by twice the deviation of their mean.
func requestsOf(texts, tokens float64, parts int) Range {
	if texts <= 0 {
		return Range{}
	}
	runes := tokens * runesPerToken
	spread := 2 * deviation / math.Sqrt(texts/meanItems)
	room := max(maxRunes/2, maxRunes-2*runes/texts) // a text more does not fit
	return Range{
		Low:  max(ceil(texts/min(maxItems, meanItems+spread)), ceil(runes/maxRunes)),
		High: min(ceil(texts), ceil(texts/max(minItems, meanItems-spread))+ceil(runes/room)+int64(max(parts, 1))),
	}
}

// What a build beside it, and other lengths of texts than those of a probe, make of the speed of an embedder.
const (
	slower = 0.5
	faster = 1.25
)

// EstimateInside returns the seconds that an embedder inside takes for tasks at a speed in tokens a second; 0 where
// that is 0.
func EstimateInside(chunks, classes Task, speed float64) core.Range {
	if speed <= 0 {
		return core.Range{}
	}
	return core.Range{
		Low:  float64(chunks.Prompt.Low+classes.Prompt.Low) / (faster * speed),
		High: float64(chunks.Prompt.High+classes.Prompt.High) / (slower * speed),
	}
}
