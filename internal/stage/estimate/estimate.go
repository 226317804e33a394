// Package estimate computes, before anything is paid, what the classes and the vectors of a build will cost. It
// computes this from the parent generation and the plan: it calls no model, needs no key and writes nothing. Package
// extract counts chunk by chunk what extraction will cost.
//
// Which classes new chunks name is known only after their extraction, so every number is a range. The high end assumes
// that new chunks are spread evenly over the subjects of the parent, which names the most classes. The low end counts
// what is almost certain. Both are expectations: a corpus that turns to another subject can leave the range.
package estimate

import (
	"math"

	"github.com/unweaver/unweaver/internal/core"
)

// Range is a lower and an upper estimate.
type Range struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
}

// Task is what one task would ask of a model.
type Task struct {
	Calls      Range `json:"calls"`
	Prompt     Range `json:"prompt"`     // tokens sent; of embeddings too
	Completion Range `json:"completion"` // tokens written
}

// Cost returns what a task costs by a price per million tokens.
func (t Task) Cost(price core.Price) (low, high float64) {
	low = float64(t.Prompt.Low)*price.Prompt + float64(t.Completion.Low)*price.Completion
	high = float64(t.Prompt.High)*price.Prompt + float64(t.Completion.High)*price.Completion
	return low / 1e6, high / 1e6
}

// New is what the plan and the chunker found against the parent; without a parent everything is new.
type New struct {
	Chunks int64 // that the parent does not have
	Tokens int64 // of them
	Unseen int64 // of them, whose extraction the ledger does not have: no run can have built on it
	Gone   int64 // chunks of the parent that are left out
}

// What is known of texts where there is no parent to ask, measured on recorded extractions of 1,890 passages.
const (
	runesPerToken = 4.0  // of English
	mentionRunes  = 84.0 // of one description
	nameRunes     = 16.0
)

// perChunk returns how many classes and mentions a chunk of so many tokens has: 8 classes and 13 mentions in one of 130
// tokens, 21 and 39 in one of 970, and a power law through both.
func perChunk(tokens float64) (classes, mentions float64) {
	tokens = max(tokens, 1)
	return 0.77 * math.Pow(tokens, 0.48), 0.91 * math.Pow(tokens, 0.547)
}

// chunkRates returns the classes and mentions of a chunk, of the parent where there is one.
func chunkRates(parent core.Counts, added New) (classes, mentions float64) {
	if parent.Chunks > 0 {
		return float64(parent.Classes) / float64(parent.Chunks), float64(parent.Mentions) / float64(parent.Chunks)
	}
	if added.Chunks == 0 {
		return 0, 0
	}
	return perChunk(float64(added.Tokens) / float64(added.Chunks))
}

func ceil(x float64) int64 { return int64(math.Ceil(x - 1e-9)) }
