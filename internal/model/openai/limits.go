package openai

import (
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// DefaultMaxTokens is what an answer may have in tokens, where nothing else is configured: so many, and two for each
// token of the request. Extractions have about 1.3 tokens for each of their text.
const DefaultMaxTokens = 16_384

// mostTokens an answer may have of a server that takes no limit.
const mostTokens = 128 << 10

// Bounds of a body, by what was asked for.
const (
	bodyBase       = 1 << 20 // whatever is asked for
	bytesPerToken  = 64      // of a chat answer: four characters, each escaped, beside as much reasoning
	bytesPerNumber = 32      // of an embedding as decimal numbers
	bytesPerVector = 1 << 10
	widestVector   = 16_384 // dimension, where it is not known yet
)

// chatBody returns the longest body of a chat answer, in bytes.
func chatBody(limit int64) int64 {
	if limit == 0 {
		limit = mostTokens
	}
	return bodyBase + bytesPerToken*limit
}

// embeddingBody returns the longest body of an answer with vectors, in bytes.
func embeddingBody(texts, dimension int) int64 {
	if dimension == 0 {
		dimension = widestVector
	}
	return bodyBase + int64(texts)*(bytesPerVector+bytesPerNumber*int64(dimension))
}

// usualLimit returns the limit of an answer to a call where none is configured, in tokens.
func usualLimit(call model.Call) int64 {
	return DefaultMaxTokens + 2*int64(len(call.System)+len(call.User)+len(call.Schema))/4
}

// limitOf returns the longest answer to a call, in tokens.
func (c *Client) limitOf(call model.Call) int64 {
	most := usualLimit(call)
	if call.Roomy {
		most *= 2
	}
	if c.cfg.MaxTokens > 0 {
		most = int64(c.cfg.MaxTokens)
	}
	if call.Most > 0 {
		most = min(most, int64(call.Most))
	}
	return most
}

// What a server charges is believed within these bounds: other tokenizers make up to four times as many tokens of a
// text as ours, or a fourth; templates and hidden prompts add some; reasoning is charged and not shown.
const (
	tokenFactor = 4
	hiddenMost  = 4096
	pictureMost = 65_536 // tokens of a picture
)

// checkUsage gives what the server says that it charged, or our own count where that cannot be: a budget must not be
// cheated in either direction. limit is the longest answer, in tokens.
func checkUsage(report charged, call model.Call, answer string, limit int64) model.Usage {
	prompt, promptDoubted := chooseCount(
		report.Prompt, hiddenMost+pictureMost*int64(len(call.Pictures)), call.System, call.User, string(call.Schema))
	if promptDoubted {
		prompt += int64(call.CountPictures())
	}
	hidden := int64(hiddenMost)
	if answer != "" || report.Completion > 0 {
		hidden += max(limit, 0)
	}
	completion, completionDoubted := chooseCount(report.Completion, hidden, answer)
	return model.Usage{Prompt: prompt, Completion: completion, Doubted: promptDoubted || completionDoubted}
}

// chooseCount gives report, or our count of texts where it is not within the bounds.
func chooseCount(report, hidden int64, texts ...string) (count int64, doubted bool) {
	bytes := int64(0)
	for _, text := range texts {
		bytes += int64(len(text))
	}
	const quick = 4 * tokenFactor // bytes of a token of which ours is sure to have one
	if report <= bytes/2+hidden && report >= bytes/quick && report > 0 {
		return report, false
	}
	own := int64(0)
	for _, text := range texts {
		own += int64(tokens.Count(text))
	}
	nothing := report == 0 && own > 2 // some round down
	if nothing || report < own/tokenFactor || report < 0 || report > tokenFactor*own+hidden {
		return own, true
	}
	return report, false
}
