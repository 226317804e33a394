package openai

import (
	"net/http"
	"slices"
	"strings"
	"sync"

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

// chatBody is the longest body of a chat answer, in bytes.
func chatBody(limit int64) int64 {
	if limit == 0 {
		limit = mostTokens
	}
	return bodyBase + bytesPerToken*limit
}

// embeddingBody is the longest body of an answer with vectors, in bytes.
func embeddingBody(texts, dimension int) int64 {
	if dimension == 0 {
		dimension = widestVector
	}
	return bodyBase + int64(texts)*(bytesPerVector+bytesPerNumber*int64(dimension))
}

// limiting is how a server is told how long its answer may be.
type limiting int

// Servers know max_tokens; newer models of OpenAI refuse it and want the other name; and a limit that is larger than
// what a server can give, which nobody knows before, is refused too: then none is sent with that text.
const (
	maxTokens limiting = iota
	maxCompletionTokens
	noLimit
)

// limitings are what endpoints were found to take, over the process: address and model to limiting.
var limitings sync.Map

func (c *Client) limitKey() string { return c.cfg.BaseURL + "\x00" + c.cfg.Model }

func (c *Client) limiting() limiting {
	known, _ := limitings.Load(c.limitKey())
	how, _ := known.(limiting)
	return how
}

// limit of an answer to a call, in tokens.
func (c *Client) limit(call model.Call) int64 {
	if c.cfg.MaxTokens > 0 {
		return int64(c.cfg.MaxTokens)
	}
	return DefaultMaxTokens + 2*int64(len(call.System)+len(call.User)+len(call.Schema))/4
}

// objection is what a server has against the limit of an answer.
type objection int

const (
	noObjection objection = iota
	toItsName             // it does not know the parameter
	toItsSize             // the parameter, or the text with it, is more than it can give
)

// unknownWords are how servers say that they do not know a parameter.
var unknownWords = []string{
	"unsupported", "not supported", "unrecognized", "unrecognised", "unknown", "not permitted", "not allowed",
	"unexpected", "does not support",
}

// sizeWords are how they say that the text and the limit together are more than the model's window.
var sizeWords = []string{
	"context_length_exceeded", "maximum context length", "context length", "context window", "context size",
	"too many tokens",
}

// refusedLimit tells whether a refusal may be about the limit that was sent, and not about the request.
func (r *request) refusedLimit() objection {
	if r.refused == nil {
		return noObjection
	}
	if r.refused.status != http.StatusBadRequest && r.refused.status != http.StatusUnprocessableEntity {
		return noObjection
	}
	said := r.refused.kind + " " + strings.ToLower(r.refused.text)
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) })
	}
	named := says("max_tokens", "max_completion_tokens", "max_new_tokens")
	switch {
	case named && says(unknownWords...):
		return toItsName
	case named, says(sizeWords...):
		return toItsSize
	}
	return noObjection
}

// next is what to try after how was refused, how itself where there is nothing, and whether later calls begin with it
// too: a size is that of one text. A limit that was configured is never left out.
func (c *Client) next(how limiting, against objection) (next limiting, lasting bool) {
	switch {
	case against == toItsName && how == maxTokens:
		return maxCompletionTokens, true
	case against == noObjection || how == noLimit || c.cfg.MaxTokens > 0:
		return how, false
	}
	return noLimit, against == toItsName
}

// What a server charges is believed within these bounds: other tokenizers make up to four times as many tokens of a
// text as ours, or a fourth; templates and hidden prompts add some; reasoning is charged and not shown.
const (
	tokenFactor = 4
	hiddenMost  = 4096
)

// believed gives what the server says that it charged, or our own count where that cannot be: a budget must not be
// cheated in either direction. texts are what was sent; limit is the longest answer, in tokens.
func believed(told charged, texts []string, answer string, limit int64) model.Usage {
	prompt, promptDoubted := plausible(told.Prompt, hiddenMost, texts...)
	hidden := int64(hiddenMost)
	if answer != "" || told.Completion > 0 {
		hidden += max(limit, 0)
	}
	completion, completionDoubted := plausible(told.Completion, hidden, answer)
	return model.Usage{Prompt: prompt, Completion: completion, Doubted: promptDoubted || completionDoubted}
}

// plausible gives told, or our count of texts where it is not within the bounds.
func plausible(told, hidden int64, texts ...string) (count int64, doubted bool) {
	bytes := int64(0)
	for _, text := range texts {
		bytes += int64(len(text))
	}
	const quick = 4 * tokenFactor // bytes of a token of which ours is sure to have one
	if told <= bytes/2+hidden && told >= bytes/quick && told > 0 {
		return told, false
	}
	own := int64(0)
	for _, text := range texts {
		own += int64(tokens.Count(text))
	}
	nothing := told == 0 && own > 2 // some round down
	if nothing || told < own/tokenFactor || told < 0 || told > tokenFactor*own+hidden {
		return own, true
	}
	return told, false
}
