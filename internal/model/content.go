package model

import (
	"slices"
	"strings"
)

// contentWords are how servers say that it is this text that they will not have: codes of the contract and of other
// servers, and what stands in messages without one.
var contentWords = []string{
	"content_filter", "content_policy", "responsibleaipolicy", "content management policy", "content policy",
	"usage policies", "safety system", "flagged as", "the model refused the text",
	"context_length_exceeded", "string_above_max_length", "context length", "context window", "context size",
	"prompt is too long", "prompt too long", "input is too long", "too many tokens", "maximum number of tokens",
	"must have less than",
}

// AboutContent reports whether the words of a refusal are about the text that was sent: the model will refuse it again.
// Any other refusal may be of a server, or of a gateway before it, that refuses everything for a while.
func AboutContent(words string) bool {
	words = strings.ToLower(words)
	return slices.ContainsFunc(contentWords, func(word string) bool { return strings.Contains(words, word) })
}
