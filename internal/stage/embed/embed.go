// Package embed pays for the vectors that the parent does not have: of classes, a partition each, and of chunks, a
// shard each. What it pays for lies in the ledger, where load finds it; built-in embedders cost nothing and are left
// to load.
package embed

import (
	"context"
	"sync"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// In is what one activity works on. OnProgress is told of texts done and ledger entries that answered; nil is allowed.
type In struct {
	Env        items.Env
	Scratch    string
	Part       stage.Part
	Source     embed.Source
	OnProgress func(corpus.Progress)
}

// Result of a part.
type Result struct {
	Texts    int64           `json:"texts"` // that have their vector in the ledger now
	Progress corpus.Progress `json:"progress"`
}

// width bounds the requests of one activity in flight.
const width = 8

// Run embeds the new texts of a part. Result.Progress counts texts done and ledger entries that answered, also when it
// fails.
func Run(ctx context.Context, in In) (Result, error) {
	res := Result{Progress: corpus.Progress{Stage: "embed"}}
	if !in.Source.Embedder.Info().Paid {
		return res, nil
	}
	var mu sync.Mutex
	request := func(ctx context.Context, texts []embed.Item) (int, error) {
		_, answered, err := in.Source.Vectors(ctx, texts)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			return 0, err
		}
		res.Progress.Hits.Embed += answered.Hits.Embed
		res.Progress.Done += int64(len(texts))
		stage.Tell(in.OnProgress, res.Progress)
		return len(texts), nil
	}
	texts := in.Part.NewTexts(ctx, in.Env, in.Scratch)
	var failed error // returned behind the loop, which waits for the requests in flight
	for done, err := range par.Ordered(ctx, width, embed.Batches(texts), request) {
		if err != nil {
			failed = err
			break
		}
		res.Texts += int64(done)
	}
	return res, failed
}
