package build

import (
	"context"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// dimensionText is what an embedder is sent whose dimension nobody knows.
const dimensionText = "dimension"

// dimension finds out what dimension an embedder has: that of an index which was embedded by it, else that of its
// answer to one text, which the ledger keeps where it is paid for.
func (r *Run) dimension(ctx context.Context, embedder model.Embedder) (int, error) {
	info := embedder.Info()
	if dimension, err := servedDimension(ctx, r.Artifacts, info, r.Settings.Embedding); err != nil || dimension != 0 {
		return dimension, err
	}
	if !info.Paid || r.Ledger == nil {
		dimension := 0
		err := retry.Do(ctx, func(ctx context.Context) error {
			found, _, err := embedder.Embed(ctx, []string{dimensionText})
			if err == nil {
				dimension = len(found[0])
			}
			return err
		})
		return dimension, err
	}
	asked := corpus.Fingerprint{
		Provider: info.Provider, Model: info.Model, Template: dimensionText + " " + r.Settings.Embedding.BaseURL,
	}
	source := embed.Source{Embedder: embedder, Ledger: r.Ledger}
	found, err := source.Vectors(ctx, []embed.Item{
		{Digest: embed.Digest(dimensionText, asked.Digest()), Text: dimensionText},
	})
	if err != nil {
		return 0, err
	}
	return len(found[0]), nil
}

// servedDimension is the dimension of an index that serves vectors of a model, from the same server and without a
// dimension in its configuration, as that would be a wish; 0 where there is none.
func servedDimension(
	ctx context.Context, store blob.Store, info model.Info, wanted corpus.EmbedModel,
) (int, error) {
	names, err := artifact.Names(ctx, store)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		index := artifact.Index{Store: store, Name: name}
		current, _, err := index.Current(ctx)
		if err != nil || current.Manifest == "" {
			continue
		}
		manifest, err := index.Manifest(ctx, current.Manifest)
		if err != nil && fault.KindOf(err) == fault.Transient {
			return 0, err
		}
		if err != nil {
			continue
		}
		old, err := index.Spec(ctx, manifest.Spec)
		if err != nil && fault.KindOf(err) == fault.Transient {
			return 0, err
		}
		if err != nil || old.Embedding.BaseURL != wanted.BaseURL || old.Embedding.Dimension != 0 {
			continue
		}
		for _, made := range []corpus.Fingerprint{manifest.Chunk, manifest.Class} {
			if made.Provider == info.Provider && made.Model == info.Model {
				return made.Dimension, nil
			}
		}
	}
	return 0, nil
}
