package extract

import (
	"context"
	"iter"
	"math"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Estimate is what extracting chunks would cost: an exact count of the chunks that the ledger does not know.
type Estimate struct {
	Chunks     int64 `json:"chunks"`
	Rules      int64 `json:"rules,omitempty"` // chunks that are not sent, as the model gets a share of them
	Calls      int64 `json:"calls"`
	Hits       int64 `json:"hits"`
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`

	Others [MostOthers]int64 `json:"others,omitzero"` // calls by CountIn.Others

	Tokens   int64    `json:"tokens"`   // of the chunks that would be asked for
	Measured Measured `json:"measured"` // of those that the ledger knows
}

// Measured is what extractions were charged for that somebody has paid for, beside what is reckoned of them.
type Measured struct {
	Calls      int64 `json:"calls"`
	Tokens     int64 `json:"tokens"` // of the chunks
	Reckoned   int64 `json:"reckoned"`
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
}

// Plus adds what was found of other chunks.
func (e Estimate) Plus(other Estimate) Estimate {
	e.Chunks += other.Chunks
	e.Rules += other.Rules
	e.Calls += other.Calls
	e.Hits += other.Hits
	e.Prompt += other.Prompt
	e.Completion += other.Completion
	for i, calls := range other.Others {
		e.Others[i] += calls
	}
	e.Tokens += other.Tokens
	e.Measured.Calls += other.Measured.Calls
	e.Measured.Tokens += other.Measured.Tokens
	e.Measured.Reckoned += other.Measured.Reckoned
	e.Measured.Prompt += other.Measured.Prompt
	e.Measured.Completion += other.Measured.Completion
	return e
}

// completionShare is how many tokens a model writes for each token of a chunk (measured on recorded extractions).
const completionShare = 1.3

// Bounds of what calls are charged for. Where enough was measured of this model, the rest differs from it by
// little; where not, models differ by their tokenizers, and by how much they write.
const (
	measuredEnough = 20

	measuredLess, measuredMore     = 0.85, 1.25
	promptLess, promptMore         = 0.8, 1.25
	completionLess, completionMore = 0.4, 3.2
	// briefAnswer is what an answer to the shortest chunk may have, in tokens.
	briefAnswer = 150
)

// EstimateCharge returns what the calls would be charged for, at least and at most: prompt and completion tokens.
// maxTokens bounds the answer to one call where it is configured; 0: it is not.
func (e Estimate) EstimateCharge(maxTokens int) (prompt, completion [2]int64) {
	between := func(least, most float64) [2]int64 { return [2]int64{int64(least), int64(math.Ceil(most))} }
	reckoned, tokens := float64(e.Prompt), float64(e.Tokens)
	if m := e.Measured; m.Calls >= measuredEnough && m.Tokens > 0 && m.Reckoned > 0 {
		reckoned *= float64(m.Prompt) / float64(m.Reckoned)
		tokens *= float64(m.Completion) / float64(m.Tokens)
		prompt = between(measuredLess*reckoned, measuredMore*reckoned)
		completion = between(measuredLess*tokens, measuredMore*tokens)
	} else {
		prompt = between(promptLess*reckoned, promptMore*reckoned)
		completion = between(completionLess*tokens, completionMore*tokens+briefAnswer*float64(e.Calls))
	}
	if most := int64(maxTokens) * e.Calls; maxTokens > 0 {
		completion[0], completion[1] = min(completion[0], most), min(completion[1], most)
	}
	return prompt, completion
}

// LearnCharges takes what earlier runs, of the specification was, were charged for so many calls over chunks of so many
// tokens each, where the ledger says too little.
func (e Estimate) LearnCharges(was core.Spec, calls, perChunk, prompt, completion int64) Estimate {
	if e.Measured.Calls >= measuredEnough || calls < measuredEnough {
		return e
	}
	e.Measured = Measured{
		Calls: calls, Tokens: calls * perChunk, Reckoned: calls * (promptOf(was, "").countTokens() + perChunk),
		Prompt: prompt, Completion: completion,
	}
	return e
}

// Looker is the part of the ledger that a look needs.
type Looker interface {
	Get(ctx context.Context, task string, key core.Digest, attempt int) (*ledger.Entry, error)
}

// CountIn is what is counted: chunks, and the model that would be asked, which needs no key and gets no call.
type CountIn struct {
	Spec    core.Spec
	Model   model.Info
	Ledger  Looker
	Attempt int // round of retry-failed
	Chunks  iter.Seq2[Text, error]
	OnChunk func(asked bool) // of each chunk, in their order, whether the model would be asked; may be nil
	Chooser *Chooser         // as in In
	Others  []*Chooser       // other choices, at most MostOthers, whose calls are counted too
}

// MostOthers is how many other choices are counted at once.
const MostOthers = 3

// Text is a chunk as it would be sent.
type Text struct {
	ID     core.ID
	Text   string
	Tokens int
}

// StreamTexts streams the chunks of a range for Count.
func StreamTexts(ctx context.Context, in In) iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		for x, err := range in.streamChunks(ctx) {
			if !yield(Text{x.chunk.ID, x.text, x.chunk.Tokens}, err) || err != nil {
				return
			}
		}
	}
}

// Count looks every chunk up in the ledger and counts what would be asked. It pays, claims and writes nothing. Built-in
// models cost nothing.
func Count(ctx context.Context, in CountIn) (Estimate, error) {
	var estimate Estimate
	overheads := map[core.Digest]int64{} // tokens of prompts, by request
	type looked struct {
		spec   core.Spec
		asked  core.Digest // request of spec
		tokens int64
		entry  *ledger.Entry
		rule   bool
		others []bool // of In.Others, whether the model would be asked
	}
	find := func(ctx context.Context, by *Chooser, chunk Text) (spec core.Spec, entry *ledger.Entry, err error) {
		if spec, err = by.chooseFor(ctx, in.Spec, in.Model, chunk.ID, chunk.Text); err == nil {
			entry, err = in.Ledger.Get(ctx, ledger.Extract, Key(in.Model, spec, chunk.Text), in.Attempt)
		}
		return spec, entry, err
	}
	look := func(ctx context.Context, chunk Text) (looked, error) {
		if !in.Model.Paid {
			return looked{}, nil
		}
		if !sendsChunk(in.Spec, in.Model, chunk.Text) {
			return looked{rule: true}, nil
		}
		spec, entry, err := find(ctx, in.Chooser, chunk)
		out := looked{spec: spec, asked: spec.OwnRequest().Digest(), tokens: int64(chunk.Tokens), entry: entry}
		for _, other := range in.Others {
			if err != nil {
				break
			}
			_, entry, err = find(ctx, other, chunk)
			out.others = append(out.others, entry == nil)
		}
		return out, err
	}
	for chunk, err := range parallel.MapOrdered(ctx, width, in.Chunks, look) {
		if err != nil {
			return estimate, err
		}
		estimate.Chunks++
		for i, asked := range chunk.others {
			if asked {
				estimate.Others[i]++
			}
		}
		if in.OnChunk != nil {
			in.OnChunk(in.Model.Paid && chunk.entry == nil)
		}
		overhead, known := overheads[chunk.asked]
		if !known && in.Model.Paid && !chunk.rule {
			overhead = promptOf(chunk.spec, "").countTokens()
			overheads[chunk.asked] = overhead
		}
		switch {
		case !in.Model.Paid:
		case chunk.rule:
			estimate.Rules++
		case chunk.entry != nil:
			estimate.Hits++
			estimate.Measured.addEntry(*chunk.entry, chunk.tokens, overhead)
		default:
			estimate.Calls++
			estimate.Tokens += chunk.tokens
			estimate.Prompt += overhead + chunk.tokens
			estimate.Completion += int64(completionShare * float64(chunk.tokens))
		}
	}
	return estimate, nil
}

// addEntry takes what an entry was charged for.
func (m *Measured) addEntry(entry ledger.Entry, tokens, overhead int64) {
	v, err := readEntry(entry)
	if err != nil || v.Usage.Prompt <= 0 || v.Usage.Completion <= 0 {
		return
	}
	m.Calls++
	m.Tokens += tokens
	m.Reckoned += overhead + tokens
	m.Prompt += v.Usage.Prompt
	m.Completion += v.Usage.Completion
}
