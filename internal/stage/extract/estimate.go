package extract

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// Estimate is what extracting chunks would cost: an exact count of the chunks that the ledger does not know.
type Estimate struct {
	Chunks     int64 `json:"chunks"`
	Calls      int64 `json:"calls"`
	Hits       int64 `json:"hits"`
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
}

// completionShare is how many tokens a model writes for each token of a chunk (measured on recorded extractions).
const completionShare = 1.3

// Looker is the part of the ledger that a look needs.
type Looker interface {
	Get(ctx context.Context, task string, key corpus.Digest, attempt int) (*ledger.Entry, error)
}

// CountIn is what is counted: chunks, and the model that would be asked, which needs no key and gets no call.
type CountIn struct {
	Model   model.Info
	Ledger  Looker
	Attempt int // round of retry-failed
	Chunks  iter.Seq2[Text, error]
}

// Text is a chunk as it would be sent.
type Text struct {
	Text   string
	Tokens int
}

// Texts streams the chunks of a range for Count.
func Texts(ctx context.Context, in In) iter.Seq2[Text, error] {
	return func(yield func(Text, error) bool) {
		for x, err := range in.chunks(ctx) {
			if !yield(Text{x.text, x.chunk.Tokens}, err) || err != nil {
				return
			}
		}
	}
}

// Count looks every chunk up in the ledger and counts what would be asked. It pays, claims and writes nothing. Built-in
// models cost nothing.
func Count(ctx context.Context, in CountIn) (Estimate, error) {
	var estimate Estimate
	overhead := int64(tokens.Count(system))
	type looked struct {
		tokens int64
		known  bool
	}
	look := func(ctx context.Context, chunk Text) (looked, error) {
		if !in.Model.Paid {
			return looked{}, nil
		}
		key, former := Key(in.Model, chunk.Text), before(in.Model, chunk.Text)
		entry, err := ledger.GetEither(ctx, in.Ledger, ledger.Extract, key, former, in.Attempt)
		return looked{int64(chunk.Tokens), entry != nil}, err
	}
	for chunk, err := range par.Ordered(ctx, width, in.Chunks, look) {
		if err != nil {
			return estimate, err
		}
		estimate.Chunks++
		switch {
		case !in.Model.Paid:
		case chunk.known:
			estimate.Hits++
		default:
			estimate.Calls++
			estimate.Prompt += overhead + chunk.tokens
			estimate.Completion += int64(completionShare * float64(chunk.tokens))
		}
	}
	return estimate, nil
}
