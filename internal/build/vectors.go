package build

import (
	"context"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	embedstage "github.com/unweaver/unweaver/internal/stage/embed"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/shorten"
)

// half tells which half of the stages with two kinds a part is: a class partition, or (shard >= 0) a shard of chunks.
func (r *Run) half(ctx context.Context, part int) (partitions Partitions, shard int, err error) {
	partitions, err = partitionsFile.Read(ctx, r.Scratch)
	return partitions, part - partitions.Partitions, err
}

// shardItems gives the segments of a shard of chunks.
func (r *Run) shardItems(ctx context.Context, number int) (items.Shard, error) {
	shard, chunked, err := r.shard(ctx, number)
	if err != nil {
		return items.Shard{}, err
	}
	seal, err := sealFile(number).Read(ctx, r.Scratch)
	if err != nil {
		return items.Shard{}, err
	}
	return items.Shard{
		Unit: shard.Unit, From: shard.From, To: shard.To, Text: chunked.Text, Extract: seal.Extract,
	}, nil
}

// Embed pays for the new vectors of a class partition or of a shard of chunks.
func (r *Run) Embed(ctx context.Context, part int) (corpus.Progress, error) {
	return finished(ctx, r, embedFile(part), func(ctx context.Context) (corpus.Progress, corpus.Progress, error) {
		var out corpus.Progress
		models, err := r.models()
		if err != nil {
			return out, out, err
		}
		env, fixed, release, err := r.items(ctx)
		defer release()
		if err != nil {
			return out, out, err
		}
		unweigh, err := r.weigh(ctx, fixed.Frozen, &models)
		defer unweigh()
		if err != nil {
			return out, out, err
		}
		partitions, shard, err := r.half(ctx, part)
		if err != nil {
			return out, out, err
		}
		in := embedstage.In{
			Env: env, Scratch: r.Scratch.Prefix, OnProgress: r.alive,
			Source: embed.Source{Embedder: models.Classes, Ledger: r.Ledger},
		}
		if shard < 0 {
			from, _ := reduce.Bounds(part, partitions.Partitions)
			out, err = embedstage.Classes(
				ctx, in, reduce.Key(r.Scratch.Prefix, part), shorten.Key(r.Scratch.Prefix, part), from)
		} else {
			in.Source.Embedder = models.Chunks
			var chunks items.Shard
			if chunks, err = r.shardItems(ctx, shard); err == nil {
				out, err = embedstage.Chunks(ctx, in, chunks)
			}
		}
		out.Done = 1
		return out, out, err
	})
}

// Load writes the new rows and records of a class partition, or the new rows of a shard of chunks.
func (r *Run) Load(ctx context.Context, part int) (load.Result, error) {
	return finished(ctx, r, loadFile(part), func(ctx context.Context) (load.Result, corpus.Progress, error) {
		release, err := r.Place(ctx)
		if err != nil {
			return load.Result{}, corpus.Progress{}, err
		}
		defer release()
		result, err := r.load(ctx, part)
		progress := result.Progress
		progress.Done = 1
		return result, progress, err
	})
}

func (r *Run) load(ctx context.Context, part int) (load.Result, error) {
	models, err := r.models()
	if err != nil {
		return load.Result{}, err
	}
	env, fixed, release, err := r.items(ctx)
	defer release()
	if err != nil {
		return load.Result{}, err
	}
	unweigh, err := r.weigh(ctx, fixed.Frozen, &models)
	defer unweigh()
	if err != nil {
		return load.Result{}, err
	}
	partitions, shard, err := r.half(ctx, part)
	if err != nil {
		return load.Result{}, err
	}
	in := load.In{
		Env: env, Scratch: r.Scratch.Prefix, Classes: r.Records, Vectors: r.Vectors, OnProgress: r.alive,
		Source: embed.Source{Embedder: models.Classes, Ledger: r.Ledger},
	}
	if shard < 0 {
		in.Import = fixed.Import.Classes
		if err := r.Vectors.Create(ctx, fixed.Collections.Classes, fixed.Class.Dimension); err != nil {
			return load.Result{}, err
		}
		from, _ := reduce.Bounds(part, partitions.Partitions)
		return load.Classes(
			ctx, in, part, reduce.Key(r.Scratch.Prefix, part), shorten.Key(r.Scratch.Prefix, part), from)
	}
	in.Import = fixed.Import.Chunks
	in.Source.Embedder = models.Chunks
	if err := r.Vectors.Create(ctx, fixed.Collections.Chunks, fixed.Chunk.Dimension); err != nil {
		return load.Result{}, err
	}
	chunks, err := r.shardItems(ctx, shard)
	if err != nil {
		return load.Result{}, err
	}
	return load.Chunks(ctx, in, shard, chunks, partitions.Bases[shard])
}

// Import has the vector store import what load wrote for collections that are new.
func (r *Run) Import(ctx context.Context) error {
	fixed, err := r.fixed(ctx)
	if err != nil {
		return err
	}
	partitions, err := partitionsFile.Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	shards, err := shardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	kinds := []load.ImportIn{
		{Kind: "classes", Collection: fixed.Collections.Classes, Dimension: fixed.Class.Dimension},
		{Kind: "chunks", Collection: fixed.Collections.Chunks, Dimension: fixed.Chunk.Dimension},
	}
	for part := range partitions.Partitions + len(shards.Shards) {
		loaded, err := loadFile(part).Read(ctx, r.Scratch)
		if err != nil {
			return err
		}
		r.Progress.Touch()
		if kind := &kinds[min(1, part/partitions.Partitions)]; loaded.Vectors.SHA256 != "" {
			kind.Files = append(kind.Files, loaded.Vectors)
		}
	}
	for number, wanted := range []bool{fixed.Import.Classes, fixed.Import.Chunks} {
		if !wanted {
			continue
		}
		in := kinds[number]
		in.Artifacts, in.Staging, in.Vectors = r.Index, r.Staging, r.Vectors
		in.State = r.Scratch.Key(importState(in.Kind))
		in.Prefix = "unweaver-import/" + r.StoreID[:8] + "/" + r.Scratch.Prefix + "/" + in.Kind
		in.Log = r.Log.With("run_id", r.Name(), "stage", "load", "kind", in.Kind)
		if err := load.Import(ctx, in); err != nil {
			return err
		}
	}
	return nil
}
