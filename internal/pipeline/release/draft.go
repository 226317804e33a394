package release

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
)

// WriteSegments writes what queries map, and the manifest as a draft.
func (r *Run) WriteSegments(ctx context.Context) (core.Manifest, error) {
	return unit.FinishBusy(ctx, r.Run, run.ManifestFile, func(
		ctx context.Context, progress *core.Progress,
	) (core.Manifest, error) {
		manifest, err := r.draftManifest(ctx)
		if err != nil {
			return manifest, err
		}
		if err := r.WriteSplits(ctx, &manifest, &progress.Written); err != nil {
			return manifest, err
		}
		if err := r.MergeVectors(ctx, &manifest, &progress.Written); err != nil {
			return manifest, err
		}
		if err := r.cleanseFiles(ctx, &manifest, &progress.Written); err != nil {
			return manifest, err
		}
		return manifest, r.Remember(ctx, &manifest)
	})
}

// draftManifest gathers what the stages wrote into a manifest.
func (r *Run) draftManifest(ctx context.Context) (manifest core.Manifest, err error) {
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return manifest, err
	}
	shards, err := run.ShardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return manifest, err
	}
	partitions, err := run.PartitionsFile.Read(ctx, r.Scratch)
	if err != nil {
		return manifest, err
	}
	models, err := r.ModelSet()
	if err != nil {
		return manifest, err
	}
	manifest = core.Manifest{
		Format: core.ManifestFormat, Index: r.Job.Index, Family: fixed.Family, Generation: r.Generation,
		Parent: fixed.Parent, Store: r.StoreID,
		Config: r.Settings.ConfigDigest(), Made: run.MadeBy(r.Settings), Created: fixed.Started, Limits: r.Limits.Key(),
		Class: fixed.Class, Chunk: fixed.Chunk,
		Partitions: partitions.Partitions, Collections: fixed.Collections, Counts: shards.Counts, Hashes: shards.Hashes,
		Trust: fixed.Trust.RecordedTrust(), Aliases: fixed.Aliases,
		Models: summarizeModels(r.Settings, models), Labelled: r.Settings.ReadAs().Labels.IsOn(),
	}
	if !fixed.Extraction.IsEmpty() {
		manifest.Extraction = &fixed.Extraction
	}
	if err := manifest.Spec.UnmarshalText([]byte(r.Spec)); err != nil {
		return manifest, err
	}
	before, err := r.ReadParent(ctx, fixed.Parent) // also of a rebuild: the ledger knows its rounds
	if err != nil {
		return manifest, err
	}
	if manifest.Round = r.Attempt; before != nil {
		manifest.Round = max(manifest.Round, before.Round)
	}
	if fixed.IDF != nil {
		manifest.Segments.IDF = []core.Segment{*fixed.IDF}
	}
	manifest.Counts.DeadLetters, manifest.Counts.Refused = partitions.Dead, partitions.Refused
	if err := r.addSegments(ctx, &manifest, len(fixed.Plan.Units), len(shards.Shards)); err != nil {
		return manifest, err
	}
	return manifest, r.addVectors(ctx, &manifest, fixed.Source(), len(shards.Shards))
}

// addSegments adds what chunk, extract and reduce wrote.
func (r *Run) addSegments(ctx context.Context, manifest *core.Manifest, units, shards int) error {
	for chunked, err := range run.ReadEach(ctx, r.BaseRun(), units, run.ChunkFile) {
		if err != nil {
			return err
		}
		manifest.Segments.Text = append(manifest.Segments.Text, chunked.Text)
		manifest.Segments.Documents = append(manifest.Segments.Documents, chunked.Documents)
	}
	for seal, err := range run.ReadEach(ctx, r.BaseRun(), shards, run.SealFile) {
		if err != nil {
			return err
		}
		manifest.Segments.Extract = append(manifest.Segments.Extract, seal.Extract)
		manifest.Segments.Mentions = append(manifest.Segments.Mentions, seal.Kept)
	}
	for reduced, err := range run.ReadEach(ctx, r.BaseRun(), manifest.Partitions, run.ReduceFile) {
		if err != nil {
			return err
		}
		manifest.Counts.Mentions += reduced.Counts.Mentions
		manifest.Counts.Edges += reduced.Counts.Edges
		manifest.Hashes.Content.Merge(reduced.Content)
	}
	r.Progress.Touch()
	return nil
}

// addVectors adds what load wrote, and the parent's vectors that are still used.
func (r *Run) addVectors(ctx context.Context, manifest *core.Manifest, parentSHA string, shards int) error {
	parent, err := r.ReadParent(ctx, parentSHA)
	if err != nil {
		return err
	}
	segments := &manifest.Segments
	if parent != nil && parent.Collections.Classes == manifest.Collections.Classes {
		segments.ClassVecs = append(segments.ClassVecs, parent.Segments.ClassVecs...)
	}
	if parent != nil && parent.Collections.Chunks == manifest.Collections.Chunks {
		segments.ChunkVecs = append(segments.ChunkVecs, parent.Segments.ChunkVecs...)
	}
	part := -1
	for loaded, err := range run.ReadEach(ctx, r.BaseRun(), manifest.Partitions+shards, run.LoadFile) {
		if err != nil {
			return err
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
		segments.Chunks = append(segments.Chunks, loaded.Chunks)
		manifest.Counts.Windows += loaded.Counts.Windows
		if loaded.Vectors.SHA256 != "" {
			segments.ChunkVecs = append(segments.ChunkVecs, loaded.Vectors)
		}
	}
	r.Progress.Touch()
	return nil
}

// summarizeModels names the models of a configuration, by the roles that have their own.
func summarizeModels(spec core.Spec, models model.Set) core.ModelSummary {
	out := core.ModelSummary{Chat: models.Extractor().Info().Label(), Embedding: models.Chunks.Info().Label()}
	for _, role := range []string{core.RoleShortening, core.RoleTriples, core.RoleAnswer, core.RoleVision} {
		if role == core.RoleVision && spec.VisionBy() == nil {
			continue
		}
		own := spec.ChatOf(role)
		if label := (model.Info{Provider: own.Provider, Model: own.Model}).Label(); label != out.Chat {
			if out.Roles == nil {
				out.Roles = map[string]string{}
			}
			out.Roles[role] = label
		}
	}
	return out
}
