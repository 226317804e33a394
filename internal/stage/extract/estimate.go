package extract

import (
	"context"

	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// Estimate is what a shard would cost.
type Estimate struct {
	Chunks     int64 `json:"chunks"`
	Calls      int64 `json:"calls"`
	Hits       int64 `json:"hits"`
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
}

// completionShare is how many tokens a model writes for each token of a chunk (measured on recorded extractions).
const completionShare = 1.3

// Count looks every chunk up in the ledger and counts what would be asked; it pays nothing.
func Count(ctx context.Context, in In) (Estimate, error) {
	b := &batch{In: in}
	var estimate Estimate
	xs, err := b.load(ctx)
	if err != nil {
		return estimate, err
	}
	info := in.Chat.Info()
	overhead := int64(tokens.Count(system))
	for i := range xs {
		estimate.Chunks++
		if !info.Paid {
			continue
		}
		hit, err := in.Ledger.Get(
			ctx,
			ledger.Extract,
			ledger.Key(ledger.Extract, Prompt, info.Model, info.Parameters, SchemaVersion, xs[i].text),
			in.Attempt,
		)
		if err != nil {
			return estimate, err
		}
		if hit != nil {
			estimate.Hits++
			continue
		}
		estimate.Calls++
		estimate.Prompt += overhead + int64(xs[i].chunk.Tokens)
		estimate.Completion += int64(completionShare * float64(xs[i].chunk.Tokens))
	}
	return estimate, nil
}
