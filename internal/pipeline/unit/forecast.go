package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// forecast is what a run that was just planned may come to, so that its report can tell estimate and outcome also where
// nobody asked for a plan. No document and no segment is read for it: it goes by counts, sizes, and the reports of the
// last generations, so that its ranges are wider than those of Estimate. nil: nothing is built. It is told and nothing
// goes by it, so that what it cannot read costs the estimate alone.
func (r *Run) forecast(ctx context.Context, models model.Set, fixed run.Plan, parent *core.Manifest) *core.Estimate {
	if fixed.Plan.Unchanged || fixed.Held != "" {
		return nil
	}
	out, err := r.sized(ctx, models, fixed, parent)
	if err != nil {
		r.Log.Warn("no estimate of this run", "run_id", r.Name(), "error", err.Error())
		return nil
	}
	return out
}

func (r *Run) sized(
	ctx context.Context, models model.Set, fixed run.Plan, parent *core.Manifest,
) (*core.Estimate, error) {
	past, err := r.Past(ctx)
	if err != nil {
		return nil, err
	}
	paid := models.Chat.Info().Paid || models.Chunks.Info().Paid || models.Classes.Info().Paid
	if !paid && len(past) == 0 { // neither money nor time could be told of
		return nil, nil
	}
	size := estimate.Sized{
		Documents: fixed.Plan.Made, Added: fixed.Plan.Diff.Added, Removed: fixed.Plan.Diff.Removed,
		Again: !fixed.Part, Chunking: r.Settings.Chunking,
	}
	vectors := size.Parent
	if parent != nil {
		size.Parent = parent.Counts
		if parent.Chunk.Model == fixed.Chunk.Model && parent.Class.Model == fixed.Class.Model {
			vectors = parent.Counts
		}
	}
	for _, unit := range fixed.Plan.Units {
		size.Text += unit.Text
	}
	made := size.Chunks()
	out := &core.Estimate{Sizes: true}
	calls, extracted := r.extraction(models, size, past)
	out.Extract = widen(calls)

	tokens := size.Tokens()
	least := estimate.New{Chunks: calls.Low, Tokens: part(tokens.Low, calls.Low, made.Low), Unseen: calls.Low}
	most := estimate.New{Chunks: made.High, Tokens: tokens.High, Unseen: made.High, Gone: size.Gone()}
	if !models.Chat.Info().Paid { // the model costs nothing, and which chunks are new is not told by its calls
		least.Chunks = size.Unread().Low
		least.Tokens, least.Unseen = part(tokens.Low, least.Chunks, made.Low), least.Chunks
	}
	shortening := past.Narrow(estimate.ShortenSized(estimate.ShortenIn{
		Paid: models.Chat.Info().Paid, Shortening: r.Settings.Shortening, Parity: r.Settings.Parity,
		Parent: size.Parent, Again: size.Again, New: most,
	}, past), made.Middle(), 0, func(calls core.Calls) int64 { return calls.Shorten })

	embedding := func(paid bool, of estimate.New) estimate.EmbedIn {
		return estimate.EmbedIn{
			Paid: paid, Parent: vectors, New: of, MaxInputTokens: r.Settings.Embedding.MaxInputTokens,
			Parts: max(len(fixed.Plan.Units), 1),
		}
	}
	paid = models.Chunks.Info().Paid
	chunks := estimate.Between(estimate.EmbedChunks(embedding(paid, least)), estimate.EmbedChunks(embedding(paid, most)))
	paid = models.Classes.Info().Paid
	classes := past.Narrow(estimate.Between(
		estimate.EmbedClasses(embedding(paid, least)), estimate.EmbedClasses(embedding(paid, most)),
	), made.Middle(), chunks.Calls.Low, func(calls core.Calls) int64 { return calls.Embed })
	r.Charge(out, past, fixed.Plan.Made, extracted, shortening, chunks, classes)
	return out, nil
}

// extraction is how many chunks are extracted, and for how many tokens.
func (r *Run) extraction(models model.Set, size estimate.Sized, past estimate.Past) (estimate.Range, estimate.Task) {
	if !models.Chat.Info().Paid || size.Documents == 0 {
		return estimate.Range{}, estimate.Task{}
	}
	made, calls, tokens := size.Chunks(), size.Unread(), size.Tokens()
	if share := r.Settings.ExtractionShare(); share < 1 { // which chunks are worth it shows once they are there
		calls = estimate.Range{Low: 0, High: min(calls.High, int64(2*share*float64(calls.High))+1)}
	}
	calls = past.Narrow(estimate.Task{Calls: calls}, made.Middle(), 0,
		func(calls core.Calls) int64 { return calls.Extract }).Calls
	charged := func(calls, text int64) (prompt, completion [2]int64) {
		found := extract.Sized(calls, text)
		if paid, asked, written := past.Charged(); paid > 0 && size.Parent.Chunks > 0 {
			found = found.Taught(paid, size.Parent.Tokens/size.Parent.Chunks, asked, written)
		}
		return found.Charged(r.Settings.Chat.MaxTokens)
	}
	prompt, completion := charged(calls.Low, part(tokens.Low, calls.Low, made.Low))
	most, longest := charged(calls.High, part(tokens.High, calls.High, made.High))
	return calls, estimate.Task{
		Prompt:     estimate.Range{Low: prompt[0], High: most[1]},
		Completion: estimate.Range{Low: completion[0], High: longest[1]},
	}
}

// part of an amount that so many of all have.
func part(amount, of, all int64) int64 {
	if all == 0 {
		return 0
	}
	return int64(float64(amount) * min(1, float64(of)/float64(all)))
}
