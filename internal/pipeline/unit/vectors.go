package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage"
	embedstage "github.com/unweaver/unweaver/internal/stage/embed"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/shorten"
)

// partOf says what a part of the stages with two kinds is: a class partition, or a shard of chunks.
func (r *Run) partOf(ctx context.Context, part int) (stage.Part, error) {
	partitions, err := run.ReadKept(ctx, r.BaseRun(), run.PartitionsFile)
	if err != nil {
		return stage.Part{}, err
	}
	if part < partitions.Partitions {
		reduced, err := r.reducedKey(ctx, part)
		if err != nil {
			return stage.Part{}, err
		}
		short, err := run.ReadKept(ctx, r.BaseRun(), run.ShortenFile(part))
		return stage.Part{Kind: stage.Classes, Number: part, Partition: stage.Partition{
			Reduced: reduced, Short: artifact.ScratchKey(shorten.Key(r.Scratch.Prefix, part), short.Rows),
		}}, err
	}
	number := part - partitions.Partitions
	shard, err := r.shardItems(ctx, number)
	return stage.Part{Kind: stage.Chunks, Number: number, Shard: shard}, err
}

// countTexts counts the classes or chunks of a part, if a model embeds them.
func (r *Run) countTexts(ctx context.Context, part int, piece stage.Part) (int64, error) {
	chunks, classes := r.Settings.Embedding.ByModel()
	switch {
	case piece.Kind == stage.Chunks && chunks:
		return int64(piece.Shard.To - piece.Shard.From), nil
	case piece.Kind == stage.Classes && classes:
		reduced, err := run.ReadKept(ctx, r.BaseRun(), run.ReduceFile(part))
		return max(0, reduced.Counts.Classes), err
	}
	return 0, nil
}

// sourceOf returns who embeds a part.
func (r *Run) sourceOf(models model.Set, part stage.Part) embed.Source {
	if part.Kind == stage.Classes {
		return embed.Source{Embedder: models.Classes, Ledger: r.Ledger}
	}
	return embed.Source{Embedder: models.Chunks, Ledger: r.Ledger}
}

// shardItems gives the segments of a shard of chunks.
func (r *Run) shardItems(ctx context.Context, number int) (join.Shard, error) {
	shard, chunked, err := r.readShard(ctx, number)
	if err != nil {
		return join.Shard{}, err
	}
	seal, err := run.SealFile(number).Read(ctx, r.Scratch)
	if err != nil {
		return join.Shard{}, err
	}
	return join.Shard{
		Unit: shard.Unit, Rows: r.ChunksKey(shard.Unit, chunked), From: shard.From, To: shard.To,
		Text: chunked.Text, Extract: seal.Extract,
	}, nil
}

// Embed pays for the new vectors of a class partition or of a shard of chunks.
func (r *Run) Embed(ctx context.Context, part int) (embedstage.Result, error) {
	return FinishUnit(ctx, r, run.EmbedFile(part), func(
		ctx context.Context, progress *core.Progress,
	) (out embedstage.Result, err error) {
		models, err := r.ModelSet()
		if err != nil {
			return out, err
		}
		env, fixed, release, err := r.openJoinEnv(ctx)
		defer release()
		if err != nil {
			return out, err
		}
		unweigh, err := r.weighEmbedders(ctx, fixed.Frozen, &models)
		defer unweigh()
		if err != nil {
			return out, err
		}
		piece, err := r.partOf(ctx, part)
		if err != nil {
			return out, err
		}
		out, err = embedstage.Run(ctx, embedstage.In{
			Env: env, Scratch: r.Scratch.Prefix, Part: piece, Source: r.sourceOf(models, piece),
			OnProgress: r.Progress.Report,
		})
		if err == nil {
			out.Progress.Done, err = r.countTexts(ctx, part, piece)
		}
		*progress = out.Progress
		return out, err
	})
}

// Load writes the new rows and records of a class partition, or the new rows of a shard of chunks.
func (r *Run) Load(ctx context.Context, part int) (load.Result, error) {
	return FinishBusy(ctx, r, run.LoadFile(part), func(ctx context.Context, progress *core.Progress) (load.Result, error) {
		result, err := r.loadPart(ctx, part)
		*progress = result.Progress
		progress.Done = 1
		return result, err
	})
}

func (r *Run) loadPart(ctx context.Context, part int) (load.Result, error) {
	models, err := r.ModelSet()
	if err != nil {
		return load.Result{}, err
	}
	env, fixed, release, err := r.openJoinEnv(ctx)
	defer release()
	if err != nil {
		return load.Result{}, err
	}
	unweigh, err := r.weighEmbedders(ctx, fixed.Frozen, &models)
	defer unweigh()
	if err != nil {
		return load.Result{}, err
	}
	piece, err := r.partOf(ctx, part)
	if err != nil {
		return load.Result{}, err
	}
	in := load.In{
		Env: env, Scratch: r.Scratch.Prefix, Part: piece, Classes: r.Records, Vectors: r.Vectors, OnProgress: r.TouchProgress,
		Source: r.sourceOf(models, piece), Import: fixed.Import.Chunks,
	}
	if table, ok := env.Table.(*stored.Table); ok && fixed.Part && piece.Kind == stage.Classes {
		reduced, err := run.ReadKept(ctx, r.BaseRun(), run.ReduceFile(part))
		if err != nil {
			return load.Result{}, err
		}
		in.Night = &load.Night{
			Table: table, Gone: artifact.ScratchKey(reduce.GoneKey(r.Scratch.Prefix, part), reduced.Gone),
		}
	}
	collection, dimension := fixed.Collections.Chunks, fixed.Chunk.Dimension
	if piece.Kind == stage.Classes {
		in.Import = fixed.Import.Classes
		collection, dimension = fixed.Collections.Classes, fixed.Class.Dimension
	}
	if err := r.GuardLease(ctx); err != nil {
		return load.Result{}, err
	}
	if err := r.Vectors.Create(ctx, collection, dimension); err != nil {
		return load.Result{}, err
	}
	return load.Run(ctx, in)
}

// Import lets the vector store import what load wrote for collections that are new.
func (r *Run) Import(ctx context.Context) error {
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return err
	}
	partitions, err := run.PartitionsFile.Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	shards, err := run.ShardsFile.Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	kinds := []load.ImportIn{
		{Kind: "classes", Collection: fixed.Collections.Classes, Dimension: fixed.Class.Dimension},
		{Kind: "chunks", Collection: fixed.Collections.Chunks, Dimension: fixed.Chunk.Dimension},
	}
	part := -1
	for loaded, err := range run.ReadEach(ctx, r.BaseRun(), partitions.Partitions+len(shards.Shards), run.LoadFile) {
		if err != nil {
			return err
		}
		part++
		r.Progress.Touch()
		if kind := &kinds[min(1, part/partitions.Partitions)]; loaded.Vectors.SHA256 != "" {
			kind.Files = append(kind.Files, loaded.Vectors)
		}
	}
	wanted := []bool{fixed.Import.Classes, fixed.Import.Chunks}
	progress, err := r.beginImport(ctx, kinds, wanted)
	if err != nil {
		return err
	}
	defer progress.Drop()
	var imported int64 // rows of the kinds before
	for number := range kinds {
		if !wanted[number] {
			continue
		}
		in := kinds[number]
		in.Artifacts, in.Staging, in.Vectors = r.Index, r.Staging, r.Vectors
		in.State = r.Scratch.Key(run.ImportState(in.Kind))
		in.Prefix = core.ImportPrefix(r.StoreID) + r.Scratch.Prefix + "/" + in.Kind
		in.Guard = r.GuardLease
		before := imported
		in.OnProgress = func(rows core.Progress) {
			r.Progress.Touch()
			progress.SetDone(before + rows.Done)
		}
		for _, file := range in.Files {
			imported += file.Rows
		}
		in.Log = r.Log.With("run_id", r.Name(), "stage", "load", "kind", in.Kind)
		if err := load.Import(ctx, in); err != nil {
			return err
		}
	}
	progress.Finish(core.Progress{Done: imported})
	return nil
}

// beginImport shows the import as a stage of its own, since it can take longer than all the rest of load.
func (r *Run) beginImport(ctx context.Context, kinds []load.ImportIn, wanted []bool) (*run.Progress, error) {
	var rows int64
	for number, in := range kinds {
		for _, file := range in.Files {
			if wanted[number] {
				rows += file.Rows
			}
		}
	}
	state, err := r.ReadState(ctx)
	if err != nil {
		return nil, err
	}
	r.Book.SetStage(core.StageImport)
	holder := run.Holder{Workflow: state.Workflow, Run: state.RunID}
	return &run.Progress{Stage: core.StageImport, Book: r.Book}, r.BeginStage(ctx, holder, core.StageImport, rows)
}
