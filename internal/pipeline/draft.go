package pipeline

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/segment"
)

// WriteSegments writes what queries map, and the manifest as a draft.
func (r *Run) WriteSegments(ctx context.Context) (core.Manifest, error) {
	return finished(ctx, r, manifestFile, func(ctx context.Context) (core.Manifest, core.Progress, error) {
		progress := core.Progress{Done: 1}
		release, err := r.Place(ctx)
		if err != nil {
			return core.Manifest{}, progress, err
		}
		defer release()
		manifest, live, err := r.draft(ctx)
		if err != nil {
			return manifest, progress, err
		}
		if r.Splits {
			if err := r.writeSplits(ctx, &manifest, &progress.Written); err != nil {
				return manifest, progress, err
			}
			if err := r.mergeVectors(ctx, &manifest, &progress.Written); err != nil {
				return manifest, progress, err
			}
			if err := r.cleanse(ctx, &manifest, &progress.Written); err != nil {
				return manifest, progress, err
			}
			return manifest, progress, r.remember(ctx, &manifest)
		}
		in := segment.In{
			Artifacts: r.Index, Scratch: r.Scratch.Prefix, Segments: manifest.Segments,
			Shards: len(manifest.Segments.Extract), Live: live, OnProgress: r.touch,
		}
		written, fresh, err := segment.Live(ctx, in)
		if err != nil {
			return manifest, progress, err
		}
		manifest.Segments.Live = []core.Segment{written}
		if fresh {
			progress.Written.Segments++
		}
		settings, err := r.withNames(ctx)
		if err != nil {
			return manifest, progress, err
		}
		if written, fresh, err = r.writeSearch(ctx, manifest.Segments, settings); err != nil {
			return manifest, progress, err
		}
		manifest.Segments.Search = []core.Segment{written}
		if fresh {
			progress.Written.Segments++
		}
		return manifest, progress, r.remember(ctx, &manifest)
	})
}

// writeSearch makes the search segment from the segments of a generation.
func (r *Run) writeSearch(
	ctx context.Context, segments core.Segments, settings core.Spec,
) (core.Segment, bool, error) {
	live, release, err := r.segments.live(ctx, r, segments.Live[0].SHA256)
	defer release()
	if err != nil {
		return core.Segment{}, false, err
	}
	return segment.Search(ctx, segment.SearchIn{
		Artifacts: r.Index, Segments: segments, Live: live, Spec: settings, OnProgress: r.touch,
	})
}

// draft gathers what the stages wrote into a manifest, and the names of the shards' files for the live segment.
func (r *Run) draft(ctx context.Context) (manifest core.Manifest, live []string, err error) {
	fixed, err := r.fixed(ctx)
	if err != nil {
		return manifest, nil, err
	}
	shards, err := shardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return manifest, nil, err
	}
	partitions, err := partitionsFile.Read(ctx, r.Scratch)
	if err != nil {
		return manifest, nil, err
	}
	models, err := r.models()
	if err != nil {
		return manifest, nil, err
	}
	manifest = core.Manifest{
		Format: core.ManifestWhole, Index: r.Job.Index, Family: fixed.Family, Generation: r.Generation,
		Parent: fixed.Parent, Store: r.StoreID,
		Config: r.Settings.ConfigDigest(), Made: MadeBy(r.Settings), Created: fixed.Started, Limits: r.Limits.Key(),
		Class: fixed.Class, Chunk: fixed.Chunk,
		Partitions: partitions.Partitions, Collections: fixed.Collections, Counts: shards.Counts, Hashes: shards.Hashes,
		Trust: fixed.Trust.recorded(), Aliases: fixed.Aliases,
		Models: core.ModelSummary{Chat: models.Chat.Info().Label(), Embedding: models.Chunks.Info().Label()},
	}
	if err := manifest.Spec.UnmarshalText([]byte(r.Spec)); err != nil {
		return manifest, nil, err
	}
	if fixed.IDF != nil {
		manifest.Segments.IDF = []core.Segment{*fixed.IDF}
	}
	manifest.Counts.Fallbacks, manifest.Counts.DeadLetters = partitions.Fallbacks, partitions.Dead
	manifest.Counts.Refused = partitions.Refused
	if r.Splits {
		manifest.Format = core.ManifestPlaced
	}
	if err := r.drafted(ctx, &manifest, len(fixed.Plan.Units), len(shards.Shards)); err != nil {
		return manifest, nil, err
	}
	live, err = r.loaded(ctx, &manifest, fixed.source(), len(shards.Shards))
	return manifest, live, err
}

// drafted adds what chunk, extract and reduce wrote.
func (r *Run) drafted(ctx context.Context, manifest *core.Manifest, units, shards int) error {
	for chunked, err := range each(ctx, r, units, chunkFile) {
		if err != nil {
			return err
		}
		manifest.Segments.Text = append(manifest.Segments.Text, chunked.Text)
		manifest.Segments.Documents = append(manifest.Segments.Documents, chunked.Documents)
	}
	for seal, err := range each(ctx, r, shards, sealFile) {
		if err != nil {
			return err
		}
		manifest.Segments.Extract = append(manifest.Segments.Extract, seal.Extract)
		if r.Splits {
			manifest.Segments.Mentions = append(manifest.Segments.Mentions, seal.Kept)
		}
	}
	for reduced, err := range each(ctx, r, manifest.Partitions, reduceFile) {
		if err != nil {
			return err
		}
		if !r.Splits {
			manifest.Segments.Mentions = append(manifest.Segments.Mentions, reduced.Mentions)
		}
		manifest.Counts.Fallbacks += reduced.Fallbacks
		manifest.Counts.Mentions += reduced.Counts.Mentions
		manifest.Counts.Edges += reduced.Counts.Edges
		manifest.Hashes.Content.Merge(reduced.Content)
	}
	r.Progress.Touch()
	return nil
}

// loaded adds what load wrote, and the parent's vectors that are still used. It gives the names of the shards' files
// for the live segment.
func (r *Run) loaded(
	ctx context.Context, manifest *core.Manifest, parentSHA string, shards int,
) (live []string, err error) {
	parent, err := r.parent(ctx, parentSHA)
	if err != nil {
		return nil, err
	}
	segments := &manifest.Segments
	if parent != nil && parent.Collections.Classes == manifest.Collections.Classes {
		segments.ClassVecs = append(segments.ClassVecs, parent.Segments.ClassVecs...)
	}
	if parent != nil && parent.Collections.Chunks == manifest.Collections.Chunks {
		segments.ChunkVecs = append(segments.ChunkVecs, parent.Segments.ChunkVecs...)
	}
	part := -1
	for loaded, err := range each(ctx, r, manifest.Partitions+shards, loadFile) {
		if err != nil {
			return nil, err
		}
		part++
		manifest.Hashes.Merge(loaded.Hashes)
		if part < manifest.Partitions {
			segments.Classes = append(segments.Classes, loaded.Rows)
			manifest.Counts.Classes += loaded.Counts.Classes
			if loaded.Vectors.SHA256 != "" {
				segments.ClassVecs = append(segments.ClassVecs, loaded.Vectors)
			}
			continue
		}
		if r.Splits {
			segments.Chunks = append(segments.Chunks, loaded.Chunks)
		}
		live = append(live, loaded.Live)
		manifest.Counts.Windows += loaded.Counts.Windows
		if loaded.Vectors.SHA256 != "" {
			segments.ChunkVecs = append(segments.ChunkVecs, loaded.Vectors)
		}
	}
	r.Progress.Touch()
	return live, nil
}
