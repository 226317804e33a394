package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// dimensionText is the text sent to an embedder whose dimension is unknown.
const dimensionText = "dimension"

// findDimension finds out what dimension an embedder has: that of an index which was embedded by it, else that of its
// answer to one text, which the ledger keeps where it is paid for. 0: it would have to be asked, and pay is false.
func (r *Run) findDimension(ctx context.Context, embedder model.Embedder, pay bool) (int, error) {
	info := embedder.Info()
	if dimension, err := ServedDimension(ctx, r.Artifacts, info, r.Settings.Embedding); err != nil || dimension != 0 {
		return dimension, err
	}
	if !info.Paid || r.Ledger == nil {
		if !pay {
			return 0, nil
		}
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
	asked := core.Fingerprint{
		Provider: info.Provider, Model: info.Model, Template: dimensionText + " " + r.Settings.Embedding.BaseURL,
	}
	source := embed.Source{Embedder: embedder, Ledger: r.Ledger}
	item := []embed.Item{{Digest: embed.Digest(dimensionText, asked.Digest()), Text: dimensionText}}
	if !pay {
		if missing, err := source.FindMissing(ctx, item); err != nil || len(missing) > 0 {
			return 0, err
		}
	}
	found, err := source.Vectors(ctx, item)
	if err != nil {
		return 0, err
	}
	return len(found[0]), nil
}

// ServedDimension returns the dimension of an index that serves vectors of a model, from the same server and without a
// dimension in its configuration, as that would be a wish; 0 where there is none.
func ServedDimension(
	ctx context.Context, store blob.Store, info model.Info, wanted core.EmbedModel,
) (int, error) {
	names, err := artifact.ListIndexes(ctx, store)
	if err != nil {
		return 0, err
	}
	look := func(ctx context.Context, i int) (int, error) {
		index := artifact.Index{Store: store, Name: names[i]}
		return indexDimension(ctx, index, info, wanted)
	}
	for dimension, err := range parallel.MapOrdered(ctx, indexesAtOnce, parallel.Numbers(len(names)), look) {
		if err != nil || dimension != 0 {
			return dimension, err
		}
	}
	return 0, nil
}

// indexesAtOnce is how many indexes are looked at side by side.
const indexesAtOnce = 16

// indexDimension returns the dimension of one index. What cannot be read is passed over, unless it may be read later.
func indexDimension(
	ctx context.Context, index artifact.Index, info model.Info, wanted core.EmbedModel,
) (int, error) {
	current, _, err := index.ReadPointer(ctx)
	if err != nil || current.Manifest == "" {
		return 0, nil //nolint:nilerr // an index that serves nothing
	}
	manifest, err := index.Manifest(ctx, current.Manifest)
	if err != nil {
		return 0, keepTransient(err)
	}
	old, err := index.Spec(ctx, manifest.Spec)
	if err != nil {
		return 0, keepTransient(err)
	}
	if old.Embedding.BaseURL != wanted.BaseURL || old.Embedding.Dimension != 0 {
		return 0, nil
	}
	for _, made := range []core.Fingerprint{manifest.Chunk, manifest.Class} {
		if made.Provider == info.Provider && made.Model == info.Model {
			return made.Dimension, nil
		}
	}
	return 0, nil
}

// keepTransient gives an error that may have gone the next time, and nil for others.
func keepTransient(err error) error {
	if fault.KindOf(err) == fault.Transient {
		return err
	}
	return nil
}
