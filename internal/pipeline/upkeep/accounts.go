package upkeep

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// accounting sums what the paid results behind a generation were charged for.
type accounting struct {
	*estimating
	spent core.IndexTokens
	seen  map[core.Digest]bool // keys and embedded texts, each of which is paid for once
	paid  []paidResult
}

// paidResult names an entry of the ledger.
type paidResult struct {
	task string
	key  core.Digest
}

// chargesAtOnce is how many entries are read at once.
const chargesAtOnce = 64

// countTokens returns what the published generation would cost in a store that holds nothing: calls as the ledger has
// them charged, whenever and by whichever index that was; embeddings, of which the ledger keeps no charge, by our
// tokenizer.
func (e *estimating) countTokens(ctx context.Context) (*core.IndexTokens, error) {
	a := accounting{estimating: e, seen: map[core.Digest]bool{}}
	if e.parent == nil {
		return &a.spent, nil
	}
	table, err := a.OpenTable(ctx, a.parent)
	if err != nil {
		return nil, err
	}
	defer table.Release()
	if err := a.listExtractions(ctx, table); err != nil {
		return nil, err
	}
	if err := a.countClasses(ctx, table); err != nil {
		return nil, err
	}
	if err := a.countChunks(ctx); err != nil {
		return nil, err
	}
	return &a.spent, a.sumCharges(ctx)
}

func (a *accounting) listExtractions(ctx context.Context, table *segments.Table) error {
	for _, segment := range a.parent.Segments.Extract {
		for row, err := range artifact.ScanAll(ctx, a.Index.Store, a.Index.SegmentKey(segment.SHA256)) {
			if err != nil {
				return err
			}
			if _, counts := table.FindChunk(core.ID(row.Key)); !counts {
				continue
			}
			found, err := rows.DecodeExtract(row.Value)
			if err != nil {
				return err
			}
			a.noteEntry(ledger.Extract, found.Key)
		}
	}
	return nil
}

func (a *accounting) countClasses(ctx context.Context, table *segments.Table) error {
	ids := make([]core.ID, 0, a.parent.Counts.Classes)
	for class := range table.ClassesLeft(nil) {
		ids = append(ids, class.ID)
	}
	for row, err := range table.ClassRows(ctx, a.Index, a.parent.Segments.Classes, ids) {
		if err != nil {
			return err
		}
		for _, key := range row.Keys {
			a.noteEntry(ledger.Shorten, key)
		}
		text, err := row.ReadText()
		if err != nil {
			return err
		}
		a.spent.Classes += a.countEmbedded(a.models.Classes, "class", embed.Fit(text, a.Settings.Embedding.MaxInputTokens))
	}
	return nil
}

func (a *accounting) countChunks(ctx context.Context) error {
	if !a.models.Chunks.Info().Paid {
		return nil
	}
	for chunk, err := range a.ChunkTexts(ctx, a.parent, 0, 1) {
		if err != nil {
			return err
		}
		for _, window := range embed.CutWindows(chunk.Title, chunk.Text, a.Settings.Embedding.MaxInputTokens) {
			a.spent.Chunks += a.countEmbedded(a.models.Chunks, "chunk", window)
		}
	}
	return nil
}

// noteEntry notes an entry of the ledger; results that cost nothing have no key.
func (a *accounting) noteEntry(task string, key core.Digest) {
	if !key.IsZero() && !a.seen[key] {
		a.seen[key] = true
		a.paid = append(a.paid, paidResult{task, key})
	}
}

// sumCharges adds what the entries that are listed were charged for.
func (a *accounting) sumCharges(ctx context.Context) error {
	var mu sync.Mutex
	return parallel.Each(ctx, len(a.paid), chargesAtOnce, func(ctx context.Context, i int) error {
		entry, err := a.Ledger.Get(ctx, a.paid[i].task, a.paid[i].key, a.Attempt)
		if err != nil || entry == nil {
			return err
		}
		var charged struct {
			Usage model.Usage `json:"usage"`
		}
		if err := json.Unmarshal(entry.Value, &charged); err != nil {
			return fault.SegmentDamage.At("read ledger entry of", a.paid[i].task).Because(err)
		}
		mu.Lock()
		defer mu.Unlock()
		a.spent.Prompt += charged.Usage.Prompt
		a.spent.Completion += charged.Usage.Completion
		return nil
	})
}

// countEmbedded counts the tokens of a text that is paid for, once for each kind of row.
func (a *accounting) countEmbedded(embedder model.Embedder, kind, text string) int64 {
	key := core.Sum(kind, text)
	if !embedder.Info().Paid || a.seen[key] {
		return 0
	}
	a.seen[key] = true
	return int64(tokens.Count(text))
}
