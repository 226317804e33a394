// Package embed pays for the vectors that the parent generation does not have: for classes one partition at a time, for
// chunks one shard at a time. The vectors are kept in the ledger, where package load finds them. Built-in embedders
// cost nothing, so load computes those vectors itself.
package embed

import (
	"context"
	"iter"
	"sync"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// In is what one activity works on. OnProgress receives classes or chunks done, and of vectors that the ledger had;
// nil is allowed.
type In struct {
	Env        join.Env
	Scratch    string
	Part       stage.Part
	Source     embed.Source
	OnProgress func(core.Progress)
}

// Result of a part.
type Result struct {
	Texts    int64         `json:"texts"` // classes or chunks that have their vectors in the ledger now
	Progress core.Progress `json:"progress"`
}

const (
	width     = 8    // requests of one activity in flight
	lookWidth = 4    // look-ups of one activity in flight
	lookTexts = 1024 // texts of a look-up: neighbours are found together
)

// Run embeds the new texts of a part. Result.Progress counts what OnProgress receives, also when it fails.
func Run(ctx context.Context, in In) (Result, error) {
	e := &embedder{In: in}
	e.res.Progress.Stage = "embed"
	if !in.Source.Embedder.Info().Paid {
		return e.res, nil
	}
	var failed error // returned behind the loop, which waits for the requests in flight
	for _, err := range parallel.MapOrdered(ctx, width, embed.CutBatches(e.streamMissing(ctx)), e.payTexts) {
		if err != nil {
			failed = err
			break
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.res.Texts = e.res.Progress.Done
	return e.res, failed
}

type embedder struct {
	In
	mu  sync.Mutex
	res Result
}

// countDone counts classes or chunks that have their vectors, and vectors that the ledger had.
func (e *embedder) countDone(done, had int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.res.Progress.Done += int64(done)
	e.res.Progress.Hits.Embed += int64(had)
	stage.ReportProgress(e.OnProgress, e.res.Progress)
}

// payTexts pays for a request. A model inside this process says meanwhile how far it is; what was counted of a request
// that fails is taken back.
func (e *embedder) payTexts(ctx context.Context, texts []embed.Item) (struct{}, error) {
	whole := countItems(texts)
	var mu sync.Mutex
	var vectors, counted int
	count := func(done int) {
		e.countDone(done-counted, 0)
		counted = done
	}
	err := e.Source.Pay(model.WithProgress(ctx, func(more int) {
		mu.Lock()
		defer mu.Unlock()
		vectors = min(vectors+more, len(texts))
		count(whole * vectors / len(texts))
	}), texts)
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		whole = 0
	}
	count(whole)
	return struct{}{}, err
}

// countItems counts the classes or chunks that texts are of.
func countItems(texts []embed.Item) (n int) {
	for _, text := range texts {
		if text.Window == 0 {
			n++
		}
	}
	return n
}

// streamMissing streams the texts of the part that the ledger does not have.
func (e *embedder) streamMissing(ctx context.Context) iter.Seq2[embed.Item, error] {
	look := func(ctx context.Context, texts []embed.Item) ([]embed.Item, error) {
		missing, err := e.Source.FindMissing(ctx, texts)
		if err == nil {
			e.countDone(countItems(texts)-countItems(missing), len(texts)-len(missing))
		}
		return missing, err
	}
	return func(yield func(embed.Item, error) bool) {
		texts := parallel.Batch(e.Part.NewTexts(ctx, e.Env, e.Scratch), lookTexts)
		for missing, err := range parallel.MapOrdered(ctx, lookWidth, texts, look) {
			if err != nil {
				yield(embed.Item{}, err)
				return
			}
			for _, text := range missing {
				if !yield(text, nil) {
					return
				}
			}
		}
	}
}
