package upkeep

import (
	"context"
	"encoding/json"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// accounting sums what the paid results behind a generation were charged for.
type accounting struct {
	*estimating
	spent core.IndexTokens
	seen  map[core.Digest]bool // keys and embedded texts, each of which is paid for once
}

// accounts returns what the published generation would cost in a store that holds nothing: calls as the ledger has them
// charged, whenever and by whichever index that was; embeddings, of which the ledger keeps no charge, by our tokenizer.
func (e *estimating) accounts(ctx context.Context) (*core.IndexTokens, error) {
	a := accounting{estimating: e, seen: map[core.Digest]bool{}}
	if e.parent == nil {
		return &a.spent, nil
	}
	for _, part := range []func(context.Context) error{a.extractions, a.classes, a.chunks} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	return &a.spent, nil
}

func (a *accounting) extractions(ctx context.Context) error {
	table, err := a.Table(ctx, a.parent)
	if err != nil {
		return err
	}
	defer table.Release()
	for _, segment := range a.parent.Segments.Extract {
		for row, err := range artifact.ScanAll(ctx, a.Index.Store, a.Index.SegmentKey(segment.SHA256)) {
			if err != nil {
				return err
			}
			if _, counts := table.Chunk(core.ID(row.Key)); !counts {
				continue
			}
			found, err := rows.DecodeExtract(row.Value)
			if err == nil {
				err = a.charge(ctx, ledger.Extract, found.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *accounting) classes(ctx context.Context) error {
	table, err := a.Table(ctx, a.parent)
	if err != nil {
		return err
	}
	defer table.Release()
	ids := make([]core.ID, 0, a.parent.Counts.Classes)
	for id := range table.Classes() {
		ids = append(ids, id)
	}
	for row, err := range table.ClassRows(ctx, a.Index, a.parent.Segments.Classes, ids) {
		if err != nil {
			return err
		}
		for _, key := range row.Keys {
			if err := a.charge(ctx, ledger.Shorten, key); err != nil {
				return err
			}
		}
		text, err := row.Text()
		if err != nil {
			return err
		}
		a.spent.Classes += a.embedded(a.models.Classes, "class", embed.Fit(text, a.Settings.Embedding.MaxInputTokens))
	}
	return nil
}

func (a *accounting) chunks(ctx context.Context) error {
	if !a.models.Chunks.Info().Paid {
		return nil
	}
	for chunk, err := range a.ChunkTexts(ctx, a.parent, 0, 1) {
		if err != nil {
			return err
		}
		if a.Settings.Parity {
			chunk.Title = ""
		}
		for _, window := range embed.Windows(chunk.Title, chunk.Text, a.Settings.Embedding.MaxInputTokens) {
			a.spent.Chunks += a.embedded(a.models.Chunks, "chunk", window)
		}
	}
	return nil
}

// charge adds what an entry of the ledger was charged for; results that cost nothing have no key.
func (a *accounting) charge(ctx context.Context, task string, key core.Digest) error {
	if key.IsZero() || a.seen[key] {
		return nil
	}
	a.seen[key] = true
	entry, err := a.Ledger.Get(ctx, task, key, a.Attempt)
	if err != nil || entry == nil {
		return err
	}
	var charged struct {
		Usage model.Usage `json:"usage"`
	}
	if err := json.Unmarshal(entry.Value, &charged); err != nil {
		return fault.SegmentDamage.At("read ledger entry of", task).Because(err)
	}
	a.spent.Prompt += charged.Usage.Prompt
	a.spent.Completion += charged.Usage.Completion
	return nil
}

// embedded counts the tokens of a text that is paid for, once for each kind of row.
func (a *accounting) embedded(embedder model.Embedder, kind, text string) int64 {
	key := core.Sum(kind, text)
	if !embedder.Info().Paid || a.seen[key] {
		return 0
	}
	a.seen[key] = true
	return int64(tokens.Count(text))
}
