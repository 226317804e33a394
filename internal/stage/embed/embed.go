// Package embed pays for the vectors that the parent does not have: of classes, a partition each, and of chunks, a
// shard each. What it pays for lies in the ledger, where load finds it; built-in embedders cost nothing and are left
// to load.
package embed

import (
	"context"
	"iter"
	"sync"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// In is what one activity works on.
type In struct {
	Env        items.Env
	Scratch    string
	Source     embed.Source
	OnProgress func(corpus.Progress)
}

// width bounds the requests of one activity in flight.
const width = 8

// Classes embeds the new class texts of a partition.
func Classes(ctx context.Context, in In, reduced, short, from string) (corpus.Progress, error) {
	return run(ctx, in, func(yield func(embed.Item, error) bool) {
		for class, err := range in.Env.Classes(ctx, reduced, short, from) {
			if err == nil && class.HasVector {
				continue
			}
			if err != nil {
				yield(embed.Item{}, err)
				return
			}
			if !yield(class.Item(), nil) {
				return
			}
		}
	})
}

// Chunks embeds the new windows of a shard.
func Chunks(ctx context.Context, in In, sh items.Shard) (corpus.Progress, error) {
	fp := in.Env.Chunk.Digest()
	return run(ctx, in, func(yield func(embed.Item, error) bool) {
		for chunk, err := range in.Env.Chunks(ctx, sh, items.Refs(ctx, in.Env.Artifacts.Store, in.Scratch, sh.Unit, sh.From, sh.To)) {
			if err != nil {
				yield(embed.Item{}, err)
				return
			}
			if chunk.HasVector {
				continue
			}
			for _, it := range chunk.Items(fp) {
				if !yield(it, nil) {
					return
				}
			}
		}
	})
}

func run(ctx context.Context, in In, src iter.Seq2[embed.Item, error]) (corpus.Progress, error) {
	total := corpus.Progress{Stage: "embed"}
	if !in.Source.Embedder.Info().Paid {
		return total, nil
	}
	var mu sync.Mutex
	for _, err := range par.Ordered(ctx, width, embed.Batches(src), func(ctx context.Context, b []embed.Item) (int, error) {
		_, p, err := in.Source.Vectors(ctx, b)
		mu.Lock()
		defer mu.Unlock()
		Add(&total, p)
		if err == nil {
			total.Done += int64(len(b))
		}
		in.OnProgress(total)
		return len(b), err
	}) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			return total, err
		}
	}
	return total, nil
}

// Add sums what was paid.
func Add(progress *corpus.Progress, p corpus.Progress) {
	progress.Calls.Embed += p.Calls.Embed
	progress.Hits.Embed += p.Hits.Embed
	progress.Tokens.Embedding += p.Tokens.Embedding
	progress.Cost += p.Cost
}
